"""Ways to make one product, ranked by the model: what an autotuner measures first, or instead.

Example:
    product = TiledProduct(m=1024, n=4096, k=4096, datatype="bf16")
    rank_tilings(product, candidate_tilings(), make_chip(load_arch("h100_sxm"))).best.tiling
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product as combinations
from typing import Final

import numpy as np

from ...archdsl import Infeasible, InfeasibleError
from ..parts import Part
from .chip import Chip
from .gemm import Gemms
from .tiled_gemm import TiledGemms
from .tilings import Tiling, refusal_of

SIDES: Final = (16, 32, 64, 128, 256)
DEPTHS: Final = (32, 64, 128)
STAGES: Final = (2, 3, 4, 5)
WARPS: Final = (4, 8)
"""What candidates are made of. Source: the configurations of Triton's matrix-multiplication tutorial, and what lies between."""
LEAST_SIDE: Final = 64
"""Least longer side of a candidate's tile: smaller ones load more bytes than they multiply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TiledProduct:
    """C[m, n] = A[m, k] B[n, k]^T.

    Attributes:
        m: Rows of the result.
        n: Columns of it.
        k: Length of the reduction.
        datatype: What is multiplied.
        output_bits: Bits of an element of C.
        is_in_cache: Whether A and B were just used, and may be in the cache.

    Raises:
        ValueError: A side is below 1.
    """

    m: int
    n: int
    k: int
    datatype: str
    output_bits: int = 16
    is_in_cache: bool = False

    def __post_init__(self) -> None:
        for name in ("m", "n", "k"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it counts from 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedTiling:
    """A tiling with its price.

    Attributes:
        tiling: The tiling.
        time_s: Time of the kernel [s].
        reasoning: That time as a tree [s].
    """

    tiling: Tiling
    time_s: float
    reasoning: Part


@dataclass(frozen=True, slots=True, kw_only=True)
class TilingRanking:
    """Tilings of one product.

    Attributes:
        tilings: Those that fit, the fastest first; ties in the order given.
        refused: Why each of the others does not.
        notes: What was borrowed or approximated.
    """

    tilings: tuple[RankedTiling, ...]
    refused: tuple[Infeasible, ...]
    notes: tuple[str, ...]

    @property
    def best(self) -> RankedTiling:
        """The fastest."""
        return self.tilings[0]


def rank_tilings(product: TiledProduct, tilings: Sequence[Tiling], chip: Chip) -> TilingRanking:
    """Rank ways to make a product.

    Args:
        product: The product.
        tilings: The ways; at least one.
        chip: The GPU with its constants.

    Raises:
        InfeasibleError: None of them fits; the reason is that of the first.
        ModelError: The tensor cores do not multiply the datatype.
        ValueError: There are none.
    """
    if not tilings:
        raise ValueError("no tilings to rank; `candidate_tilings()` has some")
    needs = _kernels(product, tilings).blocks(chip).needs
    refused = [refusal_of(one, needs, idx, chip.arch) for idx, one in enumerate(tilings)]
    kept = [one for one, reason in zip(tilings, refused, strict=True) if reason is None]
    reasons = tuple(reason for reason in refused if reason is not None)
    if not kept:
        raise InfeasibleError(reasons[0])
    times = _kernels(product, kept).times(chip)
    order: list[int] = np.argsort(times.time_s, kind="stable").tolist()
    ranked = tuple(
        RankedTiling(tiling=kept[idx], time_s=float(times.time_s[idx]), reasoning=times.part(idx)) for idx in order
    )
    return TilingRanking(tilings=ranked, refused=reasons, notes=(*chip.notes, *times.notes))


def candidate_tilings() -> tuple[Tiling, ...]:
    """Tilings to start from on any GPU; `rank_tilings` refuses those that do not fit it."""
    return tuple(
        Tiling(tile_m=tile_m, tile_n=tile_n, tile_k=tile_k, stages=stages, warps=warps)
        for tile_m, tile_n, tile_k, stages, warps in combinations(SIDES, SIDES, DEPTHS, STAGES, WARPS)
        if max(tile_m, tile_n) >= LEAST_SIDE
    )


def _kernels(product: TiledProduct, tilings: Sequence[Tiling]) -> TiledGemms:
    num = len(tilings)
    return TiledGemms(
        products=Gemms(
            m=np.full(num, product.m),
            n=np.full(num, product.n),
            k=np.full(num, product.k),
            datatype=product.datatype,
            output_bits=product.output_bits,
            weights_in_cache=np.full(num, product.is_in_cache),
            inputs_in_cache=np.full(num, product.is_in_cache),
        ),
        tilings=tuple(tilings),
    )
