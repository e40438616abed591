"""Detailed latency against Gemmini's RTL: layers with their mappings, simulated cycle by cycle in FireSim.

    python benchmarks/gemmini_firesim.py --csv ../shared/data/model_reference/gemmini_firesim.csv [--rows] [--ablation]

The measurements are those of DOSA (Hong et al., MICRO 2023; github.com/ucb-bar/dosa, BSD-2). Nothing here is
fitted to them: constants come from the preset `gemmini_16x16`, which names its sources, and from the
programs that were run (gemmini-rocc-tests, `gemmini-data-collection/templates/*_tilings.c`, `include/gemmini.h`
at 928aba8). What those programs do is told in docs/latency.md.

A mapping string lists levels outermost first: `L3` main memory, `L2` scratchpad, `L1` accumulator, `L0` PE
register; in brackets the tensors kept; then loops, `X` for spatial ones.
"""

from __future__ import annotations

import argparse
import csv
import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tileloom.archdsl import (
    Keep,
    Mapping,
    MappingNode,
    Memory,
    Op,
    Spatial,
    SpatialArch,
    Temporal,
    Tensor,
    TensorAxis,
    TensorRole,
    load_arch,
    require_legal,
)
from tileloom.models import CONVENTIONS, Part, Timing, bottleneck_of, detailed_batch, hierarchy_of, nest_of, timing_of

DEFAULT_CSV = Path(__file__).parents[2] / "shared/data/model_reference/gemmini_firesim.csv"
DIMS = "NKCPQRS"
NAMES = {"N": "B", "K": "K", "C": "C", "P": "OX", "Q": "OY", "R": "FX", "S": "FY"}
"""The data's dims in this project's letters: in the programs P and R run along the columns of the image."""
PES = 16
BOUNDS = {"median": 0.15, "p90": 0.35, "bias": 0.05, "rank": 0.985}

MEMORY_SYSTEM = {
    "hierarchy.main_memory.read_bandwidth": "8 B/cycle",
    "hierarchy.main_memory.write_bandwidth": "8 B/cycle",
    "hierarchy.main_memory.ports": {"read": 0, "write": 0, "read_write": 1},
    "hierarchy.main_memory.min_transfer": "128 B",
    "hierarchy.main_memory.latency": "100 cycles",
    "hierarchy.main_memory.source": (
        "8 B/cycle: DRAM shared_bandwidth in DOSA's dataset/hw/gemmini/arch/arch.yaml, Chipyard's 64-bit memory port; one "
        "DRAM bus for both directions; moved in blocks of the last-level cache; assumption: 100 cycles to the first data"
    ),
}


def cache(name: str, capacity: str, bandwidth: str, source: str) -> Memory:
    """A cache between the accelerator and DRAM, which serves whole 64-byte lines in either direction."""
    return Memory.model_validate(
        {
            "kind": "memory",
            "name": name,
            "class": "cache",
            "capacity": capacity,
            "read_bandwidth": bandwidth,
            "write_bandwidth": bandwidth,
            "ports": {"read": 1, "write": 1},
            "min_transfer": "64 B",
            "source": source,
        },
        context={"yaml": True},
    )


