"""Algorithms of collectives as steps of transfers, priced on the graph: the alpha-beta model with contention.

Every algorithm is a list of phases. A phase is so many equal steps, and a step takes the latency of its longest route plus
the bytes of its busiest link over that link's bandwidth. Nothing here knows a library; `nccl` and `peer` add what theirs cost.

Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005 (ring,
    halving and doubling); Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
    2009 (double binary tree); Klenk et al., "An in-network architecture for accelerating shared-memory multiprocessor
    collectives", ISCA 2020 (reduction in the switch).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from ...archdsl import ModelError, System, Torus
from .wiring import StepCost, Transfer, Wiring, wiring_of

CollectiveOp = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "point_to_point"]
OPS: Final[tuple[CollectiveOp, ...]] = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "point_to_point")


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Equal steps that follow one another.

    Attributes:
        name: What they do.
        num_steps: How many there are.
        cost: What one costs.
    """

    name: str
    num_steps: int
    cost: StepCost


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """One way to do a collective with given chips.

    Attributes:
        name: Its name.
        phases: What it does, in order.
    """

    name: str
    phases: tuple[Phase, ...]

    @property
    def num_steps(self) -> int:
        """Steps of all phases."""
        return sum(phase.num_steps for phase in self.phases)

    @property
    def latency_s(self) -> float:
        """Time of an empty message [s]."""
        return sum(phase.num_steps * phase.cost.latency_s for phase in self.phases)

    @property
    def s_per_byte(self) -> float:
        """Time that each byte of the message adds [s/B]."""
        return sum(phase.num_steps * phase.cost.s_per_byte for phase in self.phases)


@lru_cache(maxsize=1024)
def algorithms_for(system: System, op: CollectiveOp, chips: tuple[str, ...]) -> tuple[Algorithm, ...]:
    """Every algorithm that these chips can do an op with. The message is counted as nccl-tests does.

    `all_reduce`: what each chip holds before and after; `all_gather`: what each holds after; `reduce_scatter`,
    `all_to_all`: what each holds before; `point_to_point`: what the first sends to the second.

    Raises:
        ModelError: Too few chips, or some that no links connect.
    """
    if len(chips) < 2 or len(set(chips)) != len(chips):
        raise ModelError(
            f"{op}: a collective takes two or more different chips, not {len(chips)} ({', '.join(chips[:4])})"
        )
    wiring = wiring_of(system)
    if op == "point_to_point":
        if len(chips) != 2:
            raise ModelError(f"point_to_point is between two chips, not {len(chips)}")
        return (Algorithm(name="direct", phases=(_phase(wiring, "send", 1, [(chips[0], chips[1], 1.0)]),)),)
    found = [make(wiring, op, chips) for make in _MAKERS]
    return tuple(one for one in found if one is not None)


def ring_cost(wiring: Wiring, chips: Sequence[str], share: float) -> StepCost:
    """One step of a ring in which every chip passes a share of the message on, half each way round."""
    order = wiring.ring_order(chips)
    return wiring.step(_ring_transfers(order, share))


def exchange_cost(wiring: Wiring, chips: Sequence[str], share: float) -> StepCost:
    """A step in which every chip sends a share of the message to each of the others."""
    return wiring.step((left, right, share) for left in chips for right in chips if left != right)


def _phase(wiring: Wiring, name: str, num_steps: int, transfers: Sequence[Transfer]) -> Phase:
    return Phase(name=name, num_steps=num_steps, cost=wiring.step(transfers))


def _ring_transfers(order: Sequence[str], share: float) -> Iterator[Transfer]:
    if len(order) == 2:
        yield from ((order[0], order[1], share), (order[1], order[0], share))
        return
    for left, right in zip(order, (*order[1:], order[0]), strict=True):
        yield left, right, share / 2
        yield right, left, share / 2


def _ring(wiring: Wiring, op: CollectiveOp, chips: tuple[str, ...]) -> Algorithm | None:
    if op == "all_to_all":
        return None
    num = len(chips)
    cost = ring_cost(wiring, chips, 1 / num)
    names = {"all_reduce": ("reduce-scatter", "all-gather"), "all_gather": ("all-gather",)}
    phases = names.get(op, ("reduce-scatter",))
    return Algorithm(name="ring", phases=tuple(Phase(name=name, num_steps=num - 1, cost=cost) for name in phases))


