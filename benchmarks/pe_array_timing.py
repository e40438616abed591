"""How far the closed form of the PE array's kernels is from event replay, and how many kernels it times per second.

Random matrix products and convolutions on arrays from 4x4 to 32x32, at latencies from 1 to 200 cycles and 1 to 8
cycles per beat. A kernel's regime is the largest of what its execute unit, loads and stores need; it is latency bound
when waiting takes more than that. Bounds: 2 % on average and 5 % at worst for programs of 1,000 cycles and more, 20
and 50 cycles for shorter ones.

    python benchmarks/pe_array_timing.py [--num 500] [--seed 0]
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from random import Random

import numpy as np

from tileloom.archdsl import PeArray, SpatialArch, load_arch, pe_array
from tileloom.compiler import ConvKernel, ConvShape, ProgramBuilder, gemm_shape, kernel_timing, layout_of
from tileloom.models import KernelTiming, replay, time_kernels

SIZES = ((4, 4, 4), (8, 8, 8), (16, 16, 16), (4, 16, 4), (16, 4, 4), (32, 32, 32), (8, 8, 4), (16, 16, 4))
LANES = (None, 1)
LARGE_CYCLES = 1000
MOST_STEPS = 3000
LARGE_SHAPES = (
    ("gemm 512x512x512", gemm_shape(512, 512, 512)),
    (
        "conv 3x3 56x56x64",
        ConvShape(
            height=56, width=56, channels=64, outputs=64, kernel_height=3, kernel_width=3, pad_top=1, pad_left=1,
            output_height=56, output_width=56,
        ),
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One kernel: its regime, cycles of replay and closed form, and seconds that the two took."""

    regime: str
    replayed: int
    estimated: int
    replay_s: float
    estimate_s: float


