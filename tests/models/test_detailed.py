"""The detailed latency: its bounds, its parts, and hand-worked pipelines."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileloom.archdsl import Bandwidth, Mapping, Op, SpatialArch, Tensor, load_arch, parse_mapping, parse_notation
from tileloom.models import (
    CONVENTIONS,
    Part,
    Timing,
    bottleneck_of,
    count,
    detailed_batch,
    hierarchy_of,
    nest_of,
    price,
    resolve,
    timing_of,
)
from tileloom.models.estimate import estimate_op, prices_of

from ..random_cases import Case
from ..strategies import cases

RULES = CONVENTIONS["tileloom"]
SOURCE = "assumption: test"


def latency(case: Case, timing: Timing | None = None, *, warm_caches: bool = False) -> Part:
    nest, tiles = nest_of(case.op, case.mapping, hierarchy_of(case.arch))
    return detailed_batch(nest, tiles, timing or timing_of(case.arch), RULES, warm_caches=warm_caches).at(0)


def throughput(case: Case) -> float:
    nest, tiles = nest_of(case.op, case.mapping, hierarchy_of(case.arch))
    return float(price(count(nest, tiles, RULES), prices_of(resolve(case.arch), case.op.datatype)).latency_cycles[0])


def varied(case: Case, seed: int) -> Timing:
    """The case's timing with latencies, ports and moving habits of all kinds; bandwidths as they are."""
    rng = Random(seed)
    timing = timing_of(case.arch)
    levels = tuple(
        replace(
            level,
            shares_port=level.shares_port or rng.random() < 0.3,
            latency_cycles=rng.choice((0, 1, 30)),
            min_transfer_bytes=rng.choice((1, 1, 4)),
            double_buffered=rng.random() < 0.6,
            keeps_tiles=rng.random() < 0.8,
            skips_holes=rng.random() < 0.8,
            channels_last=rng.random() < 0.3,
            packs_weights=rng.random() < 0.3,
        )
        for level in timing.levels
    )
    array = replace(
        timing.array,
        skew_cycles=rng.choice((0, 5)),
        is_shadowed=rng.random() < 0.5,
        instruction_steps=rng.choice((None, 1, 3)),
        min_instruction_cycles=rng.choice((1, 4)),
        max_in_flight=rng.choice((None, 2)),
    )
    return replace(timing, levels=levels, array=array, vector_lanes=rng.choice((0, 1)))


@settings(deadline=None, max_examples=80)
@given(cases(200), st.integers(0, 10**6))
def test_detailed_latency_is_at_least_the_throughput_latency(case: Case, seed: int) -> None:
    assert latency(case).amount >= throughput(case) * (1 - 1e-12)
    assert latency(case, varied(case, seed)).amount >= throughput(case) * (1 - 1e-12)


@settings(deadline=None, max_examples=60)
@given(cases(200), st.integers(0, 10**6), st.sampled_from(("read_bytes_per_cycle", "write_bytes_per_cycle")))
def test_more_bandwidth_is_never_slower(case: Case, seed: int, field: str) -> None:
    timing = varied(case, seed)
    at = seed % len(timing.levels)
    faster = replace(timing.levels[at], **{field: getattr(timing.levels[at], field) * 1.7})
    levels = (*timing.levels[:at], faster, *timing.levels[at + 1 :])
    before, after = latency(case, timing).amount, latency(case, replace(timing, levels=levels)).amount
    assert after <= before * (1 + 1e-12)


@settings(deadline=None, max_examples=40)
@given(cases(200), st.integers(0, 10**6))
def test_every_part_is_the_sum_or_maximum_of_its_parts(case: Case, seed: int) -> None:
    for part in latency(case, varied(case, seed)).walk():
        assert part.amount >= 0
        if part.rule == "sum":
            assert math.isclose(part.amount, math.fsum(p.amount for p in part.parts), rel_tol=1e-12)
        elif part.rule == "max":
            assert part.amount == max(p.amount for p in part.parts)
        else:
            assert not part.parts


