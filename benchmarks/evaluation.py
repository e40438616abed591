"""How many mappings the counting core prices per second on one core.

A full evaluation is all counts of every level and tensor, energy, throughput latency and the capacity check.
Targets: 5 million a second for a matrix product on three levels, 2 million for a seven-dimensional
convolution on four levels, and a rate that does not depend on the size of the PE array nor on whether tiles divide.
One call of `estimate_op`, which returns trees of named parts, takes less than 1 ms.

    python benchmarks/evaluation.py [--batch 262144] [--repeats 5]
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

from tileloom.archdsl import (
    Keep,
    Mapping,
    Op,
    Spatial,
    SpatialArch,
    Temporal,
    arch_from_tree,
    load_arch,
    load_tree,
    parse_notation,
)
from tileloom.models import (
    CONVENTIONS,
    Holder,
    NestLoop,
    estimate_batch,
    estimate_op,
    hierarchy_of,
    make_nest,
    prices_of,
    resolve,
)

FloatArray = np.ndarray[tuple[int, int], np.dtype[np.float64]]

TARGETS = {"gemm": 5e6, "conv": 2e6}
SINGLE_TARGET_S = 1e-3
NUM_SINGLE = 200


def main() -> int:
    """Prints the table; returns 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=1 << 18, help="mappings per evaluation")
    parser.add_argument("--repeats", type=int, default=5, help="evaluations, of which the median counts")
    options = parser.parse_args()
    gemm = parse_notation("gemm:M=512,N=512,K=512,bits=8")
    conv = parse_notation("conv:B=4,K=64,C=64,OY=64,OX=64,FY=4,FX=4,bits=8")
    print(f"{'op':<6}{'levels':>7}{'array':>10}{'tiles':>10}{'million evaluations/s':>24}{'target':>8}")
    is_met = True
    for name, op, num_levels in (("gemm", gemm, 3), ("conv", conv, 4)):
        for size, is_ragged in ((8, False), (64, False), (512, False), (64, True)):
            rates = _rates(op, _arch(size, num_levels), options.batch, options.repeats, is_ragged)
            rate = statistics.median(rates)
            is_met = is_met and rate >= TARGETS[name]
            row = f"{name:<6}{num_levels:>7}{f'{size}x{size}':>10}{'ragged' if is_ragged else 'dividing':>10}"
            print(f"{row}{rate / 1e6:>24.2f}{TARGETS[name] / 1e6:>8.0f}")
    time_s = statistics.median(_single_times(gemm, options.repeats))
    print(f"one estimate of the matrix product: {time_s * 1e3:.2f} ms, target {SINGLE_TARGET_S * 1e3:.0f} ms")
    return 0 if is_met and time_s <= SINGLE_TARGET_S else 1


def _arch(size: int, num_levels: int) -> SpatialArch:
    """`ref16` with another array; a fourth level is one more register file inside it."""
    tree = load_tree("ref16")
    arch = arch_from_tree(tree, {"hierarchy.pe_array.axes.rows.size": size, "hierarchy.pe_array.axes.cols.size": size})
    assert isinstance(arch, SpatialArch)
    if num_levels == 3:
        return arch
    *outer, register, compute = arch.hierarchy
    latch = register.model_copy(update={"name": "inner_register"})
    return arch.model_copy(update={"hierarchy": (*outer, register, latch, compute)})


def _rates(op: Op, arch: SpatialArch, batch: int, repeats: int, is_ragged: bool = False) -> list[float]:
    """Evaluations per second of CPU time of batches of random tilings."""
    hierarchy = hierarchy_of(arch)
    dims = [dim for dim, size in op.dims if size > 1]
    axes = hierarchy.axes
    spatial = [NestLoop(dim=dims[-2], axis=axes[0]), NestLoop(dim=dims[-1], axis=axes[1])]
    outer = [NestLoop(dim=dim, axis=None) for dim in dims]
    inner = [NestLoop(dim=dim, axis=None) for dim in reversed(dims)]
    middle = [NestLoop(dim=dim, axis=None) for dim in dims] if len(hierarchy.levels) == 4 else []
    loops = [*outer, *spatial, *middle, *inner]
    places = [0, len(outer), len(outer) + 2, len(outer) + 2 + len(middle)][: len(hierarchy.levels)]
    chain = [Holder(level=level, num_loops=place) for level, place in enumerate(places)]
    nest = make_nest(op, hierarchy, loops, [chain for _ in op.tensors])
    tiles = _random_tiles(op, [loop.dim for loop in loops], batch, is_ragged)
    prices = prices_of(resolve(arch), op.datatype)
    rates: list[float] = []
    for _ in range(repeats):
        started = time.process_time()
        estimate_batch(nest, tiles, prices, CONVENTIONS["tileloom"])
        rates.append(batch / (time.process_time() - started))
    return rates


def _random_tiles(op: Op, loop_dims: list[str], batch: int, is_ragged: bool = False) -> FloatArray:
    """Tiles that are powers of two or any, each at most the next outer one of its dim; the last of a dim is 1."""
    rng = np.random.default_rng(0)
    extent = {dim: np.full(batch, float(size)) for dim, size in op.dims}
    last = {dim: idx for idx, dim in enumerate(loop_dims)}
    tiles = np.ones((len(loop_dims), batch))
    for idx, dim in enumerate(loop_dims):
        if idx != last[dim]:
            cut = 8.0 ** rng.random(batch) if is_ragged else 2.0 ** rng.integers(0, 4, batch)
            tiles[idx] = np.maximum(np.ceil(extent[dim] / cut), 1.0)
        extent[dim] = tiles[idx]
    return tiles


def _single_times(op: Op, repeats: int) -> list[float]:
    """Seconds of CPU time of one `estimate_op` on `ref16`, its legality check and component models included."""
    arch = load_arch("ref16")
    assert isinstance(arch, SpatialArch)
    loops = [Temporal(dim=dim, tile=16) for dim in ("N", "K", "M")]
    spread = [
        Spatial(dim=dim, tile=1, fanout=a.fanout, axis=a.name)
        for dim, a in zip("KN", hierarchy_of(arch).axes, strict=True)
    ]
    outer, inner, register = (
        Keep(level=memory.name, tensors=tensors)
        for memory, tensors in zip(arch.memories, (("A", "W", "Z"), ("A", "W", "Z"), ("W",)), strict=True)
    )
    mapping = Mapping(nodes=(outer, *loops, inner, *spread, register, Temporal(dim="M", tile=1)))
    times: list[float] = []
    for _ in range(repeats):
        started = time.process_time()
        for _ in range(NUM_SINGLE):
            estimate_op(op, mapping, arch)
        times.append((time.process_time() - started) / NUM_SINGLE)
    return times


if __name__ == "__main__":
    raise SystemExit(main())
