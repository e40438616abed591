"""Closed-form counts against a simulator that touches every element, and against arithmetic by hand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings

from tileloom.archdsl import (
    Keep,
    Mapping,
    MappingNode,
    Op,
    Spatial,
    SpatialArch,
    Temporal,
    TensorRole,
    check_mapping,
)
from tileloom.models import CONVENTIONS, Convention, Counts, count, estimate_op, hierarchy_of, nest_of

from ..random_cases import (
    SOURCE,
    Case,
    arch_of,
    conv,
    gemm,
    random_case,
    random_mapping,
    transposed_conv,
    with_accumulator_bits,
)
from ..strategies import cases
from .sim_outputs import REFILLS
from .simulator import AxisRule, AxisRules, SimCounts, simulate

NUM_CASES = 600
CASES_PER_TEST = 100
EVERY_CONVENTION = tuple(
    Convention(
        name="switches",
        register_reads=register_reads,
        first_accumulation_reads=first_accumulation_reads,
        final_drain_is_read=final_drain_is_read,
        partial_sum_refills=partial_sum_refills,
    )
    for register_reads in ("per_use", "per_refill")
    for first_accumulation_reads in (False, True)
    for final_drain_is_read in (False, True)
    for partial_sum_refills in REFILLS
)

Actions = dict[tuple[str, str], tuple[float, float]]


def axis_rules(arch: SpatialArch) -> AxisRules:
    """Multicast and reduction per axis; the compute unit's intrinsic axes do both."""
    rules = {
        (fanout.name, axis.name): AxisRule(multicast=axis.multicast, reduction=axis.reduction)
        for fanout in arch.fanouts
        for axis in fanout.axes
    }
    return rules | {(arch.compute.name, name): AxisRule() for name in ("m", "n", "k")}


def simulated(counts: SimCounts, case: Case, convention: Convention) -> Actions:
    """Bytes (read, written) per (level, tensor) by the simulator; zeros left out."""
    bits = {tensor.name: tensor.bits for tensor in case.op.tensors}
    actions = counts.actions(convention)
    scaled = {key: (read * bits[key[1]] / 8, write * bits[key[1]] / 8) for key, (read, write) in actions.items()}
    return {key: moved for key, moved in scaled.items() if any(moved)}


def modelled(case: Case, convention: Convention) -> tuple[Counts, Actions]:
    """Counts by the closed form, and its bytes (read, written) per (level, tensor); zeros left out."""
    hierarchy = hierarchy_of(case.arch)
    counts = count(*nest_of(case.op, case.mapping, hierarchy), convention)
    found: Actions = {}
    for level_idx, level in enumerate(hierarchy.levels):
        for tensor_idx, tensor in enumerate(case.op.tensors):
            read = float(counts.read_bytes[level_idx][tensor_idx][0])
            write = float(counts.write_bytes[level_idx][tensor_idx][0])
            if read or write:
                found[level.name, tensor.name] = read, write
    return counts, found


def assert_agrees(case: Case, conventions: Iterable[Convention] = EVERY_CONVENTION) -> None:
    """Model and simulator agree on bytes under all these conventions, on steps and on tile bytes."""
    expected = simulate(case.op, case.mapping, axis_rules(case.arch))
    for convention in conventions:
        counts, actions = modelled(case, convention)
        assert actions == simulated(expected, case, convention), f"{convention}: {case.mapping}"
        assert counts.steps[0] == expected.steps
        assert all(moved[0] >= 0 and moved[1] >= 0 for moved in actions.values())
    counts, _ = modelled(case, CONVENTIONS["tileloom"])
    for level_idx, memory in enumerate(case.arch.memories[1:], start=1):
        tile_bytes = sum(float(tile[0]) for tile in counts.tile_bytes[level_idx])
        assert tile_bytes == expected.peak_bytes.get(memory.name, 0), f"{memory.name}: {case.mapping}"


@pytest.mark.parametrize("first_seed", range(0, NUM_CASES, CASES_PER_TEST))
def test_model_counts_what_the_simulator_counts(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + CASES_PER_TEST):
        # The presets, and all combinations of switches in turn.
        assert_agrees(
            random_case(Random(seed)), [*CONVENTIONS.values(), EVERY_CONVENTION[seed % len(EVERY_CONVENTION)]]
        )