@settings(deadline=None, max_examples=40)
@given(cases(200), st.integers(0, 10**6))
def test_rounding_rows_up_and_forgetting_tiles_is_never_faster(case: Case, seed: int) -> None:
    timing = varied(case, seed)
    plain = tuple(replace(x, min_transfer_bytes=1, keeps_tiles=True, skips_holes=True) for x in timing.levels)
    assert latency(case, replace(timing, levels=plain)).amount <= latency(case, timing).amount * (1 + 1e-12)


def test_a_batch_has_the_bits_of_its_mappings_alone() -> None:
    op, arch = parse_notation("gemm:M=24,N=20,K=30"), pipeline()
    nest, tiles = nest_of(op, tiled(8, 5, 10), hierarchy_of(arch))
    other = nest_of(op, tiled(9, 20, 7), hierarchy_of(arch))[1]
    both = detailed_batch(nest, np.hstack([tiles, other]), timing_of(arch), RULES)
    assert both.at(0) == detailed_batch(nest, tiles, timing_of(arch), RULES).at(0)
    assert both.amount[1] == detailed_batch(nest, other, timing_of(arch), RULES).amount[0]


# Hand-worked: main memory 2 B/cycle with 10 cycles to the first data, a scratchpad that is never in the way, one MAC.


def pipeline(*, double_buffered: bool = True, ports: str = "read: 1, write: 1", **compute: object) -> SpatialArch:
    memory: dict[str, object] = {"kind": "memory", "capacity_bytes": None, "source": SOURCE}
    port_counts = {k.strip(): int(v) for k, v in (item.split(":") for item in ports.split(","))}
    hierarchy: list[dict[str, object]] = [
        {
            **memory,
            "name": "main_memory",
            "memory_class": "main_memory",
            "read_bandwidth": "2 B/cycle",
            "write_bandwidth": "2 B/cycle",
            "latency_cycles": 10,
            "ports": port_counts,
            "read_energy_pj_per_byte": 1.0,
            "write_energy_pj_per_byte": 1.0,
        },
        {
            **memory,
            "name": "scratchpad",
            "memory_class": "scratchpad",
            "read_bandwidth": "unbounded",
            "write_bandwidth": "unbounded",
            "double_buffered": double_buffered,
            "read_energy_pj_per_byte": 1.0,
            "write_energy_pj_per_byte": 1.0,
            "area_mm2": 1.0,
        },
        {
            "kind": "compute",
            "name": "mac",
            "datatypes": {"int8": {"macs_per_cycle": 1, "energy_pj_per_mac": 1.0}},
            "area_mm2": 1.0,
            "source": SOURCE,
            **compute,
        },
    ]
    return SpatialArch.model_validate(
        {
            "schema_version": 1,
            "kind": "spatial",
            "name": "pipeline",
            "clock_hz": 1e9,
            "technology": {"node_nm": 45, "source": SOURCE},
            "source": SOURCE,
            "hierarchy": hierarchy,
        }
    )


def tiled(m: int, n: int, k: int) -> Mapping:
    """Tiles of all three tensors in the scratchpad, then one MAC after the other."""
    text = f"""\
schema_version: 1
mapping:
  - {{keep: [A, W, Z], level: main_memory}}
  - {{for: M, tile: {m}}}
  - {{for: N, tile: {n}}}
  - {{for: K, tile: {k}}}
  - {{keep: [A, W, Z], level: scratchpad}}
  - {{for: M, tile: 1}}
  - {{for: N, tile: 1}}
  - {{for: K, tile: 1}}
"""
    (mapping,) = parse_mapping(text).values()
    return mapping


def run(op: str | Op, mapping: Mapping, arch: SpatialArch, *, warm_caches: bool = False) -> Part:
    found = parse_notation(op) if isinstance(op, str) else op
    return latency(Case(op=found, arch=arch, mapping=mapping), warm_caches=warm_caches)


def named(part: Part, start: str) -> float:
    return sum(p.amount for p in part.walk() if p.name.startswith(start))


