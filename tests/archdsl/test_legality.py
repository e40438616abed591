"""Illegal mappings: each fault has its exact message and the node at fault."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileloom.archdsl import (
    Keep,
    Mapping,
    MappingError,
    MappingFault,
    MappingNode,
    Op,
    Spatial,
    SpatialArch,
    Temporal,
    check_mapping,
    require_legal,
)

from ..random_cases import SOURCE, Case, arch_of, conv, gemm, random_case
from ..strategies import cases

OP = gemm(64, 32, 16)


def memory(name: str, capacity_bytes: int | None, **fields: object) -> dict[str, object]:
    return {
        "kind": "memory",
        "name": name,
        "memory_class": "scratchpad",
        "capacity_bytes": capacity_bytes,
        "read_bandwidth": "unbounded",
        "write_bandwidth": "unbounded",
        "source": SOURCE,
        **fields,
    }


def arch(intrinsic: tuple[int, int, int] = (1, 1, 1), **scratchpad: object) -> SpatialArch:
    """Main memory, a 4 KiB scratchpad, an 8 x 4 array whose columns carry no reductions, registers of 4 bytes."""
    rows = {"name": "rows", "size": 8}
    cols = {"name": "cols", "size": 4, "dim_classes": ["output_channel", "pixel"]}
    pad = {"capacity_bytes": 4096, **scratchpad}
    capacity = pad.pop("capacity_bytes")
    assert isinstance(capacity, int)
    return arch_of(
        [
            memory("main_memory", None, memory_class="main_memory"),
            memory("scratchpad", capacity, **pad),
            {"kind": "fanout", "name": "pe_array", "axes": [rows, cols]},
            memory("register", 4, keeps=["weight", "output"]),
        ],
        intrinsic,
    )


def keep(level: str, *tensors: str) -> Keep:
    return Keep(level=level, tensors=tensors)


def loop(dim: str, tile: int) -> Temporal:
    return Temporal(dim=dim, tile=tile)


def spread(dim: str, tile: int, axis: str) -> Spatial:
    fanout, name = axis.split(".")
    return Spatial(dim=dim, tile=tile, fanout=fanout, axis=name)


LEGAL: tuple[MappingNode, ...] = (
    keep("main_memory", "A", "W", "Z"),
    loop("M", 16),
    keep("scratchpad", "A", "W", "Z"),
    loop("N", 4),
    loop("K", 8),
    spread("K", 1, "pe_array.rows"),
    spread("N", 1, "pe_array.cols"),
    keep("register", "W"),
    loop("M", 1),
)


def faults(nodes: tuple[MappingNode, ...], on: SpatialArch | None = None, op: Op = OP) -> list[tuple[int, str]]:
    found = check_mapping(Mapping(nodes=nodes), op, arch() if on is None else on)
    return [(fault.node_idx, fault.message) for fault in found]


def with_node(node_idx: int, node: MappingNode) -> tuple[MappingNode, ...]:
    return (*LEGAL[:node_idx], node, *LEGAL[node_idx + 1 :])


def with_extra(node_idx: int, *nodes: MappingNode) -> tuple[MappingNode, ...]:
    return (*LEGAL[:node_idx], *nodes, *LEGAL[node_idx:])


def test_legal_mapping_has_no_faults() -> None:
    assert faults(LEGAL) == []
    require_legal(Mapping(nodes=LEGAL), OP, arch())


def test_mapping_without_nodes_is_told_what_comes_first() -> None:
    first = "the first node must keep all tensors (A, W, Z) at main_memory"
    assert faults((), op=gemm(1, 1, 1)) == [(0, first)]
    assert str(check_mapping(Mapping(nodes=()), gemm(1, 1, 1), arch())[0]) == first


def test_first_node_must_keep_everything_at_the_outermost_memory() -> None:
    first = "the first node must keep all tensors (A, W, Z) at main_memory"
    assert faults(LEGAL[1:]) == [(0, first)]
    assert faults(with_node(0, keep("main_memory", "A", "Z"))) == [(0, f"{first}; W is missing")]


@pytest.mark.parametrize(
    ("level", "message"),
    [
        ("scratchpd", "unknown level 'scratchpd'; did you mean 'scratchpad'?"),
        ("cache", "unknown level 'cache'; known are main_memory, scratchpad, register"),
        ("pe_array", "pe_array is a fan-out, not a memory; known are main_memory, scratchpad, register"),
        ("mac", "mac is a compute unit, not a memory; known are main_memory, scratchpad, register"),
    ],
)
def test_unknown_level_is_named_with_the_nearest(level: str, message: str) -> None:
    assert faults(with_node(2, keep(level, "A", "W", "Z"))) == [(2, message)]


def test_unknown_tensor_is_named_with_the_known() -> None:
    assert faults(with_node(2, keep("scratchpad", "A", "w", "Z"))) == [(2, "unknown tensor 'w'; did you mean 'W'?")]


def test_tensor_named_twice_in_one_node() -> None:
    assert faults(with_node(7, keep("register", "W", "W"))) == [(7, "tensor W is named twice")]


def test_tensor_kept_twice_names_the_first_node() -> None:
    assert faults(with_extra(4, keep("scratchpad", "A"))) == [(4, "scratchpad keeps A already since node 2")]


def test_role_that_the_level_does_not_keep() -> None:
    message = "register does not keep input tensors such as A; it keeps weight, output"
    assert faults(with_node(7, keep("register", "W", "A"))) == [(7, message)]


def test_holders_must_follow_the_hierarchy() -> None:
    flat = arch_of([memory("main_memory", None), memory("l2", 4096), memory("l1", 4096)])
    nodes = (LEGAL[0], keep("l1", "A"), keep("l2", "A", "W"), loop("M", 1), loop("N", 1), loop("K", 1))
    message = "l2 lies outside l1, which already holds A; holders follow the hierarchy from the outside in"
    assert faults(nodes, flat) == [(2, message)]


def test_other_tensors_may_be_kept_in_another_order() -> None:
    flat = arch_of([memory("main_memory", None), memory("l2", 4096), memory("l1", 4096)])
    nodes = (LEGAL[0], keep("l1", "A"), loop("N", 1), keep("l2", "W"), loop("M", 1), loop("K", 1))
    assert faults(nodes, flat) == []


def test_outer_level_kept_inside_a_spatial_loop() -> None:
    nodes = (LEGAL[0], loop("M", 16), *LEGAL[3:7], LEGAL[2], *LEGAL[7:])
    message = (
        "scratchpad is outside fan-out pe_array, over which node 4 has already spread the nest; keep it further out"
    )
    assert faults(nodes) == [(6, message)]


def test_inner_level_kept_outside_a_spatial_loop() -> None:
    nodes = (*LEGAL[:6], keep("register", "W"), spread("N", 1, "pe_array.cols"), loop("M", 1))
    message = "fan-out pe_array is outside register, which node 6 keeps further out; move the loop outside that node"
    assert faults(nodes) == [(7, message)]


def test_inner_fanout_looped_outside_an_outer_one() -> None:
    chips: dict[str, object] = {"kind": "fanout", "name": "chips", "axes": [{"name": "x", "size": 4}]}
    nested = arch_of([memory("main_memory", None), chips, {**chips, "name": "pes"}])
    nodes = (LEGAL[0], loop("M", 4), spread("M", 1, "pes.x"), spread("N", 8, "chips.x"), loop("N", 1), loop("K", 1))
    assert faults(nodes, nested) == [(3, "fan-out chips is outside pes, over which node 2 loops further out")]


def test_unknown_dim_is_named_with_the_known() -> None:
    assert faults(with_extra(4, loop("C", 1))) == [(4, "unknown dim 'C'; known are M, N, K")]


@pytest.mark.parametrize("tile", [0, -4, 17])
def test_tile_must_lie_within_the_extent(tile: int) -> None:
    message = f"tile {tile} of M must be 1 to 16, its extent there"
    assert (8, message) in faults(with_node(8, loop("M", tile)))


def test_dim_that_does_not_reach_one_names_the_missing_factor() -> None:
    message = "M ends at 4 instead of 1: a factor of 4 is missing; add a loop over M with tile 1"
    assert faults(with_node(8, loop("M", 4))) == [(8, message)]


def test_dim_without_any_loop_is_reported_at_the_last_node() -> None:
    op = gemm(64, 32, 1)
    nodes = (LEGAL[0], loop("M", 1))
    message = "N ends at 32 instead of 1: a factor of 32 is missing; add a loop over N with tile 1"
    assert faults(nodes, op=op) == [(1, message)]


def test_unknown_fanout_and_axis_are_named_with_the_nearest() -> None:
    assert faults(with_node(5, spread("K", 1, "pearray.rows"))) == [
        (5, "unknown fan-out 'pearray'; did you mean 'pe_array'?")
    ]
    assert faults(with_node(5, spread("K", 1, "pe_array.row"))) == [
        (5, "pe_array has no axis 'row'; did you mean 'rows'?")
    ]
    assert faults(with_node(5, spread("K", 1, "register.x"))) == [
        (5, "register is a memory, not a fan-out; known are pe_array")
    ]


def test_dims_on_one_axis_must_fit_together() -> None:
    nodes = with_extra(6, spread("M", 8, "pe_array.rows"))
    assert faults(nodes) == [(6, "pe_array.rows needs 16 instances (K 8 x M 2) and has 8")]


def test_axis_carries_only_its_classes() -> None:
    nodes = with_node(5, spread("K", 2, "pe_array.cols"))
    assert faults((*nodes[:6], loop("N", 1), loop("K", 1), *nodes[7:])) == [
        (5, "pe_array.cols does not carry reduction dims such as K; it carries output_channel, pixel")
    ]


def test_dims_that_an_axis_carries_only_alone() -> None:
    rows, cols = {"name": "rows", "size": 8}, {"name": "cols", "size": 4, "dim_classes": ["output_channel", "group"]}
    fields = {"dim_classes": ["reduction"]}, {"alone_classes": ["group"]}
    axes = [{**axis, **more} for axis, more in zip((rows, cols), fields, strict=True)]
    lanes = arch_of(
        [memory("main_memory", None, memory_class="main_memory"), {"kind": "fanout", "name": "lanes", "axes": axes}]
    )
    op = conv({"G": 4, "K": 2, "C": 8})
    first = Keep(level="main_memory", tensors=("I", "W", "O"))
    over = {
        dim: Spatial(dim=dim, tile=1, fanout="lanes", axis=axis)
        for dim, axis in (("G", "cols"), ("K", "cols"), ("C", "rows"))
    }
    in_time = {dim: Temporal(dim=dim, tile=1) for dim in ("G", "K", "C")}

    def faults(*spread: str) -> list[str]:
        nodes = (first, *(over[dim] if dim in spread else in_time[dim] for dim in ("G", "K", "C")))
        return [fault.message for fault in check_mapping(Mapping(nodes=nodes), op, lanes)]

    assert faults("G") == faults("K", "C") == faults("C") == []
    message = "lanes.cols carries group dims such as G only alone, and lanes.rows carries C; run one of them in time"
    assert faults("G", "C") == [message]


def test_intrinsic_dims_are_axes_of_the_compute_unit() -> None:
    wide = arch(intrinsic=(1, 1, 2))
    nodes = (*LEGAL[:5], spread("K", 2, "pe_array.rows"), *LEGAL[6:], spread("K", 1, "mac.k"))
    assert faults(nodes, wide) == []
    assert faults(nodes) == [(9, "mac multiplies one point at a time, so no loop can be spread over it")]
    assert faults((*nodes[:-1], spread("K", 1, "mac.m")), wide) == [(9, "mac has no axis 'm'; known are k")]
    early = (*nodes[:7], spread("K", 1, "mac.k"), *nodes[7:9])
    message = "register is outside fan-out mac, over which node 7 has already spread the nest; keep it further out"
    assert faults(early, wide) == [(8, message)]


def test_role_that_must_be_kept_cannot_be_bypassed() -> None:
    nodes = with_node(2, keep("scratchpad", "A", "Z"))
    message = "W bypasses scratchpad, which must keep weight tensors; add a node that keeps W at scratchpad"
    assert faults(nodes, arch(must_keep=["weight"])) == [(0, message)]


def test_capacity_lists_the_tiles_and_what_would_fit() -> None:
    # At node 2 the extents are M 16, N 32, K 16: A 256, W 512, Z 512 bytes.
    message = (
        "scratchpad needs 1,280 bytes (A 256 + W 512 + Z 512) and has 1,000;"
        " it fits with N cut to 23 there instead of 32"
    )
    # Cutting N to 23 gives 256 + 368 + 368 = 992; cutting M or K to 10 or 7 is harsher.
    assert faults(LEGAL, arch(capacity_bytes=1000)) == [(2, message)]
    assert faults(LEGAL, arch(capacity_bytes=1280)) == []


def test_double_buffered_level_needs_its_tiles_twice() -> None:
    message = (
        "scratchpad needs 2,560 bytes (A 256 + W 512 + Z 512, twice for double buffering) and has 2,559;"
        " it fits with N cut to 31 there instead of 32"
    )
    assert faults(LEGAL, arch(capacity_bytes=2559, double_buffered=True)) == [(2, message)]
    assert faults(LEGAL, arch(capacity_bytes=2560, double_buffered=True)) == []


def test_capacity_that_no_single_cut_meets() -> None:
    message = "scratchpad needs 1,280 bytes (A 256 + W 512 + Z 512) and has 20; no cut of a single dim makes it fit"
    assert faults(LEGAL, arch(capacity_bytes=20)) == [(2, message)]


def test_tiles_of_one_level_add_up_over_its_nodes() -> None:
    nodes = (*LEGAL[:2], keep("scratchpad", "A"), loop("N", 4), keep("scratchpad", "W", "Z"), *LEGAL[4:])
    # A is kept at M 16, K 16; W and Z at N 4: 256 + 64 + 64.
    found = faults(nodes, arch(capacity_bytes=383))
    assert found == [
        (
            4,
            "scratchpad needs 384 bytes (A 256 + W 64 + Z 64) and has 383; it fits with M cut to 15 there instead of 16",
        )
    ]


def test_sub_byte_tiles_are_rounded_up_once_per_tensor() -> None:
    op = gemm(3, 3, 3, bits=(4, 4, 8))
    flat = arch_of([memory("main_memory", None), memory("l1", 19)])
    nodes = (LEGAL[0], keep("l1", "A", "W", "Z"), loop("M", 1), loop("N", 1), loop("K", 1))
    assert faults(nodes, flat, op) == []
    tight = arch_of([memory("main_memory", None), memory("l1", 18)])
    message = "l1 needs 19 bytes (A 5 + W 5 + Z 9) and has 18; it fits with M cut to 2 there instead of 3"
    assert faults(nodes, tight, op) == [(1, message)]


def test_all_faults_come_at_once_in_the_order_of_the_nodes() -> None:
    nodes = (
        keep("main_memory", "A", "W"),
        loop("Q", 4),
        keep("scratchpad", "A", "V"),
        loop("M", 128),
        spread("N", 1, "pe_array.diag"),
        keep("main_memory", "Z"),
    )
    spread_before = "main_memory is outside fan-out pe_array, over which node 4 has already spread the nest"
    with pytest.raises(MappingError) as caught:
        require_legal(Mapping(nodes=nodes), OP, arch())
    assert str(caught.value).splitlines() == [
        "mapping of gemm on small is illegal:",
        "  node 0 (keep A, W at main_memory): the first node must keep all tensors (A, W, Z) at main_memory; Z is missing",
        "  node 1 (for Q, tile 4): unknown dim 'Q'; known are M, N, K",
        "  node 2 (keep A, V at scratchpad): unknown tensor 'V'; known are A, W, Z",
        "  node 3 (for M, tile 128): tile 128 of M must be 1 to 64, its extent there",
        "  node 3 (for M, tile 128): M ends at 64 instead of 1: a factor of 64 is missing; add a loop over M with tile 1",
        "  node 4 (spatial N on pe_array.diag, tile 1): pe_array has no axis 'diag'; known are rows, cols",
        f"  node 5 (keep Z at main_memory): {spread_before}; keep it further out",
        "  node 5 (keep Z at main_memory): K ends at 16 instead of 1: a factor of 16 is missing; add a loop over K with tile 1",
    ]


def test_random_mappings_are_legal() -> None:
    for seed in range(300):
        case = random_case(Random(seed))
        assert check_mapping(case.mapping, case.op, case.arch) == ()


@given(case=cases(), pick=st.integers(0, 1000), other=st.integers(-1, 9))
def test_any_damage_is_reported_or_harmless_and_never_crashes(case: Case, pick: int, other: int) -> None:
    nodes = list(case.mapping.nodes)
    at = pick % len(nodes)
    node = nodes[at]
    if isinstance(node, Keep):
        del nodes[at]
    else:
        nodes[at] = replace(node, tile=other)
    found = check_mapping(Mapping(nodes=tuple(nodes)), case.op, case.arch)
    assert all(isinstance(fault, MappingFault) and 0 <= fault.node_idx < max(1, len(nodes)) for fault in found)
    if not isinstance(node, Keep) and other < 1:
        assert any(f"tile {other} of {node.dim}" in fault.message for fault in found)
