"""Where the SystemVerilog stands, in the order in which it is read."""

from __future__ import annotations

from pathlib import Path

SV_DIR = Path(__file__).parent / "sv"
FORMAL_DIR = Path(__file__).parent / "formal"
DESIGN = (
    "tpe_number_pkg", "tpe_fifo", "tpe_tokens", "tpe_fetch", "tpe_issue", "tpe_load", "tpe_arbiter", "tpe_scratchpad", "tpe_align",
    "tpe_skew", "tpe_array", "tpe_preload", "tpe_compute", "tpe_vector", "tpe_accumulator", "tpe_requantise", "tpe_float_round", "tpe_float32", "tpe_store", "tpe_shadow",
    "tpe_execute", "tpe_core",
)  # fmt: skip
BENCH = ("tpe_memory", "tpe_tb")


def sources(*, with_bench: bool = True, sv_dir: Path = SV_DIR) -> tuple[Path, ...]:
    """The `.sv` files after the generated package.

    Args:
        with_bench: Whether main memory and test bench come along.
        sv_dir: Their folder; a changed copy of ours, for one.
    """
    return tuple(sv_dir / f"{name}.sv" for name in (*DESIGN, *(BENCH if with_bench else ())))