def sum_widths(counts: SimCounts, case: Case, sum_bits: int) -> dict[str, float]:
    """Bytes of one output element per level: those of a sum where more than one arrives per element, or outputs are alone."""
    output, memories = case.op.output, {memory.name: memory for memory in case.arch.memories}
    found: dict[str, float] = {}
    for level, moves in zip(counts.levels[output.name], counts.outputs["one"], strict=True):
        is_alone = memories[level].keeps == (TensorRole.OUTPUT,) and level != case.arch.memories[0].name
        is_wide = is_alone or moves.arrived > moves.distinct
        found[level] = max(sum_bits if is_wide else 0, output.bits) / 8
    return found


@pytest.mark.parametrize("first_seed", range(0, 200, 50))
def test_unfinished_sums_are_as_wide_as_accumulators(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 50):
        narrow = random_case(Random(seed))
        wide = replace(narrow, arch=with_accumulator_bits(narrow.arch, 36))
        output, bits = narrow.op.output, narrow.op.output.bits
        simulated_counts = simulate(narrow.op, narrow.mapping, axis_rules(narrow.arch))
        widths, outermost = sum_widths(simulated_counts, narrow, 36), narrow.arch.memories[0].name
        convention = EVERY_CONVENTION[seed % len(EVERY_CONVENTION)]
        (_, before), (_, after) = modelled(narrow, convention), modelled(wide, convention)
        for (level, name), (read, write) in before.items():
            if name != output.name:
                assert after[level, name] == (read, write)
                continue
            width, stored = widths[level], bits / 8
            spared = narrow.op.elements(output) * (width - stored) if level == outermost else 0.0
            assert after[level, name] == (read / stored * width, write / stored * width - spared)
        as_stored = replace(convention, partial_sums="output")
        assert modelled(wide, as_stored)[1] == before


@pytest.mark.parametrize("first_seed", range(0, 200, 50))
def test_a_mapping_is_legal_where_its_sums_just_fit(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 50):
        case = random_case(Random(seed))
        arch = with_accumulator_bits(case.arch, 36)
        counts, _ = modelled(replace(case, arch=arch), CONVENTIONS["tileloom"])
        for idx, memory in enumerate(arch.memories[1:], start=1):
            needed = sum(int(tile[0]) for tile in counts.tile_bytes[idx])
            copies = 2 if memory.double_buffered else 1
            for short in (0, 1) if needed else ():
                cut = memory.model_copy(update={"capacity_bytes": copies * needed - short})
                nodes = tuple(cut if node is memory else node for node in arch.hierarchy)
                faults = check_mapping(case.mapping, case.op, arch.model_copy(update={"hierarchy": nodes}))
                mine = [fault for fault in faults if fault.message.startswith(f"{memory.name} needs")]
                assert len(mine) == short, f"seed {seed}, {memory.name}: {mine}"


def has_uneven_groups(counts: SimCounts) -> bool:
    """Whether at some holder the instances that share an element start it at different times, or some never do."""
    starts = counts.outputs["every"][0].distinct
    for moves in counts.outputs["every"][:-1]:
        if (moves.drained - moves.sent) * moves.arrived != starts * moves.drained:
            return True
        starts = moves.drained - moves.sent
    return False


def test_sums_return_to_every_instance_of_uneven_groups() -> None:
    # Ragged reductions over instances, on axes that reduce and that do not.
    num_uneven = 0
    for seed in range(800):
        rng = Random(seed)
        op = rng.choice(
            (
                gemm(rng.randint(1, 3), rng.randint(1, 2), rng.randint(5, 11)),
                conv({"C": rng.randint(2, 5), "FX": rng.randint(2, 4), "OX": rng.randint(1, 3)}),
                transposed_conv({"IX": rng.randint(2, 4), "FX": rng.randint(2, 3), "C": rng.randint(3, 5)}),
            )
        )
        on = arch(rng.choice(("L1", "L2")), reduction=rng.random() < 0.5)
        case = Case(op=op, arch=on, mapping=random_mapping(rng, op, on, bypass=0.2))
        if has_uneven_groups(simulate(op, case.mapping, axis_rules(on))):
            assert_agrees(case)
            num_uneven += 1
    assert num_uneven >= 100