def test_one_tile_loads_computes_and_stores_in_turn() -> None:
    part = run("gemm:M=8,N=4,K=6", tiled(8, 4, 6), pipeline())
    # A 48 B + W 24 B at 2 B/cycle after 10 cycles; 192 MACs; Z 32 B at 2 B/cycle after 10 cycles.
    assert named(part, "first load") == (48 + 24) / 2 + 10
    assert named(part, "last store") == 32 / 2 + 10
    assert part.amount == 46 + 192 + 26


def test_double_buffering_hides_load_when_compute_bound() -> None:
    part = run("gemm:M=32,N=4,K=6", tiled(8, 4, 6), pipeline())
    # 4 steps of 192 MACs; W stays, so later steps load A alone: 48/2 + 10 < 192.
    assert part.amount == 46 + 4 * 192 + 26
    assert bottleneck_of(part) == "mac"


def test_without_double_buffering_transfers_and_compute_take_turns() -> None:
    arch = pipeline(double_buffered=False)
    part = run("gemm:M=32,N=4,K=6", tiled(8, 4, 6), arch)
    # Step 1 moves A, W in and Z out, on separate ports: max(72, 32)/2 + 10; the others A and Z: max(48, 32)/2 + 10.
    assert part.amount == 4 * 192 + (36 + 10) + 3 * (24 + 10)


def test_shared_port_adds_reads_and_writes() -> None:
    both = "read_write: 1"
    part = run("gemm:M=32,N=4,K=6", tiled(8, 4, 6), pipeline(double_buffered=False, ports=both))
    assert part.amount == 4 * 192 + (36 + 16 + 10) + 3 * (24 + 16 + 10)


def test_memory_bound_steps_take_the_transfer_time() -> None:
    part = run("gemm:M=4,N=4,K=1", tiled(1, 4, 1), pipeline())
    # 4 steps of 4 MACs; step 1 loads A 1 B and W 4 B; the others A 1 B in and Z 4 B out at once: 4/2 + 10 > 4.
    assert part.amount == (5 / 2 + 10) + 3 * 12 + 4 + 12
    assert bottleneck_of(part) == "main_memory"


def test_steps_that_move_more_than_others_are_not_averaged() -> None:
    part = run("gemm:M=2,N=20,K=1", tiled(1, 10, 1), pipeline())
    # Steps (m, n): each loads W 10 B and stores Z 10 B; A only when m changes, at steps 1 and 3.
    # Step 1 loads 11 B before anything runs; then 10/2 + 10, 11/2 + 10, 10/2 + 10 against 10 MACs each.
    assert part.amount == 15.5 + (15 + 15.5 + 15) + 10 + 15


def test_ragged_tiles_move_and_compute_what_they_hold() -> None:
    part = run("gemm:M=10,N=4,K=6", tiled(8, 4, 6), pipeline(double_buffered=False))
    assert named(part, "mac") == 10 * 4 * 6
    # The model takes the two steps as equally long: 30 B of A each, W 24 B once; Z goes out beside them.
    assert part.amount == 240 + (30 + 24) / 2 + 10 + 30 / 2 + 10


def test_outputs_pass_the_vector_unit_on_their_way_out() -> None:
    slow = run("gemm:M=8,N=4,K=6", tiled(8, 4, 6), pipeline(vector_lanes=1))
    assert named(slow, "last store") == 32 + 10  # one element per cycle beats 2 B/cycle


def test_estimate_op_names_the_bottleneck_in_detailed_fidelity() -> None:
    op = parse_notation("gemm:M=4,N=4,K=1")
    estimate = estimate_op(op, tiled(1, 4, 1), pipeline(), fidelity="detailed")
    assert estimate.bottleneck == "main_memory"
    assert estimate.latency_cycles == run(op, tiled(1, 4, 1), pipeline()).amount
    assert estimate.fidelity == "detailed"


# Caches that the mapping does not name.


