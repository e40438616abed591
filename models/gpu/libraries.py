"""Libraries of GEMM kernels: which tiles and which splits of the reduction each has for a shape.

All are priced by the same loop (`gemm_core`); a library only says what the loop may choose from, and how the parts of a split
reduction come together. The menus are facts of the libraries' sources.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from ...archdsl import ModelError, nearest_hint

LibraryName = Literal["vendor", "vendor_int8", "vendor_simt", "weight_only", "block_scaled", "scaled_fp8"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Menu:
    """Tiles for results of some number of rows.

    Attributes:
        most_rows: Rows of the result up to which it holds.
        tiles: Rows and columns of the tiles; all that the chip's accumulators hold when empty.
        step_stages: Stages of 128 bytes of an operand's row that one step of the main loop takes.
    """

    most_rows: float = math.inf
    tiles: tuple[tuple[int, int], ...] = ()
    step_stages: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A library of GEMM kernels.

    Attributes:
        menus: Its tiles, by ascending rows of the result; the last holds for all larger ones.
        splits: Parts that it may cut a reduction into, ascending.
        takes_turns: Whether the blocks of a split add to the result one after another, instead of a second kernel's summing.
        is_ampere: Whether its kernels are those of Ampere on every chip: warps that load registers and wait at each step, no clusters.
        issued_share: Share of the instructions of a main loop on the vector units that multiply.
        cluster_rows: Tiles along m that run as one cluster where the result has more than one: their number is rounded up.
    """

    menus: tuple[Menu, ...] = (Menu(),)
    splits: tuple[int, ...] = (1,)
    takes_turns: bool = False
    is_ampere: bool = False
    issued_share: float = 1.0
    cluster_rows: int = 1


SUM_BITS: Final = 32
"""Bits of a sum of int8 products."""

INT8_TILES: Final = (
    (32, 128), (32, 256), (64, 64), (64, 128), (64, 256), (128, 32), (128, 64), (128, 128), (128, 256), (256, 32), (256, 64), (256, 128),
)  # fmt: skip
"""Tiles of CUTLASS 2.x's 8-bit products."""

LIBRARIES: Final[dict[LibraryName, Library]] = {
    # cuBLAS, which offers splits up to 32.
    "vendor": Library(splits=(1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32)),
    # cuBLAS for int8 with int32 results: CUTLASS 2.x's kernels (`cutlass_80_tensorop_i16832gemm_s8_256x128_64x3_tn_align16`) also on
    # later chips. PyTorch's `_int_mm` gives them no workspace, so that no reduction is split.
    "vendor_int8": Library(
        menus=(Menu(tiles=INT8_TILES),),
        is_ampere=True,
    ),
    # cuBLAS without tensor cores: CUTLASS 2.x's `cutlass_80_simt_sgemm_128x64_8x5_tn_align1` and alike. Threads with 8 x 8 results have
    # 64 multiplications for 4 loads of 16 bytes and about as much for addresses.
    "vendor_simt": Library(
        menus=(Menu(tiles=((32, 128), (128, 32), (64, 64), (64, 128), (128, 64), (128, 128), (128, 256), (256, 128))),),
        splits=(1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32),
        is_ampere=True,
        issued_share=64 / 72,
    ),
    # TensorRT-LLM's mixed products (fpA_intB_gemm): CUTLASS with serial split-K, at most 7 parts; below 16 rows a batched
    # matrix-vector kernel (weightOnlyBatchedGemv), whose threads take two stages at a time.
    "weight_only": Library(
        menus=(
            Menu(most_rows=15, tiles=((16, 128),), step_stages=2),
            Menu(tiles=((16, 128), (32, 128), (64, 128), (128, 128))),
        ),
        splits=(1, 2, 3, 4, 5, 6, 7),
        takes_turns=True,
    ),
    # TensorRT-LLM's NVFP4 products: CUTLASS for tcgen05 with block scales, whose instruction has 128 rows; no split-K.
    "block_scaled": Library(menus=(Menu(tiles=((128, 64), (128, 128), (128, 192), (128, 256))),)),
    # vLLM's cutlass_scaled_mm for fp8 on Hopper: the number of rows decides; small ones swap A and B; clusters of 2 x 1.
    "scaled_fp8": Library(
        menus=(
            Menu(most_rows=16, tiles=((16, 64),)),
            Menu(most_rows=64, tiles=((16, 64), (64, 64))),
            Menu(most_rows=128, tiles=((64, 128),)),
            Menu(tiles=((128, 128),)),
        ),
        cluster_rows=2,
    ),
}
"""Libraries by name.

Source: cuBLAS documentation, names of its kernels in published traces and pytorch/pytorch issue 187094 (`_int_mm` without a workspace); CUTLASS
2.x's generator (tiles of 8-bit and of SIMT kernels); recalled: TensorRT-LLM, cutlass_kernels/cutlass_heuristic.cpp (tiles, `split_k_limit` of 7) and
fp4_gemm; vLLM, csrc/quantization/w8a8/cutlass/c3x/scaled_mm_sm90_fp8_dispatch.cuh."""


def vendor_library_of(datatype: str, output_bits: int, is_tensor: bool) -> LibraryName:
    """Which of the vendor's kernels multiply a datatype; int8 whose results are no sums has frameworks' own, made for the chip."""
    if not is_tensor:
        return "vendor_simt"
    return "vendor_int8" if datatype == "int8" and output_bits == SUM_BITS else "vendor"


def library_of(name: LibraryName) -> Library:
    """A library by name.

    Raises:
        ModelError: There is none of that name.
    """
    if name not in LIBRARIES:
        raise ModelError(f"unknown GEMM library '{name}'{nearest_hint(name, LIBRARIES)}; known: {', '.join(LIBRARIES)}")
    return LIBRARIES[name]