@settings(max_examples=40, deadline=None)
@given(case=cases())
def test_model_counts_what_the_simulator_counts_on_drawn_cases(case: Case) -> None:
    assert_agrees(case)


# Cases worked by hand ------------------------------------------------------------------------------------------


def arch(*fanouts_before: str, multicast: bool = True, reduction: bool = True) -> SpatialArch:
    """Memories L0, L1, L2 with a fan-out `pe.x` of 8 before those named, or before `mac`."""
    hierarchy: list[dict[str, object]] = []
    axis = {"name": "x", "size": 8, "multicast": multicast, "reduction": reduction}
    fanout: dict[str, object] = {"kind": "fanout", "name": "pe", "axes": [axis]}
    for name in ("L0", "L1", "L2"):
        hierarchy += [fanout] if name in fanouts_before else []
        hierarchy.append(
            {
                "kind": "memory",
                "name": name,
                "memory_class": "scratchpad",
                "capacity_bytes": None,
                "read_bandwidth": "unbounded",
                "write_bandwidth": "unbounded",
                "read_energy_pj_per_byte": 1.0,
                "write_energy_pj_per_byte": 1.0,
                "area_mm2": 0.1,
                "source": SOURCE,
            }
        )
    return arch_of([*hierarchy, *([fanout] if "mac" in fanouts_before else [])])


def keep(level: str, tensors: str) -> Keep:
    return Keep(level=level, tensors=tuple(tensors))


def loop(dim: str, tile: int) -> Temporal:
    return Temporal(dim=dim, tile=tile)


def spread(dim: str, tile: int) -> Spatial:
    return Spatial(dim=dim, tile=tile, fanout="pe", axis="x")


def check(
    op: Op, on: SpatialArch, nodes: tuple[MappingNode, ...], expected: Actions, convention: str = "tileloom"
) -> None:
    """Estimate, model and simulator all give the hand-worked bytes for the (level, tensor) pairs named."""
    case = Case(op=op, arch=on, mapping=Mapping(nodes=nodes))
    estimate = estimate_op(op, case.mapping, on, convention=convention).actions
    assert {key: (estimate[key[0]][key[1]].read, estimate[key[0]][key[1]].write) for key in expected} == expected
    _, model = modelled(case, CONVENTIONS[convention])
    simulator = simulated(simulate(op, case.mapping, axis_rules(on)), case, CONVENTIONS[convention])
    assert {key: model.get(key, (0, 0)) for key in expected} == expected
    assert {key: simulator.get(key, (0, 0)) for key in expected} == expected
    assert_agrees(case)


def test_sliding_window_fetches_only_new_elements() -> None:
    # OX 4, FX 3, stride 1: windows 012 123 234 345. The first step fetches 3, the others 1: 6.
    nodes = (keep("L0", "IWO"), loop("OX", 1), keep("L1", "I"), loop("FX", 1))
    op = conv({"OX": 4, "FX": 3})
    # L1 is read once per multiply-accumulate: 4 x 3.
    check(op, arch(), nodes, {("L0", "I"): (6, 0), ("L1", "I"): (12, 6)})


def test_strided_window_fetches_its_stride() -> None:
    # Stride 2: windows 012 234 456 678: 3 + 3 x 2 = 9.
    nodes = (keep("L0", "IWO"), loop("OX", 1), keep("L1", "I"), loop("FX", 1))
    check(conv({"OX": 4, "FX": 3}, stride=(1, 2)), arch(), nodes, {("L0", "I"): (9, 0), ("L1", "I"): (12, 9)})


def test_dilated_window_shares_nothing_with_the_step_before() -> None:
    # Dilation 2: windows 024 135 246 357. Step 2 needs 2 and 4 again, but step 1 held 1 3 5: 4 x 3 = 12.
    nodes = (keep("L0", "IWO"), loop("OX", 1), keep("L1", "I"), loop("FX", 1))
    check(conv({"OX": 4, "FX": 3}, dilation=(1, 2)), arch(), nodes, {("L0", "I"): (12, 0), ("L1", "I"): (12, 12)})


def test_window_does_not_slide_over_an_outer_loop() -> None:
    # OX 4 in two tiles of 2, then K 2 around steps of 1. Refill loop: OX/1. Sweeps: 2 (OX/2) x 2 (K), each of
    # windows 012 123: 3 + 1 = 4. In all 16; the sweep's start fetches its whole window.
    nodes = (keep("L0", "IWO"), loop("OX", 2), loop("K", 1), loop("OX", 1), keep("L1", "I"), loop("FX", 1))
    check(conv({"OX": 4, "FX": 3, "K": 2}), arch(), nodes, {("L0", "I"): (16, 0), ("L1", "I"): (24, 16)})