def cached(capacity_bytes: int, arch: SpatialArch | None = None) -> SpatialArch:
    arch = arch or pipeline()
    outer, *rest = arch.hierarchy
    cache = arch.memories[1].model_copy(
        update={
            "name": "cache",
            "memory_class": "cache",
            "capacity_bytes": capacity_bytes,
            "double_buffered": False,
            "read_bandwidth": Bandwidth(8.0),
            "write_bandwidth": Bandwidth(8.0),
        }
    )
    return arch.model_copy(update={"hierarchy": (outer, cache, *rest)})


def test_warm_cache_that_holds_the_op_serves_everything() -> None:
    part = run("gemm:M=8,N=4,K=6", tiled(8, 4, 6), cached(1000), warm_caches=True)
    assert part.amount == (72 / 8 + 10) + 192 + (32 / 8 + 10)


def test_cold_cache_takes_every_byte_from_main_memory_once() -> None:
    part = run("gemm:M=32,N=16,K=1", tiled(32, 4, 1), cached(1000))
    again = run("gemm:M=32,N=16,K=1", tiled(32, 4, 1), cached(1000), warm_caches=True)
    compulsory = (32 + 16) / 2
    assert named(part, "first load") == (32 + 4) / 2 + 10
    assert again.amount < part.amount
    assert part.amount >= compulsory


def test_cache_keeps_the_smallest_tensors_that_fit_together() -> None:
    # W 24 B and Z 32 B fit in 60 B, A 48 B does not fit beside them.
    part = run("gemm:M=8,N=4,K=6", tiled(8, 4, 6), cached(60), warm_caches=True)
    assert named(part, "first load") == 48 / 2 + 24 / 8 + 10
    assert named(part, "last store") == 32 / 8 + 10


def test_rows_written_past_a_cache_are_fetched_first() -> None:
    arch = pipeline(double_buffered=False, ports="read_write: 1")
    plain = run("gemm:M=4,N=64,K=1", tiled(1, 64, 1), arch)
    through = run("gemm:M=4,N=64,K=1", tiled(1, 64, 1), cached(1, arch))
    assert through.amount == plain.amount + 4 * 64 / 2


@pytest.mark.parametrize("stride", [2, 3])
def test_whole_boxes_are_moved_where_holes_are_not_skipped(stride: int) -> None:
    op = parse_notation(f"conv:K=1,C=1,OX=5,FX=1,stride={stride}")
    text = """\
schema_version: 1
mapping:
  - {keep: [I, W, O], level: main_memory}
  - {keep: [I, W, O], level: scratchpad}
  - {for: OX, tile: 1}
"""
    (mapping,) = parse_mapping(text).values()
    arch = pipeline()
    outer, inner, mac = arch.hierarchy
    boxes = arch.model_copy(update={"hierarchy": (outer, inner.model_copy(update={"skips_holes": False}), mac)})
    assert named(run(op, mapping, arch), "first load") == (5 + 1) / 2 + 10
    assert named(run(op, mapping, boxes), "first load") == (5 * stride + 1) / 2 + 10


def test_tiles_that_are_not_kept_move_at_every_step() -> None:
    arch = pipeline(double_buffered=False)
    outer, inner, mac = arch.hierarchy
    anew = arch.model_copy(update={"hierarchy": (outer, inner.model_copy(update={"keeps_tiles": False}), mac)})
    # W 24 B is loaded at each of the 4 steps instead of once.
    kept, moved = (run("gemm:M=32,N=4,K=6", tiled(8, 4, 6), a) for a in (arch, anew))
    assert moved.amount == kept.amount + 3 * 24 / 2


# Rows against every byte's address: K and C of 16-byte lines, so that both whole pixels and parts of them occur.


