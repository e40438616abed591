"""What the links of a system carry: routes, and the busiest link of transfers that happen at once.

A transfer takes the route of least latency. Transfers that share a link in one direction share its bandwidth, so a step of
a collective takes as long as its longest route and its busiest link. Equal routes are not split.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

from ...archdsl import LinkTechnology, ModelError, System, nearest_hint

if TYPE_CHECKING:
    import networkx as nx

Transfer = tuple[str, str, float]
"""Sender, receiver, and the share of the message that it moves."""

MAX_UNTANGLED = 36
"""Rings of more chips keep the order of going to the nearest."""

LOCAL_TECHNOLOGIES: frozenset[LinkTechnology | None] = frozenset({"nvlink", "pcie", "ici", "c2c", None})
"""Links within a node; the others are networks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One link of a route, in one direction.

    Attributes:
        sender: Where it starts.
        receiver: Where it ends.
        link: Name of the link.
        bytes_per_s: Bandwidth of all parallel links together [B/s].
        latency_s: Time of the first byte, with that of the switch at the end [s].
        technology: What the link is made of.
    """

    sender: str
    receiver: str
    link: str
    bytes_per_s: float
    latency_s: float
    technology: LinkTechnology | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """Transfers that happen at once.

    Attributes:
        latency_s: Latency of the longest route [s].
        s_per_byte: Time that the busiest link takes per byte of the message [s/B].
        busiest: That link, as `sender > receiver`; empty when nothing moves.
    """

    latency_s: float
    s_per_byte: float
    busiest: str


class Wiring:
    """Routes of one system; made by `wiring_of`, which keeps them."""

    def __init__(self, system: System) -> None:
        self.system = system
        self._graph: nx.MultiGraph[str] = system.graph()
        self._technology: dict[str, LinkTechnology | None] = {link.name: link.technology for link in system.links}
        self._routes: dict[str, dict[str, tuple[Hop, ...]]] = {}

    def route(self, sender: str, receiver: str) -> tuple[Hop, ...]:
        """The route of least latency, then of most bandwidth at its narrowest link.

        Raises:
            ModelError: There is no such chip or no route.
        """
        for chip in (sender, receiver):
            if chip not in self._graph:
                hint = nearest_hint(chip, self.system.chip_names)
                raise ModelError(f"{self.system.name} has no chip '{chip}'{hint}")
        if sender not in self._routes:
            self._routes[sender] = self._routes_from(sender)
        found = self._routes[sender].get(receiver)
        if found is None:
            raise ModelError(f"{self.system.name}: no links lead from {sender} to {receiver}")
        return found

    def _routes_from(self, sender: str) -> dict[str, tuple[Hop, ...]]:
        import networkx as nx

        def weight(left: str, right: str, edges: dict[str, dict[str, Any]]) -> float:
            return min(self._latency(right, edge) for edge in edges.values())

        dijkstra: Any = nx.single_source_dijkstra_path  # its stubs leave the weight's type unknown
        paths: dict[str, list[str]] = dijkstra(self._graph, sender, weight=weight)
        return {
            receiver: tuple(self._hop(left, right) for left, right in pairwise(path))
            for receiver, path in paths.items()
        }

    def _latency(self, receiver: str, edge: dict[str, Any]) -> float:
        return float(edge["latency_s"]) + float(self._graph.nodes[receiver].get("latency_s", 0.0))

    def _hop(self, left: str, right: str) -> Hop:
        edges: list[dict[str, Any]] = list(self._graph[left][right].values())
        edge = min(edges, key=lambda one: (one["latency_s"], -one["bandwidth_bytes_per_s"]))
        return Hop(
            sender=left,
            receiver=right,
            link=edge["link"],
            bytes_per_s=edge["bandwidth_bytes_per_s"],
            latency_s=self._latency(right, edge),
            technology=self._technology[edge["link"]],
        )

    def latency_s(self, sender: str, receiver: str) -> float:
        """Time until the first byte arrives [s]."""
        return sum(hop.latency_s for hop in self.route(sender, receiver))

    def step(self, transfers: Iterable[Transfer]) -> StepCost:
        """What transfers cost that happen at once: each directed link carries the sum of what is routed over it."""
        load: dict[tuple[str, str], float] = {}
        rate: dict[tuple[str, str], float] = {}
        longest = 0.0
        for sender, receiver, share in transfers:
            route = self.route(sender, receiver)
            longest = max(longest, sum(hop.latency_s for hop in route))
            for hop in route:
                at = (hop.sender, hop.receiver)
                load[at] = load.get(at, 0.0) + share
                rate[at] = hop.bytes_per_s
        times = {at: share / rate[at] for at, share in load.items()}
        busiest = max(times, key=lambda at: times[at], default=None)
        if busiest is None:
            return StepCost(latency_s=longest, s_per_byte=0.0, busiest="")
        return StepCost(latency_s=longest, s_per_byte=times[busiest], busiest=f"{busiest[0]} > {busiest[1]}")

    def domains(self, chips: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """Chips by node: those that reach one another without a network, each in the order given."""
        found: list[list[str]] = []
        for chip in chips:
            home = next((one for one in found if self._is_local(one[0], chip)), None)
            if home is None:
                found.append([chip])
            else:
                home.append(chip)
        return tuple(tuple(one) for one in found)

    def _is_local(self, left: str, right: str) -> bool:
        return all(hop.technology in LOCAL_TECHNOLOGIES for hop in self.route(left, right))

    def reducing_switch(self, chips: Sequence[str]) -> str | None:
        """A switch that adds up and to which every one of the chips is connected directly."""
        for name, entry in self.system.switches.items():
            if entry.reduces and all(self._graph.has_edge(chip, name) for chip in chips):
                return name
        return None

    def ring_order(self, chips: Sequence[str]) -> tuple[str, ...]:
        """An order in which each chip is near the next: the given one unless going to the nearest is shorter."""
        rest = list(chips[1:])
        order = [chips[0]]
        while rest:
            at = order[-1]
            # Of equally near ones the first, so that the given order stays where it is as good.
            near = min(range(len(rest)), key=lambda idx: self.latency_s(at, rest[idx]))
            order.append(rest.pop(near))
        best = min((list(chips), self._untangled(order)), key=self._around)
        return tuple(best)

    def _untangled(self, order: list[str]) -> list[str]:
        """The order with stretches reversed as long as that shortens the way round (2-opt)."""
        if len(order) > MAX_UNTANGLED:
            return order
        length = self._around(order)
        is_shorter = True
        while is_shorter:
            is_shorter = False
            for start, end in combinations(range(1, len(order) + 1), 2):
                trial = [*order[:start], *order[start:end][::-1], *order[end:]]
                if (found := self._around(trial)) < length * (1 - 1e-9):
                    order, length, is_shorter = trial, found, True
        return order

    def _around(self, order: Sequence[str]) -> float:
        return sum(self.latency_s(left, right) for left, right in zip(order, (*order[1:], order[0]), strict=True))


@lru_cache(maxsize=64)
def wiring_of(system: System) -> Wiring:
    """The routes of a system."""
    return Wiring(system)
