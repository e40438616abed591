"""What one estimate of a GPU kernel costs.

Per family of kernels: one estimate in a batch of 10,000 random shapes, and alone, in processor time of one core, which other
work on the machine disturbs less than the clock on the wall. Targets: 5 us in a batch, 2 ms alone; medians count, and the
least is printed beside them. `command_speed.py` times plans of served models and commands.

    python benchmarks/gpu_kernel_speed.py [--batch 10000] [--repeats 7] [--arch h100_sxm]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

from tileloom.archdsl import GpuArch, load_arch
from tileloom.models import make_chip
from tileloom.models.gpu.attention import Attentions
from tileloom.models.gpu.chip import Chip
from tileloom.models.gpu.convolution import Convolutions
from tileloom.models.gpu.gemm import Gemms
from tileloom.models.gpu.memory_bound import MemoryKernels
from tileloom.models.gpu.times import Ints, Kernels

BATCH_TARGET_S, ALONE_TARGET_S = 5e-6, 2e-3
NUM_ALONE = 50
FORMAT = "{:<34}{:>12}{:>12}{:>12}{:>10}"


def main() -> int:
    """Prints the tables; returns 1 when a median misses its target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=10_000, help="kernels per batch")
    parser.add_argument("--repeats", type=int, default=7, help="repeats, of which the median counts")
    parser.add_argument("--arch", default="h100_sxm", help="GPU that kernels are priced on")
    options = parser.parse_args()
    arch = load_arch(options.arch)
    if not isinstance(arch, GpuArch):
        parser.error(f"{arch.name} is of kind {arch.kind}; kernels run on GPUs")
    chip = make_chip(arch)
    print(FORMAT.format("one estimate", "median", "least", "target", "met"))
    missed = [
        not _print_row(f"{name}, in {num:,}" if num > 1 else f"{name}, alone", times, target_s)
        for name, make in FAMILIES.items()
        for num, target_s, times in (
            (options.batch, BATCH_TARGET_S, _per_kernel(make, chip, options.batch, options.repeats)),
            (1, ALONE_TARGET_S, _per_kernel(make, chip, 1, NUM_ALONE)),
        )
    ]
    return int(any(missed))


def _print_row(name: str, times_s: list[float], target_s: float) -> bool:
    median = statistics.median(times_s)
    cells = [f"{1e6 * value:.3g} us" for value in (median, min(times_s), target_s)]
    print(FORMAT.format(name, *cells, "yes" if median <= target_s else "NO"), flush=True)
    return median <= target_s


def _per_kernel(make: Callable[[int], Kernels], chip: Chip, num: int, repeats: int) -> list[float]:
    """Processor time of one of `num` kernels, per repeat [s]; the first call, which compiles, is left out."""
    kernels = make(num)
    kernels.times(chip)
    found: list[float] = []
    for _ in range(repeats):
        started_s = time.process_time()
        kernels.times(chip)
        found.append((time.process_time() - started_s) / num)
    return found


def _sizes(num: int, low: int, high: int, seed: int, multiple: int = 1) -> Ints:
    """Whole numbers at even ratios; the same for every run."""
    drawn = np.exp(np.random.default_rng(seed).uniform(np.log(low), np.log(high), num))
    return np.maximum(1, np.round(drawn / multiple).astype(np.int64)) * multiple


def _gemms(num: int) -> Kernels:
    is_cold = np.zeros(num, dtype=np.bool_)
    return Gemms(
        m=_sizes(num, 1, 16384, 1),
        n=_sizes(num, 64, 32768, 2),
        k=_sizes(num, 64, 32768, 3),
        datatype="bf16",
        weights_in_cache=is_cold,
        inputs_in_cache=is_cold,
    )


def _attentions(num: int) -> Kernels:
    query_len = np.where(np.arange(num) % 2, 1, _sizes(num, 16, 16384, 1))
    return Attentions(
        batch=_sizes(num, 1, 64, 2),
        query_heads=np.full(num, 32),
        kv_heads=np.full(num, 8),
        head_dim=np.full(num, 128),
        query_len=query_len,
        kv_len=np.maximum(query_len, _sizes(num, 16, 16384, 3)),
        window=np.zeros(num, dtype=np.int64),
        datatype="bf16",
    )


def _memory_kernels(num: int) -> Kernels:
    return MemoryKernels(
        op="softmax",
        datatype="bf16",
        rows=_sizes(num, 1, 65536, 1),
        cols=_sizes(num, 64, 65536, 2),
        inputs_in_cache=np.zeros(num, dtype=np.bool_),
    )


def _convolutions(num: int) -> Kernels:
    channels = _sizes(num, 8, 1024, 1, multiple=8)
    return Convolutions(
        batch=_sizes(num, 1, 64, 2),
        in_channels=channels,
        out_channels=np.where(np.arange(num) % 4, _sizes(num, 8, 1024, 3, multiple=8), channels),
        kernel=np.random.default_rng(4).choice(np.array([1, 3, 5]), num),
        stride=np.random.default_rng(5).choice(np.array([1, 2]), num),
        in_size=_sizes(num, 7, 224, 6),
        groups=np.where(np.arange(num) % 4, 1, channels),
        datatype="bf16",
    )


FAMILIES: dict[str, Callable[[int], Kernels]] = {
    "GEMM": _gemms,
    "attention": _attentions,
    "softmax": _memory_kernels,
    "convolution": _convolutions,
}

if __name__ == "__main__":
    sys.exit(main())