def lines_per_tile(op: Op, tensor: Tensor, tile: dict[str, int], strides: dict[str, int], line: int) -> float:
    """Lines that the tiles of a tensor touch on average, by the address of every element; a byte each."""
    counts: list[int] = []
    sizes = op.sizes
    dims = sorted(tensor.dims)
    for corner in itertools.product(*(range(0, sizes[dim], tile[dim]) for dim in dims)):
        box = itertools.product(*(range(at, at + tile[dim]) for dim, at in zip(dims, corner, strict=True)))
        touched = {sum(x * strides[dim] for dim, x in zip(dims, point, strict=True)) // line for point in box}
        counts.append(len(touched))
    return sum(counts) / len(counts)


@pytest.mark.parametrize(
    ("channels", "tile"),
    [(32, 16), (32, 32), (48, 16), (8, 8), (24, 24), (24, 8)],
)
@pytest.mark.parametrize("columns", [8, 4])
def test_rows_of_pixels_touch_the_lines_that_their_addresses_say(channels: int, tile: int, columns: int) -> None:
    op, width = parse_notation(f"conv:K={channels},C=1,OY=4,OX=8,FY=1,FX=1"), 8
    text = f"""\
schema_version: 1
mapping:
  - {{keep: [I, W, O], level: main_memory}}
  - {{for: K, tile: {tile}}}
  - {{for: OX, tile: {columns}}}
  - {{for: OY, tile: 1}}
  - {{keep: [I, W, O], level: scratchpad}}
  - {{for: K, tile: 1}}
  - {{for: OX, tile: 1}}
"""
    (mapping,) = parse_mapping(text).values()
    outer, *inner = pipeline().hierarchy
    lines = {"channels_last": True, "packs_weights": True, "min_transfer_bytes": 16}
    arch = pipeline().model_copy(update={"hierarchy": (outer.model_copy(update=lines), *inner)})
    pitch = -(-width * channels // 16) * 16
    extents = {"K": tile, "OX": columns, "OY": 1, "B": 1, "G": 1}
    strides = {"K": 1, "OX": channels, "OY": pitch, "B": 0, "G": 0}
    # The last store is one tile of outputs: the first data, and 16 bytes for every line.
    expected = lines_per_tile(op, op.output, extents, strides, 16) * 16 / 2 + 10
    assert named(run(op, mapping, arch), "last store") == pytest.approx(expected)


def test_packed_weights_are_one_row() -> None:
    op = parse_notation("conv:K=8,C=4,OX=5,FX=3")
    text = """\
schema_version: 1
mapping:
  - {keep: [I, W, O], level: main_memory}
  - {keep: [W], level: scratchpad}
  - {for: K, tile: 1}
  - {for: C, tile: 1}
  - {for: OX, tile: 1}
  - {for: FX, tile: 1}
"""
    (mapping,) = parse_mapping(text).values()
    outer, *inner = pipeline().hierarchy
    as_given, packed = (
        pipeline().model_copy(
            update={"hierarchy": (outer.model_copy(update={"min_transfer_bytes": 4, "packs_weights": packs}), *inner)}
        )
        for packs in (False, True)
    )
    # Rows of 3 bytes take one line of 4 or two, as they begin; packed they are 96 bytes side by side.
    assert named(run(op, mapping, packed), "first load") == 96 / 2 + 10
    assert named(run(op, mapping, as_given), "first load") == 32 * 1.5 * 4 / 2 + 10


def test_lanes_that_pass_the_array_by_load_no_stationary_tiles() -> None:
    text = """\
schema_version: 1
mapping:
  - {keep: [I, W, O], level: main_memory}
  - {keep: [I, W], level: scratchpad}
  - {keep: [O], level: accumulator}
  - {spatial: G, axis: pe_array.cols, tile: 1}
  - {for: FX, tile: 1}
  - {keep: [W], level: register}
  - {for: OX, tile: 1}
"""
    (mapping,) = parse_mapping(text).values()
    arch = load_arch("tpe_16x16")
    assert isinstance(arch, SpatialArch)
    array = next(
        part
        for part in run(parse_notation("conv:G=16,K=1,C=1,OX=5,FX=3"), mapping, arch).walk()
        if part.name == "PE array"
    )
    assert {part.name: part.amount for part in array.parts} == {
        "mac": 3 * 5, "loading stationary tiles": 0, "filling and draining the array": 0, "pace of instructions": 0,
    }  # fmt: skip
