"""How many mappings the counting core prices per second on one core.

A full evaluation is all counts of every level and tensor, energy, throughput latency and the capacity check.
Targets: 5 million a second for a matrix product on three levels, 2 million for a seven-dimensional
convolution on four levels, and a rate that does not depend on the size of the PE array.

    python benchmarks/evaluation.py [--batch 262144] [--repeats 5]
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

from tileloom.archdsl import Op, SpatialArch, arch_from_tree, load_tree, parse_notation
from tileloom.models import CONVENTIONS, Holder, NestLoop, estimate_batch, hierarchy_of, make_nest, prices_of, resolve

TARGETS = {"gemm": 5e6, "conv": 2e6}


def main() -> int:
    """Prints the table; returns 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=1 << 18, help="mappings per evaluation")
    parser.add_argument("--repeats", type=int, default=5, help="evaluations, of which the median counts")
    options = parser.parse_args()
    gemm = parse_notation("gemm:M=512,N=512,K=512,bits=8")
    conv = parse_notation("conv:B=4,K=64,C=64,OY=64,OX=64,FY=4,FX=4,bits=8")
    print(f"{'op':<6}{'levels':>7}{'array':>10}{'million evaluations/s':>24}{'target':>8}")
    is_met = True
    for name, op, num_levels in (("gemm", gemm, 3), ("conv", conv, 4)):
        for size in (8, 64, 512):
            rate = statistics.median(_rates(op, _arch(size, num_levels), options.batch, options.repeats))
            is_met = is_met and rate >= TARGETS[name]
            print(f"{name:<6}{num_levels:>7}{f'{size}x{size}':>10}{rate / 1e6:>24.2f}{TARGETS[name] / 1e6:>8.0f}")
    return 0 if is_met else 1


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


def _rates(op: Op, arch: SpatialArch, batch: int, repeats: int) -> list[float]:
    """Evaluations per second of CPU time of batches of random aligned tilings."""
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
    tiles = _random_tiles(op, [loop.dim for loop in loops], batch)
    prices = prices_of(resolve(arch), op.datatype)
    rates: list[float] = []
    for _ in range(repeats):
        started = time.process_time()
        estimate_batch(nest, tiles, prices, CONVENTIONS["tileloom"])
        rates.append(batch / (time.process_time() - started))
    return rates


def _random_tiles(op: Op, loop_dims: list[str], batch: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Tiles that are powers of two, each at most the next outer one of its dim; the last of a dim is 1."""
    rng = np.random.default_rng(0)
    extent = {dim: np.full(batch, float(size)) for dim, size in op.dims}
    last = {dim: idx for idx, dim in enumerate(loop_dims)}
    tiles = np.ones((len(loop_dims), batch))
    for idx, dim in enumerate(loop_dims):
        if idx != last[dim]:
            cut = rng.integers(0, 4, batch)
            tiles[idx] = np.maximum(extent[dim] / 2.0**cut, 1.0)
        extent[dim] = tiles[idx]
    return tiles


if __name__ == "__main__":
    raise SystemExit(main())
