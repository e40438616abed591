"""Placements and static schedules: capacity, order, links, arrival; the checker finds what is broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from tileloom.archdsl import Infeasible, ModelError, System, Workload, load_system, parse_notation
from tileloom.models.spatial_systems import (
    Placement,
    StaticSchedule,
    place,
    reach_of,
    schedule_faults,
    schedule_statically,
)
from tileloom.models.spatial_systems.published import resnet50
from tileloom.models.spatial_systems.reach import latency_for

RACK = load_system("groq_rack")
# Hot Chips 2026: GB of SRAM, and the latency in us within which they are reached.
LPX_REACH_US = {8: 0.35, 64: 0.75, 128: 1.15, 384: 1.6, 640: 2.05, 896: 2.5, 1152: 2.95}


def placed(workload: Workload, system: System = RACK, **how: int) -> Placement:
    found = place(workload, system, **how)
    assert isinstance(found, Placement)
    return found


def chain(num_ops: int, size: int = 640) -> Workload:
    ops = tuple(
        replace(parse_notation(f"gemm:M=16,N={size},K={size},bits=8"), name=f"fc{idx}") for idx in range(num_ops)
    )
    return Workload(name="chain", ops=ops)


@pytest.mark.parametrize(("num_stages", "tensor_parallel"), [(1, 1), (4, 1), (9, 8), (1, 8), (5, 3)])
def test_schedule_has_no_faults(num_stages: int, tensor_parallel: int) -> None:
    placement = placed(chain(12), num_stages=num_stages, tensor_parallel=tensor_parallel)
    assert list(schedule_faults(schedule_statically(placement, RACK), RACK)) == []


def test_resnet50_over_eight_chips_has_no_faults_and_a_faster_pipeline() -> None:
    one, eight = (placed(resnet50(), num_stages=num) for num in (1, 8))
    assert list(schedule_faults(schedule_statically(eight, RACK), RACK)) == []
    assert eight.slowest.cycles.amount < one.slowest.cycles.amount / 6
    assert [op.name for stage in eight.stages for op in stage.ops] == [op.name for op in resnet50().ops]


def test_one_chip_needs_no_transfers() -> None:
    schedule = schedule_statically(placed(chain(3), num_stages=1), RACK)
    assert schedule.transfers == ()
    assert schedule.latency_cycles == sum(run.end_cycle - run.start_cycle for run in schedule.runs)


def test_transfer_takes_latency_and_bytes() -> None:
    schedule = schedule_statically(placed(chain(2), num_stages=2), RACK)
    (move,) = schedule.transfers
    # 16 x 640 bytes at 12.5 GB/s and 0.6 us, in cycles of 900 MHz.
    assert move.num_bytes == 16 * 640
    assert move.arrival_cycle - move.link_start_cycles[0] == 540 + 738
    assert schedule.runs[1].start_cycle == move.arrival_cycle


def test_transfers_on_one_link_follow_one_another() -> None:
    schedule = schedule_statically(placed(chain(2), num_stages=1, tensor_parallel=16), RACK)
    by_link: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for move in schedule.transfers:
        for link, start, busy in zip(move.links, move.link_start_cycles, move.busy_cycles, strict=True):
            by_link.setdefault(link, []).append((start, start + busy))
    assert max(len(taken) for taken in by_link.values()) > 1
    for taken in by_link.values():
        ordered = sorted(taken)
        assert all(before[1] <= after[0] for before, after in pairwise(ordered))


def test_schedule_is_the_same_every_time() -> None:
    placement = placed(chain(6), num_stages=3, tensor_parallel=2)
    assert schedule_statically(placement, RACK) == schedule_statically(placement, RACK)


def test_table_lists_every_run_and_link() -> None:
    schedule = schedule_statically(placed(chain(2), num_stages=2), RACK)
    lines = schedule.table().splitlines()
    assert len(lines) == 1 + 2 + 1
    assert lines[1].endswith("tsp.0: stage 0, fc0")
    assert lines[2].endswith("tsp.0 > tsp.1: 10,240 bytes for tsp.1")


def broken_link(schedule: StaticSchedule) -> StaticSchedule:
    """Two transfers in the same cycle."""
    first, second, *rest = schedule.transfers
    moved = replace(second, links=first.links, link_start_cycles=first.link_start_cycles, busy_cycles=first.busy_cycles)
    return replace(schedule, transfers=(first, moved, *rest))


def broken_start(schedule: StaticSchedule) -> StaticSchedule:
    """A run that does not wait."""
    *runs, last = schedule.runs
    return replace(schedule, runs=(*runs, replace(last, start_cycle=0)))


def broken_send(schedule: StaticSchedule) -> StaticSchedule:
    """A transfer that starts before its data are made."""
    first, *rest = schedule.transfers
    return replace(schedule, transfers=(replace(first, link_start_cycles=(0,)), *rest))


def broken_bytes(schedule: StaticSchedule) -> StaticSchedule:
    """A transfer that is too short for its bytes."""
    first, *rest = schedule.transfers
    return replace(schedule, transfers=(replace(first, busy_cycles=(1,)), *rest))


def broken_absence(schedule: StaticSchedule) -> StaticSchedule:
    """A transfer left out."""
    return replace(schedule, transfers=schedule.transfers[1:])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (broken_link, "two transfers at once"),
        (broken_start, "starts in cycle 0, its operand from"),
        (broken_send, "before it is made"),
        (broken_bytes, "do not pass in 1 cycles"),
        (broken_absence, "lacks the part that tsp.0 makes"),
    ],
)
def test_checker_finds_what_is_broken(damage: Callable[[StaticSchedule], StaticSchedule], message: str) -> None:
    schedule = schedule_statically(placed(chain(2), num_stages=1, tensor_parallel=4), RACK)
    assert any(message in fault for fault in schedule_faults(damage(schedule), RACK))


def test_weights_that_do_not_fit_are_refused_with_the_bytes() -> None:
    found = place(chain(3, size=20_000), RACK, num_stages=3)
    assert isinstance(found, Infeasible)
    assert (found.demand, found.limit, found.unit) == (400_000_000, 220 * 1024**2, "bytes")
    assert "SRAM of one groq_tsp: needs 400,000,000 bytes" in str(found)
    assert "at least 6 chips instead of 3" in str(found)
    assert isinstance(place(chain(3, size=20_000), RACK, num_stages=3, tensor_parallel=2), Placement)


def test_stage_never_holds_more_than_its_sram() -> None:
    for stage in placed(chain(12, size=8000), num_stages=6).stages:
        assert stage.weight_bytes <= 220 * 1024**2


@pytest.mark.parametrize(
    ("system", "how", "message"),
    [
        ("groq_rack", {"num_stages": 4}, "chain has 3 ops; it divides into 1 to that many stages, not 4"),
        ("groq_rack", {"num_stages": 3, "tensor_parallel": 25}, "groq_rack has 72 chips; 3 x 25 are asked for"),
        ("dgx_h100", {"num_stages": 1}, "h100_sxm is a GPU; weights are resident on spatial chips only"),
        ("tpu_v4_slice", {"num_stages": 1}, "tpu_v4 streams its weights from main memory"),
    ],
)
def test_placement_says_what_is_wrong(system: str, how: dict[str, int], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        place(chain(3), load_system(system), **how)


def test_links_with_flow_control_have_no_static_schedule() -> None:
    loose = tuple(link.model_copy(update={"is_static": False, "clock_hz": None}) for link in RACK.links)
    system = RACK.model_copy(update={"links": loose})
    with pytest.raises(ModelError, match="groq_rack: a static schedule needs static links of one clock"):
        schedule_statically(placed(chain(2), num_stages=2), system)


def test_lpx_reach_is_within_20_percent_of_published() -> None:
    reaches = reach_of(load_system("lpx_rack", {"parameters.racks": 9}), "lpu.0")
    for gigabytes, latency_us in LPX_REACH_US.items():
        assert latency_for(reaches, gigabytes * 1e9) * 1e6 == pytest.approx(latency_us, rel=0.20)


def test_reach_grows_to_the_whole_system() -> None:
    reaches = reach_of(load_system("lpx_rack"), "lpu.37")
    # Its 15 + 7 + 1 neighbours, then theirs.
    assert [reach.num_chips for reach in reaches] == [24, 151, 256]
    assert reaches[-1].capacity_bytes == 256 * 500e6
    with pytest.raises(ModelError, match="the system has 128,000,000,000 on its chips"):
        latency_for(reaches, 1e12)


def test_chips_with_main_memory_have_no_reach() -> None:
    with pytest.raises(ModelError, match="outermost memory is on the chip"):
        reach_of(load_system("dgx_h100"), "gpu.0")