def _one_shot(wiring: Wiring, op: CollectiveOp, chips: tuple[str, ...]) -> Algorithm | None:
    """Everybody sends at once: the whole message in an all-reduce, else each its part."""
    share = 1.0 if op == "all_reduce" else 1 / len(chips)
    name = "one-shot" if op == "all_reduce" else "direct"
    return Algorithm(name=name, phases=(Phase(name="exchange", num_steps=1, cost=exchange_cost(wiring, chips, share)),))


def _two_shot(wiring: Wiring, op: CollectiveOp, chips: tuple[str, ...]) -> Algorithm | None:
    if op != "all_reduce":
        return None
    cost = exchange_cost(wiring, chips, 1 / len(chips))
    names = ("reduce-scatter", "all-gather")
    return Algorithm(name="two-shot", phases=tuple(Phase(name=name, num_steps=1, cost=cost) for name in names))


def _halving(wiring: Wiring, op: CollectiveOp, chips: tuple[str, ...]) -> Algorithm | None:
    """Recursive halving, doubling, or both: partners 1, 2, 4, ... apart move 1/2, 1/4, 1/8, ... of the message."""
    num = len(chips)
    if op == "all_to_all" or num & (num - 1):
        return None
    phases: list[Phase] = []
    distance, share = num // 2, 0.5
    while distance:
        transfers = [(chips[idx], chips[idx ^ distance], share) for idx in range(num)]
        phases.append(_phase(wiring, f"partners {distance} apart", 1, transfers))
        distance, share = distance // 2, share / 2
    if op == "all_reduce":
        phases += reversed(phases)
    name = {"all_reduce": "halving and doubling", "all_gather": "doubling"}.get(op, "halving")
    return Algorithm(name=name, phases=tuple(phases[::-1] if op == "all_gather" else phases))