LAST_LEVEL_CACHE = cache(
    "last_level_cache",
    "4 MiB",
    "8 B/cycle",
    "4096 sets x 8 ways of FireSim's FRFCFS16GBQuadRankLLC4MB with its default blocks of 128 bytes (mm_llc_blockBits=7), "
    "behind the 64-bit memory port with separate channels for reading and writing",
)
L2_CACHE = cache(
    "l2",
    "512 KiB",
    "16 B/cycle",
    "512 KiB with 64-byte lines: Chipyard's default for Gemmini (CustomSoCConfigs.scala); 128-bit system bus: Configs.scala",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measurement."""

    text: str
    op: Op
    mapping: Mapping
    arch: SpatialArch
    cycles: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Errors of a set of estimates: absolute and signed relative errors, and rank correlation."""

    median: float
    p90: float
    bias: float
    rank: float

    def misses(self) -> list[str]:
        """Bounds that are not met."""
        bad = [name for name in ("median", "p90") if getattr(self, name) > BOUNDS[name]]
        bad += ["bias"] if abs(self.bias) > BOUNDS["bias"] else []
        return bad + (["rank"] if self.rank < BOUNDS["rank"] else [])


def parse_mapping(text: str) -> tuple[list[tuple[str, int]], dict[str, int]]:
    """Loops outside the tile (dim, factor), outermost first, and the tile's extent per dim."""
    outer: list[tuple[str, int]] = []
    tile = dict.fromkeys(DIMS, 1)
    levels = [part.split() for part in text.split(" - ")]
    if [level[0][:2] for level in levels] != ["L3", "L2", "L1", "L0"]:
        raise ValueError(f"mapping '{text}' does not list L3, L2, L1 and L0")
    for level in levels:
        for word in level[1:]:
            match = re.fullmatch(rf"([{DIMS}])(\d+)X?", word)
            if match is None:
                raise ValueError(f"mapping '{text}': '{word}' is no loop")
            dim, factor = match[1], int(match[2])
            if level[0].startswith("L3"):
                outer += [(dim, factor)] if factor > 1 else []
            else:
                tile[dim] *= factor
    return outer, tile


def is_matmul(sizes: dict[str, int]) -> bool:
    """The programs run such layers as a matrix product, all others as a convolution."""
    return sizes["Q"] == sizes["R"] == sizes["S"] == 1


def make_op(sizes: dict[str, int], stride: int) -> Op:
    """The layer as the programs run it, channels last in memory, outputs stored as int8.

    They pad by half the kernel, so that an even kernel gives one more row and column than the data's P and Q.
    """
    sizes = dict(sizes)
    if not is_matmul(sizes):
        sizes["P"] = sizes["Q"] = (sizes["P"] * stride + 2 * (sizes["R"] // 2) - sizes["R"]) // stride + 1
    row = (("OY", stride), ("FY", 1)) if not is_matmul(sizes) else (("OY", 1), ("FY", 1))
    col = (("OX", stride), ("FX", 1)) if not is_matmul(sizes) else (("OX", 1), ("FX", 1))

    def tensor(name: str, role: TensorRole, *axes: tuple[tuple[str, int], ...]) -> Tensor:
        return Tensor(name=name, role=role, bits=8, axes=tuple(TensorAxis(terms=terms) for terms in axes))

    plain = {dim: ((dim, 1),) for dim in NAMES.values()}
    return Op(
        name="layer",
        kind="conv",
        dims=tuple((NAMES[dim], sizes[dim]) for dim in DIMS),
        datatype="int8",
        tensors=(
            tensor("I", TensorRole.INPUT, plain["B"], row, col, plain["C"]),
            tensor("W", TensorRole.WEIGHT, plain["FY"], plain["FX"], plain["C"], plain["K"]),
            tensor("O", TensorRole.OUTPUT, plain["B"], plain["OY"], plain["OX"], plain["K"]),
        ),
    )


def make_mapping(op: Op, outer: Sequence[tuple[str, int]], tile: dict[str, int]) -> Mapping:
    """The mapping with the order that Gemmini's loop unrollers give the inside of a tile.

    Outside the tile the mapping's own loops; inside, weights of 16 x 16 stay while all pixels of the tile
    stream by, up to 16 of one image row per instruction (LoopConv.scala, LoopMatmul.scala).
    """
    extent = {dim: min(tile[dim], op.sizes[NAMES[dim]]) for dim in DIMS}
    nodes: list[MappingNode] = [Keep(level="main_memory", tensors=("I", "W", "O"))]
    for idx, (dim, _) in enumerate(outer):
        inside = math.prod(factor for other, factor in outer[idx + 1 :] if other == dim)
        nodes.append(Temporal(dim=NAMES[dim], tile=min(extent[dim] * inside, op.sizes[NAMES[dim]])))
    nodes += [Keep(level="scratchpad", tensors=("I", "W")), Keep(level="accumulator", tensors=("O",))]
    rows, cols = min(extent["C"], PES), min(extent["K"], PES)
    nodes += [
        *(Temporal(dim=dim, tile=t) for dim, t in (("K", cols), ("FY", 1), ("FX", 1), ("C", rows))),
        Spatial(dim="C", tile=1, fanout="pe_array", axis="rows"),
        Spatial(dim="K", tile=1, fanout="pe_array", axis="cols"),
        Keep(level="register", tensors=("W",)),
        *(Temporal(dim=dim, tile=t) for dim, t in (("B", 1), ("OY", 1), ("OX", min(extent["P"], PES)), ("OX", 1))),
    ]
    return Mapping(nodes=tuple(nodes))


def make_arch(scratchpad_bytes: int, accumulator_entries: int) -> SpatialArch:
    """Gemmini with memories for two tiles: the data's sizes are what one tile takes."""
    arch = load_arch(
        "gemmini_16x16",
        {
            "hierarchy.scratchpad.capacity": f"{2 * scratchpad_bytes} B",
            "hierarchy.accumulator.capacity": f"{2 * accumulator_entries * PES * 4} B",
            **MEMORY_SYSTEM,
        },
    )
    assert isinstance(arch, SpatialArch)
    main_memory, *rest = arch.hierarchy
    return arch.model_copy(update={"hierarchy": (main_memory, LAST_LEVEL_CACHE, L2_CACHE, *rest)})


def read_rows(path: Path) -> list[Row]:
    """The rows of the file that hold a measurement."""
    found: list[Row] = []
    archs: dict[tuple[int, int], SpatialArch] = {}
    with path.open(newline="") as file:
        for line in csv.DictReader(text for text in file if not text.startswith("#")):
            if not line["target.gemmini_cycle"]:
                continue
            sizes = {dim: int(float(line[f"prob.{dim}"])) for dim in DIMS}
            key = int(float(line["arch.mem2_entries"])), int(float(line["arch.mem1_entries"]))
            if key not in archs:
                archs[key] = make_arch(*key)
            outer, tile = parse_mapping(line["mapping.mapping"])
            op = make_op(sizes, int(float(line["prob.Wstride"])))
            found.append(
                Row(
                    text=line["mapping.mapping"],
                    op=op,
                    mapping=make_mapping(op, outer, tile),
                    arch=archs[key],
                    cycles=float(line["target.gemmini_cycle"]),
                )
            )
    return found


def estimate(row: Row, change: Callable[[Timing], Timing] = lambda timing: timing) -> Part:
    """Detailed latency of a row; the programs run each layer once before, so that caches are warm."""
    require_legal(row.mapping, row.op, row.arch)
    nest, tiles = nest_of(row.op, row.mapping, hierarchy_of(row.arch))
    return detailed_batch(nest, tiles, change(timing_of(row.arch)), CONVENTIONS["tileloom"], warm_caches=True).at(0)


def score(estimates: Sequence[float], measured: Sequence[float]) -> Score:
    """Errors of estimates against measurements."""
    ours, truth = np.array(estimates), np.array(measured)
    error = ours / truth - 1
    ranks = [np.argsort(np.argsort(values, kind="stable"), kind="stable") for values in (ours, truth)]
    return Score(
        median=float(np.median(np.abs(error))),
        p90=float(np.percentile(np.abs(error), 90)),
        bias=float(np.mean(error)),
        rank=float(np.corrcoef(ranks[0], ranks[1])[0, 1]),
    )


def levels_changed(**fields: object) -> Callable[[Timing], Timing]:
    """A change of the same fields in every memory."""
    return lambda timing: replace(timing, levels=tuple(replace(x, **fields) for x in timing.levels))  # pyright: ignore[reportArgumentType]


def array_changed(**fields: object) -> Callable[[Timing], Timing]:
    """A change of the PE array's fields."""
    return lambda timing: replace(timing, array=replace(timing.array, **fields))  # pyright: ignore[reportArgumentType]


def without_cache(timing: Timing) -> Timing:
    """No cache that could hold an op."""
    return replace(timing, levels=tuple(replace(x, capacity_bytes=0.0) if x.is_cache else x for x in timing.levels))


ABLATIONS: dict[str, Callable[[Timing], Timing]] = {
    "all effects": lambda timing: timing,
    "weights load for free": array_changed(load_cycles=0),
    "no limit of products in the array": array_changed(max_in_flight=None),
    "one instruction per pass": array_changed(instruction_steps=None),
    "short rows not rounded up to lines": levels_changed(min_transfer_bytes=1),
    "tiles kept between steps": levels_changed(keeps_tiles=True),
    "strided holes skipped": levels_changed(skips_holes=True),
    "no double buffering": levels_changed(double_buffered=False),
    "no cache": without_cache,
    "no scaling units on the way out": lambda timing: replace(timing, vector_lanes=0),
}


def without_exposure(part: Part) -> float:
    """A latency less first loads, last stores, filling and draining."""
    hidden = ("first load", "last store", "filling and draining")
    return part.amount - sum(p.amount for p in part.walk() if p.name.startswith(hidden))


def print_score(name: str, result: Score) -> None:
    """One line of a table."""
    print(
        f"{name:36}{100 * result.median:9.1f} %{100 * result.p90:9.1f} %{100 * result.bias:+9.1f} %{result.rank:11.4f}"
    )


def main() -> int:
    """Prints the comparison; 1 when a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", type=Path, default=DEFAULT_CSV, help="rows measured in FireSim")
    parser.add_argument("--rows", action="store_true", help="print every row")
    parser.add_argument("--ablation", action="store_true", help="switch effects off one at a time")
    args = parser.parse_args()
    rows = read_rows(args.csv)
    measured = [row.cycles for row in rows]
    parts = [estimate(row) for row in rows]
    if args.rows:
        for row, part in zip(rows, parts, strict=True):
            error = 100 * (part.amount / row.cycles - 1)
            print(f"{row.cycles:12.0f}{part.amount:14.0f}{error:+8.1f} %  {bottleneck_of(part):28}{row.text}")
    print(f"{f'{len(rows)} layers on Gemmini RTL':36}{'median':>11}{'90th pct':>11}{'bias':>11}{'rank corr.':>11}")
    result = score([part.amount for part in parts], measured)
    print_score("detailed latency", result)
    if args.ablation:
        for name, change in ABLATIONS.items():
            print_score(f"  {name}", score([estimate(row, change).amount for row in rows], measured))
        print_score("  no exposed load, store, fill, drain", score([without_exposure(p) for p in parts], measured))
    misses = result.misses()
    print("bounds: " + ("all met" if not misses else f"missed: {', '.join(misses)}"))
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