def test_neighbours_share_their_halo_by_multicast() -> None:
    # OX 4 over 4 instances, each holding its window of 3: 12 filled; the union 0..5 is read once: 6.
    nodes = (keep("L0", "IWO"), spread("OX", 1), keep("L1", "I"), loop("FX", 1))
    op = conv({"OX": 4, "FX": 3})
    check(op, arch("L1"), nodes, {("L0", "I"): (6, 0), ("L1", "I"): (12, 12)})
    # Without multicast every instance is served on its own.
    check(op, arch("L1", multicast=False), nodes, {("L0", "I"): (12, 0), ("L1", "I"): (12, 12)})


def test_neighbours_apart_share_no_halo() -> None:
    # OX 8: instance j has outputs 4j..4j+3, one at a time in time. Windows of the two instances are 4 apart:
    # each is served on its own, and whole, since the axis is spread: 2 instances x 4 steps x 3.
    nodes = (keep("L0", "IWO"), spread("OX", 4), loop("OX", 1), keep("L1", "I"), loop("FX", 1))
    check(conv({"OX": 8, "FX": 3}), arch("L1"), nodes, {("L0", "I"): (24, 0), ("L1", "I"): (24, 24)})


def test_bypassed_level_moves_nothing() -> None:
    # 4 x 3 x 2. W goes from L0 to the multiplier at every step: 24 reads. A: L1 holds one row of 2 at a time:
    # 4 rows x 2 = 8 fills, 24 uses.
    nodes = (keep("L0", "AWZ"), loop("M", 1), keep("L1", "AZ"), loop("N", 1), loop("K", 1))
    expected: Actions = {
        ("L0", "A"): (8, 0),
        ("L1", "A"): (24, 8),
        ("L0", "W"): (24, 0),
        ("L1", "W"): (0, 0),
        # Z: L1 holds rows of 3. 24 accumulations, 12 of them first ones: 12 read back; 12 drained: 24 reads.
        ("L1", "Z"): (24, 24),
        ("L0", "Z"): (0, 12),
    }
    check(gemm(4, 3, 2), arch(), nodes, expected)


def test_ragged_tiles_are_counted_as_they_are() -> None:
    # M 5 in tiles 2 2 1; N 3 in tiles 2 1; K 2 whole. L1 holds A (tile x 2) and W (2 x tile).
    # A: refill loop M, N inside: 5 x 2 = 10. W: refill loop N, once per M tile: 3 x (2 x 3) = 18, not 3 x 2 x 4.
    nodes = (keep("L0", "AWZ"), loop("M", 2), loop("N", 2), keep("L1", "AW"), loop("M", 1), loop("N", 1), loop("K", 1))
    expected: Actions = {
        ("L0", "A"): (10, 0),
        ("L1", "A"): (30, 10),
        ("L0", "W"): (18, 0),
        ("L1", "W"): (30, 18),
        # Z at L0: 30 accumulations into 15 elements: 15 first ones.
        ("L0", "Z"): (15, 30),
    }
    check(gemm(5, 3, 2), arch(), nodes, expected)


def test_ragged_spatial_edge_leaves_instances_idle() -> None:
    # N 5 over 4 instances at a time: 4, then 1. Each holds its column of W (2): 5 x 2 fills, not 8 x 2.
    nodes = (keep("L0", "AWZ"), loop("N", 4), spread("N", 1), keep("L1", "W"), loop("M", 1), loop("K", 1))
    # A is asked for by 4 instances, then by 1: one multicast read each: 2 x (3 x 2).
    expected: Actions = {("L0", "W"): (10, 0), ("L1", "W"): (30, 10), ("L0", "A"): (12, 0)}
    check(gemm(3, 5, 2), arch("L1"), nodes, expected)