def _double_tree(wiring: Wiring, op: CollectiveOp, chips: tuple[str, ...]) -> Algorithm | None:
    """Two binary trees, each reducing and broadcasting half of the message, in a pipeline.

    The pipeline hides all but one trip up and down, so its phase of transfers has no latency of its own.
    """
    num = len(chips)
    if op != "all_reduce" or num < 3:
        return None
    transfers: list[Transfer] = []
    for order in (chips, (*chips[1:], chips[0])):
        for idx in range(1, num):
            parent, child = order[(idx - 1) // 2], order[idx]
            transfers += [(child, parent, 0.5), (parent, child, 0.5)]
    cost = wiring.step(transfers)
    trip = StepCost(latency_s=cost.latency_s, s_per_byte=0.0, busiest="")
    stream = StepCost(latency_s=0.0, s_per_byte=cost.s_per_byte, busiest=cost.busiest)
    depth = math.floor(math.log2(num))
    return Algorithm(
        name="double binary tree",
        phases=(
            Phase(name="up and down", num_steps=2 * depth, cost=trip),
            Phase(name="pipeline", num_steps=1, cost=stream),
        ),
    )


def _in_network(wiring: Wiring, op: CollectiveOp, chips: tuple[str, ...]) -> Algorithm | None:
    """A switch adds up what it pulls from all and copies results to all.

    Each of n chips makes one n-th of the result: it pulls that part of everybody through the adding switch, and pushes the
    result through the copying one. So a link carries (1 + 1/n) of the message each way, where a ring carries 2 (n - 1)/n.
    """
    switch = wiring.reducing_switch(chips)
    if switch is None or op == "all_to_all":
        return None
    num = len(chips)
    up = {"all_reduce": 1 + 1 / num, "all_gather": 1 / num, "reduce_scatter": 1.0}[op]
    down = {"all_reduce": 1 + 1 / num, "all_gather": 1.0, "reduce_scatter": 1 / num}[op]
    cost = wiring.step([*((chip, switch, up) for chip in chips), *((switch, chip, down) for chip in chips)])
    latency = max(wiring.latency_s(left, right) for left in chips[:1] for right in chips[1:])
    num_trips = 2 if op == "all_reduce" else 1
    trip = StepCost(latency_s=latency, s_per_byte=0.0, busiest="")
    stream = StepCost(latency_s=0.0, s_per_byte=cost.s_per_byte, busiest=cost.busiest)
    phases = (Phase(name="trips", num_steps=num_trips, cost=trip), Phase(name="stream", num_steps=1, cost=stream))
    return Algorithm(name="in-network", phases=phases)


def _torus(wiring: Wiring, op: CollectiveOp, chips: tuple[str, ...]) -> Algorithm | None:
    """Rings along every direction of a torus at once.

    The message is divided into as many parts as there are directions. Part number r is reduced along direction r, then what
    is left of it along r + 1, and so on, so that in every phase each direction serves one part; gathering goes backwards.
    """
    shape = _torus_shape(wiring.system, chips)
    if shape is None or op == "all_to_all":
        return None
    lines = [_lines(chips, shape, direction) for direction in range(len(shape))]
    num = len(shape)
    phases: list[Phase] = []
    for phase_idx in range(num):
        transfers: list[Transfer] = []
        for part_idx in range(num):
            direction = (part_idx + phase_idx) % num
            earlier = math.prod(shape[(part_idx + before) % num] for before in range(phase_idx))
            share = 1 / num / earlier / shape[direction]
            for line in lines[direction]:
                transfers += _ring_transfers(line, share)
        # Directions of unequal size wait for the longest.
        name = f"{'reduce-scatter' if op != 'all_gather' else 'all-gather'} {phase_idx}"
        phases.append(_phase(wiring, name, max(shape) - 1, transfers))
    gathering = [
        Phase(name=f"all-gather {idx}", num_steps=one.num_steps, cost=one.cost) for idx, one in enumerate(phases)
    ]
    if op == "all_reduce":
        phases += reversed(gathering)
    return Algorithm(name="torus", phases=tuple(phases[::-1] if op == "all_gather" else phases))


def _torus_shape(system: System, chips: tuple[str, ...]) -> tuple[int, ...] | None:
    """Sizes above 1 of the closed torus that connects exactly these chips in this order."""
    for entry in system.topology:
        if isinstance(entry, Torus) and entry.wrap and entry.wired is None and chips in system.copies_of(entry):
            return tuple(size for size in entry.shape if size > 1)
    return None


def _lines(chips: tuple[str, ...], shape: tuple[int, ...], direction: int) -> list[tuple[str, ...]]:
    """Chips along one direction, line by line; the last direction varies fastest."""
    stride = math.prod(shape[direction + 1 :])
    block = stride * shape[direction]
    return [
        chips[start + offset : start + block : stride]
        for start in range(0, len(chips), block)
        for offset in range(stride)
    ]


def _hierarchical(wiring: Wiring, op: CollectiveOp, chips: tuple[str, ...]) -> Algorithm | None:
    """Reduce-scatter within each node, all-reduce between chips of equal place in their nodes, all-gather within."""
    nodes = wiring.domains(chips)
    sizes = {len(node) for node in nodes}
    if op == "all_to_all" or len(nodes) < 2 or len(sizes) != 1 or sizes == {1}:
        return None
    inner, outer = len(nodes[0]), len(nodes)
    within = wiring.step(one for node in nodes for one in _ring_transfers(wiring.ring_order(node), 1 / inner))
    rails = [tuple(node[place] for node in nodes) for place in range(inner)]
    share = 1 / inner / outer
    across = wiring.step(one for rail in rails for one in _ring_transfers(rail, share))
    if op == "all_reduce":
        phases = [
            Phase(name="reduce-scatter in nodes", num_steps=inner - 1, cost=within),
            Phase(name="all-reduce across nodes", num_steps=2 * (outer - 1), cost=across),
            Phase(name="all-gather in nodes", num_steps=inner - 1, cost=within),
        ]
    else:
        phases = [
            Phase(name=f"{op} in nodes", num_steps=inner - 1, cost=within),
            Phase(name=f"{op} across nodes", num_steps=outer - 1, cost=across),
        ]
    return Algorithm(name="hierarchical", phases=tuple(phases))


_MAKERS: Final[tuple[Callable[[Wiring, CollectiveOp, tuple[str, ...]], Algorithm | None], ...]] = (
    _ring,
    _one_shot,
    _two_shot,
    _halving,
    _double_tree,
    _in_network,
    _torus,
    _hierarchical,
)
