"""What the links of a system carry: routes, and the busiest link of transfers that happen at once.

A transfer takes the route of least latency. Transfers that share a link in one direction share its bandwidth, so a step of
a collective takes as long as its longest route and its busiest link. Equal routes are not split.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush
from itertools import combinations, count

from ...archdsl import LinkTechnology, ModelError, System, nearest_hint

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
        self._hops = _hops_of(system)
        self._routes: dict[str, dict[str, tuple[Hop, ...]]] = {}

    def route(self, sender: str, receiver: str) -> tuple[Hop, ...]:
        """The route of least latency, then of most bandwidth at its narrowest link.

        Raises:
            ModelError: There is no such chip or no route.
        """
        for chip in (sender, receiver):
            if chip not in self._hops:
                hint = nearest_hint(chip, self.system.chip_names)
                raise ModelError(f"{self.system.name} has no chip '{chip}'{hint}")
        if sender not in self._routes:
            self._routes[sender] = self._routes_from(sender)
        found = self._routes[sender].get(receiver)
        if found is None:
            raise ModelError(f"{self.system.name}: no links lead from {sender} to {receiver}")
        return found

    def _routes_from(self, sender: str) -> dict[str, tuple[Hop, ...]]:
        """Routes to all that can be reached (Dijkstra); of equally near ones the one found first."""
        found: dict[str, list[Hop]] = {sender: []}
        nearest, known = {sender: 0.0}, set[str]()
        order = count()
        waiting = [(0.0, next(order), sender)]
        while waiting:
            latency_s, _, at = heappop(waiting)
            if at in known:
                continue
            known.add(at)
            for receiver, hop in self._hops[at].items():
                further_s = latency_s + hop.latency_s
                if receiver not in nearest or further_s < nearest[receiver]:
                    nearest[receiver], found[receiver] = further_s, [*found[at], hop]
                    heappush(waiting, (further_s, next(order), receiver))
        return {receiver: tuple(hops) for receiver, hops in found.items()}

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
            if entry.reduces and all(name in self._hops[chip] for chip in chips):
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


def _hops_of(system: System) -> dict[str, dict[str, Hop]]:
    """From every chip and switch the best link to each neighbour: that of least latency, then of most bandwidth."""
    links = {link.name: link for link in system.links}
    hops: dict[str, dict[str, Hop]] = {name: {} for name in (*system.chip_names, *system.switches)}
    for edge in system.edges():
        link = links[edge.link]
        for sender, receiver in ((edge.left, edge.right), (edge.right, edge.left)):
            switch = system.switches.get(receiver)
            hop = Hop(
                sender=sender,
                receiver=receiver,
                link=edge.link,
                bytes_per_s=link.bandwidth.amount * edge.num_links,
                latency_s=float(link.latency_s) + float(switch.latency_s if switch else 0.0),
                technology=link.technology,
            )
            known = hops[sender].get(receiver)
            if known is None or _rank(hop) < _rank(known):
                hops[sender][receiver] = hop
    return hops


def _rank(hop: Hop) -> tuple[float, float]:
    return hop.latency_s, -hop.bytes_per_s


@lru_cache(maxsize=64)
def wiring_of(system: System) -> Wiring:
    """The routes of a system."""
    return Wiring(system)