def test_multicast_off_serves_every_instance() -> None:
    # N 4 over 4 instances; A (3 x 2) is wanted by all of them at each of 6 steps: 6 reads, or 24 without multicast.
    nodes = (keep("L0", "AWZ"), spread("N", 1), loop("M", 1), loop("K", 1))
    check(gemm(3, 4, 2), arch("mac"), nodes, {("L0", "A"): (6, 0), ("L0", "W"): (24, 0)})
    check(gemm(3, 4, 2), arch("mac", multicast=False), nodes, {("L0", "A"): (24, 0), ("L0", "W"): (24, 0)})


def test_spatial_reduction_adds_on_the_way() -> None:
    # K 8 over 4 instances, 2 steps each, 3 x 2 outputs. Arrivals at L0: 6 outputs x 2 steps = 12, 6 of them first.
    nodes = (keep("L0", "AWZ"), loop("M", 1), loop("N", 1), loop("K", 4), spread("K", 1))
    check(gemm(3, 2, 8), arch("mac"), nodes, {("L0", "Z"): (6, 12)})
    # Without reduction all 48 products arrive one by one, 6 of them first.
    check(gemm(3, 2, 8), arch("mac", reduction=False), nodes, {("L0", "Z"): (42, 48)})


def test_partial_sums_of_a_reduction_group_come_back_to_one_instance() -> None:
    # K 4 = 2 (time, outermost) x 2 (instances). L1 of each instance holds one of 3 outputs at a time.
    nodes = (keep("L0", "AWZ"), loop("K", 2), loop("M", 1), spread("K", 1), keep("L1", "Z"))
    expected: Actions = {
        # Per K step and output one reduced arrival: 6, of which 3 are first: 3 come back down.
        ("L0", "Z"): (3, 6),
        # Fills from above: 3. Accumulations: 12, into 12 tiles of which 3 have started: 3 reads, and 12 drains.
        ("L1", "Z"): (15, 15),
    }
    check(gemm(3, 1, 4), arch("L1"), nodes, expected)
    # Without reduction both instances' sums arrive (12), each but the first of an output is added at L0 (9 reads);
    # still only one instance goes on with the sum that was there (3 fills).
    check(gemm(3, 1, 4), arch("L1", reduction=False), nodes, expected | {("L0", "Z"): (9, 12)})


def test_partial_sums_spill_when_the_reduction_is_outside() -> None:
    # K 3 outside M 4: L1 holds one of 4 x 2 outputs rows (2) at a time; each row comes 3 times.
    nodes = (keep("L0", "AWZ"), loop("K", 1), loop("M", 1), keep("L1", "Z"), loop("N", 1))
    expected: Actions = {
        # 3 x 8 arrive, all but the first 8 had come down before.
        ("L0", "Z"): (16, 24),
        # 16 refills and 24 accumulations written; 24 drained, and 24 - 8 accumulations find a sum.
        ("L1", "Z"): (40, 40),
    }
    check(gemm(4, 2, 3), arch(), nodes, expected)


OUTPUT_STATIONARY = (keep("L0", "AWZ"), loop("M", 1), loop("N", 1), keep("L1", "AWZ"), loop("K", 1))


def test_first_accumulations_read_under_zigzag() -> None:
    # 2 x 2 x 3. Z in L1: 12 accumulations into 4 outputs, each read before: 12 reads, and 4 drains. At L0 every
    # output arrives once: nothing is read back.
    check(gemm(2, 2, 3), arch(), OUTPUT_STATIONARY, {("L1", "Z"): (16, 12), ("L0", "Z"): (0, 4)}, "zigzag")
    # Elsewhere 8 of the 12 find a sum.
    check(gemm(2, 2, 3), arch(), OUTPUT_STATIONARY, {("L1", "Z"): (12, 12), ("L0", "Z"): (0, 4)}, "tileloom")


def test_first_goes_read_at_every_level_under_zigzag() -> None:
    # K 3 outside M 4: each row of 2 outputs comes to L1 3 times, and every time it is fetched: 3 x 8.
    nodes = (keep("L0", "AWZ"), loop("K", 1), loop("M", 1), keep("L1", "Z"), loop("N", 1))
    # L1: 24 fetched, 24 accumulated; 24 accumulations read, 24 drained.
    check(gemm(4, 2, 3), arch(), nodes, {("L0", "Z"): (24, 24), ("L1", "Z"): (48, 48)}, "zigzag")


