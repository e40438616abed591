"""How the blocks of a tiled GEMM kernel come over a GPU: in waves, and what they ask of main memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .gemm import MAX_REREADS, Gemms
from .gemm_core import Machine
from .tilings import Blocks
from .times import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """Waves that are alike; every attribute is `[count]`.

    Attributes:
        num: How many follow one another.
        resident: Blocks on the busiest SM.
        blocks: Blocks on the chip.
    """

    num: Floats
    resident: Floats
    blocks: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """How kernels walk over their results; every attribute is `[count]`.

    Attributes:
        macs: Multiply-accumulates that are useful.
        num_blocks: Tiles of the result, one block each.
        num_steps: Steps of the reduction.
        waves: Full waves, and the last one where it is not full.
        cold_share: Operands that come from main memory over all of them, at their first use.
        traffic_bytes: Bytes from and to main memory.
    """

    macs: Floats
    num_blocks: Floats
    num_steps: Floats
    waves: tuple[Wave, Wave]
    cold_share: Floats
    traffic_bytes: Floats


def walk_of(products: Gemms, columns: Floats, blocks: Blocks, machine: Machine) -> Walk:
    """How kernels walk over their results.

    Args:
        products: What is multiplied.
        columns: Sizes and bytes of the products, as `Gemms.columns` gives them `[count, 8]`.
        blocks: Blocks of each; all fit.
        machine: The chip.
    """
    tilings = blocks.tilings
    m, n, k, count, cold_a, cold_b, stored, _ = columns.T
    a_bytes, b_bytes, _ = products.element_bytes()
    tiles_m, tiles_n = np.ceil(m / tilings.tile_m), np.ceil(n / tilings.tile_n)
    num_blocks = count * tiles_m * tiles_n
    waves = _waves(num_blocks, blocks.needs.resident, machine.num_sms)
    operands = count * k * (m * a_bytes + n * b_bytes)
    walked = np.zeros_like(operands)
    for wave in waves:
        rows, cols = _spanned(wave.blocks, tiles_m, tiles_n, tilings.group_m)
        walked = walked + wave.num * k * (rows * tilings.tile_m * a_bytes + cols * tilings.tile_n * b_bytes)
    cold = cold_a + cold_b
    # What fits in the cache is there for later waves; a walk beyond it rereads, but no more than with the best order.
    is_reread = (operands > machine.cache_bytes) & (cold > 0)
    reread = np.minimum(walked, MAX_REREADS * operands) * is_reread
    return Walk(
        macs=count * m * n * k,
        num_blocks=num_blocks,
        num_steps=np.ceil(k / tilings.tile_k),
        waves=waves,
        cold_share=cold / operands,
        traffic_bytes=np.maximum(cold, reread) + stored,
    )


def _waves(num_blocks: Floats, resident: Floats, num_sms: float) -> tuple[Wave, Wave]:
    """Full waves, and what is left, which goes to all SMs alike."""
    at_once = resident * num_sms
    full = np.floor(num_blocks / at_once)
    rest = num_blocks - full * at_once
    last = Wave(num=(rest > 0).astype(np.float64), resident=np.ceil(rest / num_sms), blocks=rest)
    return Wave(num=full, resident=resident, blocks=at_once), last


def _spanned(blocks: Floats, tiles_m: Floats, tiles_n: Floats, group_m: Floats) -> tuple[Floats, Floats]:
    """Rows and columns of tiles that so many consecutive blocks span.

    Blocks go down `group_m` rows of tiles, then to the next column, and over all columns before the next rows.
    """
    down = np.minimum(group_m, tiles_m)
    rows = np.minimum(tiles_m, down * np.ceil(blocks / (down * tiles_n)))
    return rows, np.minimum(tiles_n, np.ceil(blocks / down))