def main() -> int:
    """Prints the table; returns 1 when a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num", type=int, default=500, help="random kernels")
    parser.add_argument("--seed", type=int, default=0, help="seed of the kernels")
    options = parser.parse_args()
    rng = Random(options.seed)
    arrays = [_array(*sizes, lanes) for sizes in SIZES for lanes in LANES]
    _compare(arrays[0], gemm_shape(1, 1, 1), 1, 1)  # compiles
    rows: list[Row] = []
    while len(rows) < options.num:
        array, shape = rng.choice(arrays), _random_shape(rng)
        num_steps = kernel_timing(array, shape, layout_of(array, shape)).num_steps
        if num_steps <= MOST_STEPS:
            rows.append(_compare(array, shape, rng.choice((1, 5, 20, 60, 100, 200)), rng.choice((1, 1, 2, 4, 8))))
    is_met = _print_errors(rows)
    print(f"\n{'kernel':<20}{'array':>8}{'replay':>12}{'closed form':>13}{'replay':>11}{'closed form':>13}")
    for name, shape in LARGE_SHAPES:
        for array in (_array(8, 8, 8, None), _array(16, 16, 16, None), _array(32, 32, 32, None)):
            row = _compare(array, shape, 100, 1)
            size = f"{array.rows}x{array.cols}"
            print(
                f"{name:<20}{size:>8}{row.replayed:>12}{row.estimated:>13}{row.replay_s * 1e3:>8.1f} ms"
                f"{row.estimate_s * 1e3:>10.2f} ms"
            )
            is_met = is_met and abs(row.estimated / row.replayed - 1) <= 0.05
    _print_rate(rng, arrays)
    return 0 if is_met else 1


def _print_errors(rows: list[Row]) -> bool:
    print(f"{'regime':<10}{'size':<7}{'kernels':>8}{'exact':>8}{'mean error':>14}{'worst':>12}{'signed':>12}")
    is_met = True
    for regime in ("compute", "switch", "load", "store", "latency", "all"):
        for is_large in (False, True):
            some = [r for r in rows if regime in ("all", r.regime) and (r.replayed >= LARGE_CYCLES) == is_large]
            if not some:
                continue
            cycles, found = np.array([r.replayed for r in some]), np.array([r.estimated for r in some])
            errors = 100 * (found / cycles - 1) if is_large else (found - cycles).astype(np.float64)
            unit, bounds = ("%", (2, 5)) if is_large else ("cycles", (20, 50))
            mean, worst = float(np.abs(errors).mean()), float(np.abs(errors).max())
            is_met = is_met and mean <= bounds[0] and worst <= bounds[1]
            print(
                f"{regime:<10}{'large' if is_large else 'small':<7}{len(some):>8}{(found == cycles).mean():>8.1%}"
                f"{mean:>7.2f} {unit:<6}{worst:>6.2f} {unit:<6}{errors.mean():>5.2f} {unit}"
            )
    return is_met


def _print_rate(rng: Random, arrays: list[PeArray]) -> None:
    pairs: list[tuple[KernelTiming, PeArray]] = []
    while len(pairs) < 500:
        array, shape = rng.choice(arrays), _random_shape(rng)
        pairs.append((kernel_timing(array, shape, layout_of(array, shape)), array))
    kernels, found_arrays = [kernel for kernel, _ in pairs], [array for _, array in pairs]
    latency, beat = [1, 20, 100, 200] * 2, [1] * 4 + [4] * 4
    begin = time.perf_counter()
    found = time_kernels(kernels, found_arrays, latency_cycles=latency, cycles_per_beat=beat)
    taken_s = time.perf_counter() - begin
    steps = sum(kernel.num_steps for kernel in kernels) * len(latency)
    print(
        f"\n{found.cycles.size} evaluations of {steps / found.cycles.size:.0f} steps and {found.cycles.mean():.0f} cycles"
        f" on average: {found.cycles.size / taken_s:,.0f} a second, {taken_s / steps * 1e9:.0f} ns a step"
    )


def _compare(array: PeArray, shape: ConvShape, latency_cycles: int, cycles_per_beat: int) -> Row:
    layout = layout_of(array, shape)
    builder = ProgramBuilder(array)
    ConvKernel(builder, shape, layout).emit()
    program = builder.finish()
    begin = time.perf_counter()
    replayed = replay(array, program, latency_cycles=latency_cycles, cycles_per_beat=cycles_per_beat).cycles
    replay_s = time.perf_counter() - begin
    kernel = kernel_timing(array, shape, layout)
    begin = time.perf_counter()
    found = time_kernels([kernel], [array], latency_cycles=[latency_cycles], cycles_per_beat=[cycles_per_beat])
    estimate_s = time.perf_counter() - begin
    is_waiting = found.exposed[0, 0] + found.start_up[0, 0] > found.steady[0, 0]
    return Row(
        regime="latency" if is_waiting else found.bottleneck(),
        replayed=replayed,
        estimated=int(found.cycles[0, 0]),
        replay_s=replay_s,
        estimate_s=estimate_s,
    )


def _array(rows: int, cols: int, bus_bytes: int, lanes: int | None) -> PeArray:
    sizes = {"rows": rows, "cols": cols, "bus_bytes": bus_bytes, "scratchpad": "64 KiB"}
    changes: dict[str, object] = {f"parameters.{name}": value for name, value in sizes.items()}
    if lanes is not None:
        changes["hierarchy.mac.vector_lanes"] = lanes
    arch = load_arch("tpe_16x16", changes)
    assert isinstance(arch, SpatialArch)
    return pe_array(arch)


def _random_shape(rng: Random) -> ConvShape:
    """Products and convolutions, small and large: primes, single rows and columns, ragged edges, strides."""
    if rng.random() < 0.5:
        m, k, n = (1, 2, 7, 37, 64, 127, 256, 384), (1, 3, 17, 40, 100, 257), (1, 5, 16, 33, 100, 256)
        return gemm_shape(rng.choice(m), rng.choice(k), rng.choice(n))
    while True:
        kernel_height, kernel_width = rng.choice(((1, 1), (3, 3), (3, 1), (1, 5), (2, 2), (5, 5)))
        stride, dilation, pad = rng.choice((1, 1, 2, 3)), rng.choice((1, 1, 2)), rng.randint(0, 2)
        height, width = rng.randint(1, 28), rng.randint(1, 28)
        output_height = (height + 2 * pad - (kernel_height - 1) * dilation - 1) // stride + 1
        output_width = (width + 2 * pad - (kernel_width - 1) * dilation - 1) // stride + 1
        if output_height >= 1 and output_width >= 1:
            break
    return ConvShape(
        height=height, width=width, channels=rng.choice((1, 3, 8, 19, 32)), outputs=rng.choice((1, 4, 20, 64)),
        kernel_height=kernel_height, kernel_width=kernel_width, stride=stride, dilation=dilation, pad_top=pad,
        pad_left=pad, output_height=output_height, output_width=output_width,
    )  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