def test_returning_sums_are_written_into_every_instance_under_accelforge() -> None:
    # K 4 = 2 (time, outermost) x 2 (instances); L1 of each instance holds one of 3 outputs at a time.
    nodes = (keep("L0", "AWZ"), loop("K", 2), loop("M", 1), spread("K", 1), keep("L1", "Z"))
    # 3 sums return, each to both instances: 6 writes beside 12 accumulations; these find 6 sums; 12 drains.
    check(gemm(3, 1, 4), arch("L1"), nodes, {("L0", "Z"): (3, 6), ("L1", "Z"): (18, 18)}, "accelforge")


def test_sums_return_to_the_instances_that_go_on_with_them_under_accelforge() -> None:
    # K 5 = 4 1 (time) over instances of 2: two instances in the first step, one in the second; 3 outputs.
    nodes = (keep("L0", "AWZ"), loop("K", 4), loop("M", 1), spread("K", 2), keep("L1", "Z"), loop("K", 1))
    # 3 sums return, to the one instance with work: 3 writes beside 15 accumulations. 6 of these are first ones
    # and 3 + 6 find a sum; 9 drains.
    expected: Actions = {("L0", "Z"): (3, 6), ("L1", "Z"): (18, 18)}
    check(gemm(3, 1, 5), arch("L1"), nodes, expected, "accelforge")
    # Without reduction three sums of an output arrive, two of which are added.
    check(gemm(3, 1, 5), arch("L1", reduction=False), nodes, expected | {("L0", "Z"): (6, 9)}, "accelforge")


def test_final_drains_are_free_under_timeloop() -> None:
    check(gemm(2, 2, 3), arch(), OUTPUT_STATIONARY, {("L1", "Z"): (8, 12), ("L0", "Z"): (0, 4)}, "timeloop")


def test_operand_latches_read_once_per_refill() -> None:
    # W[K,N] under M innermost: 3 x 2 weights, each used 4 times in a row: 24 uses, 6 refills of the latch.
    nodes = (keep("L0", "AWZ"), loop("N", 1), loop("K", 1), keep("L1", "W"), loop("M", 1))
    check(gemm(4, 2, 3), arch(), nodes, {("L1", "W"): (24, 6)}, "accelforge")
    check(gemm(4, 2, 3), arch(), nodes, {("L1", "W"): (6, 6)}, "zigzag")


def test_skipped_loops_leave_the_tile_alone() -> None:
    # L1 holds W[K,N] tiles of 2 x 1. Loops above: N/1 (indexes W), then M/2 and M/1 (do not): refilled per N step.
    nodes = (keep("L0", "AWZ"), loop("N", 1), loop("M", 2), loop("M", 1), keep("L1", "W"), loop("K", 1))
    check(gemm(4, 3, 2), arch(), nodes, {("L0", "W"): (6, 0), ("L1", "W"): (24, 6)})
    # With M outermost it comes again for each M step.
    nodes = (keep("L0", "AWZ"), loop("M", 2), loop("N", 1), loop("M", 1), keep("L1", "W"), loop("K", 1))
    check(gemm(4, 3, 2), arch(), nodes, {("L0", "W"): (12, 0), ("L1", "W"): (24, 12)})


def test_overlapping_outputs_of_a_transposed_convolution_are_each_an_arrival() -> None:
    # O[2*IX + FX], IX 3, FX 3: windows 012 234 456: 7 distinct of 9. Each of 3 instances holds its window.
    nodes = (keep("L0", "IWO"), spread("IX", 1), keep("L1", "O"), loop("FX", 1))
    op = transposed_conv({"IX": 3, "FX": 3})
    # 9 arrive at L0, 7 of them first; the other 2 are added there. Nothing is sent down: all start from nothing.
    check(op, arch("L1"), nodes, {("L0", "O"): (2, 9), ("L1", "O"): (9, 9)})


def test_two_dims_share_one_axis() -> None:
    # K 2 and N 4 on one axis of 8. A[M,K] is wanted by the 4 instances of equal K: one read each: 3 x 2.
    # Z: per step 4 sums of 2 products: 3 x 4 = 12 arrivals, all first.
    nodes = (keep("L0", "AWZ"), loop("M", 1), spread("K", 1), spread("N", 1))
    check(gemm(3, 4, 2), arch("mac"), nodes, {("L0", "A"): (6, 0), ("L0", "W"): (24, 0), ("L0", "Z"): (0, 12)})
