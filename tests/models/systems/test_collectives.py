"""Collectives: limits of the alpha-beta model, choices, what more hardware may never do, messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.archdsl import ModelError, System, load_arch, load_system
from tileloom.models.systems import CONSTANTS, CollectiveOp, Collectives, Machine, make_machine
from tileloom.models.systems.algorithms import OPS, algorithms_for
from tileloom.models.systems.constants import CUSTOM_SET, NCCL_SET

SIZES = 2 ** np.arange(9, 30)
LARGE = np.array([2**34])
GIGA = 1e9


def switched(count: int, *, bandwidth: str = "50 GB/s", links: int = 1, reduces: bool = False) -> System:
    """Chips behind one switch."""
    return System.model_validate(
        {
            "schema_version": 1,
            "kind": "system",
            "name": "test",
            "chips": [{"name": "gpu", "count": count, "arch": load_arch("h100_sxm")}],
            "links": [{"name": "link", "bandwidth": bandwidth, "latency": "0.5 us", "source": "assumption: test"}],
            "topology": [
                {"kind": "switch", "name": "hub", "link": "link", "members": ["gpu"], "parallel_links": links,
                 "reduces": reduces, "source": "assumption: test"}
            ],
        }
    )  # fmt: skip


def times_of(system: System, op: CollectiveOp, sizes: Any = SIZES, library: str = "nccl") -> Any:
    num = 2 if op == "point_to_point" else len(system.chip_names)
    return Collectives(op=op, sizes_bytes=sizes, num_chips=num, library=library).times(make_machine(system))


def bus_bandwidth(op: CollectiveOp, num: int, size: int, time_s: float) -> float:
    """As nccl-tests counts it: bytes over the busiest link per time."""
    factor = {"all_reduce": 2 * (num - 1) / num, "point_to_point": 1.0}.get(op, (num - 1) / num)
    return factor * size / time_s


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("num", [2, 4, 8])
def test_large_messages_run_at_the_links_bandwidth(op: CollectiveOp, num: int) -> None:
    found = times_of(switched(num), op, LARGE, "ideal")
    size = int(LARGE[0])
    shown = bus_bandwidth(op, 2 if op == "point_to_point" else num, size, found.time_s[0])
    assert shown == pytest.approx(50 * GIGA, rel=1e-3)


def test_reduction_in_the_switch_halves_what_links_carry() -> None:
    plain = times_of(switched(8), "all_reduce", LARGE, "ideal")
    reducing = times_of(switched(8, reduces=True), "all_reduce", LARGE, "ideal")
    assert reducing.choices == ("in-network",)
    assert plain.time_s[0] / reducing.time_s[0] == pytest.approx(2 * (7 / 8) / (1 + 1 / 8), rel=1e-3)


def test_small_messages_cost_latency_alone() -> None:
    found = times_of(switched(8), "all_reduce", np.array([1]), "ideal")
    assert found.choices == ("one-shot",)
    assert found.time_s[0] == pytest.approx(1e-6, rel=1e-3)


def test_ring_of_two_sends_each_byte_once() -> None:
    system = System.model_validate(
        {
            "schema_version": 1, "kind": "system", "name": "pair",
            "chips": [{"name": "gpu", "count": 2, "arch": load_arch("h100_sxm")}],
            "links": [{"name": "link", "bandwidth": "50 GB/s", "latency": "1 us", "source": "assumption: test"}],
            "topology": [{"kind": "ring", "link": "link", "members": ["gpu"]}],
        }
    )  # fmt: skip
    ring = next(one for one in algorithms_for(system, "all_reduce", system.chip_names) if one.name == "ring")
    assert ring.num_steps == 2
    assert ring.s_per_byte * 50 * GIGA == pytest.approx(1.0)


@pytest.mark.parametrize("library", ["nccl", "ideal"])
@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
def test_more_or_faster_links_are_never_slower(op: CollectiveOp, library: str) -> None:
    base = times_of(switched(8), op, SIZES, library).time_s
    assert np.all(times_of(switched(8, links=2), op, SIZES, library).time_s <= base * (1 + 1e-9))
    if library == "ideal":
        assert np.all(times_of(switched(8, reduces=True), op, SIZES, library).time_s <= base * (1 + 1e-9))


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
def test_no_collective_beats_its_links(op: CollectiveOp) -> None:
    system = load_system("dgx_h100")
    factor = 1 + 1 / 8 if op == "all_reduce" else 7 / 8
    least = factor * SIZES / (450 * GIGA)
    assert np.all(times_of(system, op).time_s >= least)
    assert np.all(times_of(system, op, SIZES, "ideal").time_s >= least * (1 - 1e-9))


@pytest.mark.parametrize("library", ["nccl", "trtllm", "vllm_graph", "vllm_eager", "sglang_graph", "sglang_eager"])
def test_parts_add_up_to_the_time(library: str) -> None:
    found = times_of(load_system("dgx_b200"), "all_reduce", SIZES, library)
    for idx in range(len(SIZES)):
        part = found.part(idx)
        assert part.amount == pytest.approx(found.time_s[idx])
        assert found.choices[idx]


def test_batch_and_single_agree_bit_for_bit() -> None:
    batch = times_of(load_system("dgx_h100"), "all_reduce").time_s
    for idx in (0, 7, 20):
        assert times_of(load_system("dgx_h100"), "all_reduce", SIZES[idx : idx + 1]).time_s[0] == batch[idx]


def test_nccl_takes_ll_for_small_and_the_switch_for_large_messages() -> None:
    hopper = times_of(load_system("dgx_h100"), "all_reduce").choices
    assert (hopper[0], hopper[-1]) == ("ring LL", "multicast Simple")
    ampere = times_of(load_system("dgx_a100"), "all_reduce").choices
    assert (ampere[0], ampere[-1]) == ("ring LL", "ring Simple")


def test_frameworks_fall_back_to_nccl_above_their_limit() -> None:
    system = load_system("dgx_a100")
    found = times_of(system, "all_reduce", np.array([2**23, 2**24]), "vllm_graph")
    assert found.choices == ("two-shot pull", times_of(system, "all_reduce", np.array([2**24])).choices[0])


def test_host_hides_short_kernels_without_a_graph() -> None:
    found = times_of(load_system("dgx_h100"), "all_reduce", np.array([512, 2**29]), "vllm_eager")
    assert found.time_s[0] == CONSTANTS["host_launch_vllm_s"].value
    assert found.time_s[1] > times_of(load_system("dgx_h100"), "all_reduce", np.array([2**29]), "vllm_graph").time_s[0]


def test_all_reduce_across_nodes_is_bound_by_the_network() -> None:
    system = load_system("ib_cluster")
    size = np.array([2**30])
    within = Collectives(op="all_reduce", sizes_bytes=size, num_chips=8).times(make_machine(system)).time_s[0]
    across = Collectives(op="all_reduce", sizes_bytes=size, num_chips=32).times(make_machine(system)).time_s[0]
    # Eight ports of 50 GB/s per node against 450 GB/s within.
    assert across > within
    assert bus_bandwidth("all_reduce", 32, 2**30, across) < 400 * GIGA


def test_calibration_is_borrowed_within_a_generation_and_said() -> None:
    machine = make_machine(load_system("hgx_h200"), "calibrated", "nccl")
    assert machine.notes == ("hgx_h200 has no measurements: constants of dgx_h100 (nccl) are borrowed",)
    assert machine.constants == make_machine(load_system("dgx_h100"), "calibrated", "nccl").constants


def test_a_set_has_at_most_twelve_constants() -> None:
    assert len(NCCL_SET) <= 12
    assert len(CUSTOM_SET) <= 12


def chips_of(num: int, **rest: Any) -> Collectives:
    fields: dict[str, Any] = {"op": "all_reduce", "sizes_bytes": np.array([1024]), "num_chips": num, **rest}
    return Collectives(**fields)


@pytest.mark.parametrize(
    ("collectives", "system", "message"),
    [
        (chips_of(9), "dgx_h100", "dgx_h100 has 8 chips; a collective takes 2 to that many, not 9"),
        (chips_of(1), "dgx_h100", "dgx_h100 has 8 chips; a collective takes 2 to that many, not 1"),
        (chips_of(2, library="ncll"), "dgx_h100", "unknown library 'ncll'; did you mean 'nccl'?"),
        (chips_of(2, op="allreduce"), "dgx_h100", "unknown collective 'allreduce'; did you mean 'all_reduce'?"),
        (chips_of(2, op="all_gather", library="trtllm"), "dgx_h100", "trtllm does all_reduce alone; use library 'nccl'"),
        (chips_of(3, library="trtllm"), "dgx_h100", "dgx_h100: trtllm has all-reduce kernels for 2, 4, 8 chips, not for 3"),
        (chips_of(2, chips=("gpu.0", "gpu.8")), "dgx_h100", "dgx_h100 has no chip 'gpu.8'; did you mean 'gpu.7'?"),
        (chips_of(9), "ib_cluster", "ib_cluster: the chips stand in nodes of 8, 1 chips; NCCL is modelled for equal nodes"),
    ],
)  # fmt: skip
def test_message_says_what_and_how_to_fix(collectives: Collectives, system: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        collectives.times(make_machine(load_system(system)))
    assert message in str(caught.value)


def test_unknown_calibration_names_the_known_ones() -> None:
    with pytest.raises(ModelError, match=r"which calibration\? There are custom_allreduce, nccl; name one"):
        make_machine(load_system("dgx_h100"), "calibrated")
    with pytest.raises(ModelError, match="pcie_box: no calibration 'nccl'.*use mode datasheet"):
        make_machine(load_system("pcie_box"), "calibrated", "nccl")
    with pytest.raises(ModelError, match="needs mode calibrated"):
        make_machine(load_system("dgx_h100"), "datasheet", "nccl")


def test_nccl_refuses_chips_that_it_does_not_know() -> None:
    system = switched(2).model_copy(update={"chips": (switched(2).chips[0].model_copy(
        update={"arch": switched(2).chips[0].arch.model_copy(update={"generation": None})}),)})  # fmt: skip
    with pytest.raises(
        ModelError, match="NCCL's cost model knows GPUs of ampere, hopper, blackwell.*use library 'ideal'"
    ):
        Collectives(op="all_reduce", sizes_bytes=SIZES, num_chips=2).times(make_machine(system))


def test_machine_with_other_constants_keeps_the_rest() -> None:
    machine = make_machine(load_system("dgx_h100"))
    changed: Machine = machine.with_constants({"ring_hop_s": 1e-6})
    assert changed.constants["ring_hop_s"] == 1e-6
    assert {**changed.constants, "ring_hop_s": 0} == {**machine.constants, "ring_hop_s": 0}


@pytest.mark.parametrize(("op", "passes"), [("all_reduce", 2), ("all_gather", 1), ("reduce_scatter", 1)])
def test_torus_uses_all_links_of_a_chip(op: CollectiveOp, passes: int) -> None:
    system = load_system("tpu_v4_slice")
    found = times_of(system, op, LARGE, "ideal")
    assert found.choices == ("torus",)
    # Six links of 50 GB/s carry what one pass has to move.
    least = passes * (63 / 64) * int(LARGE[0]) / (6 * 50 * GIGA)
    assert found.time_s[0] == pytest.approx(least, rel=1e-3)
