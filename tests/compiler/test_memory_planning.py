"""Memory planning: nothing that lives at the same time overlaps, what spares most stays, small cases to the optimum."""

from __future__ import annotations

import itertools
import random

import pytest

from tileloom.compiler.tiling.exact_planning import has_solver, optimal_places
from tileloom.compiler.tiling.planning import Lifetime, plan_memory

UNIT = 8


def _random_lifetimes(seed: int, num: int) -> list[Lifetime]:
    draw = random.Random(seed)
    found: list[Lifetime] = []
    for idx in range(num):
        first = draw.randrange(10)
        size = UNIT * draw.randint(1, 12)
        found.append(
            Lifetime(name=f"t{idx}", num_bytes=size, first=first, last=first + draw.randrange(5), traffic_bytes=size * draw.randint(1, 3))
        )  # fmt: skip
    return found


@pytest.mark.parametrize("seed", range(30))
def test_what_lives_at_the_same_time_does_not_overlap_and_fits(seed: int) -> None:
    items = _random_lifetimes(seed, 12)
    plan = plan_memory(items, 40 * UNIT, UNIT)
    placed = [item for item in items if item.name in plan.addresses]
    assert placed
    for one, other in itertools.combinations(placed, 2):
        if one.meets(other):
            low, high = sorted((one, other), key=lambda item: plan.addresses[item.name])
            assert plan.addresses[low.name] + low.num_bytes <= plan.addresses[high.name]
    assert max(plan.addresses[item.name] + item.num_bytes for item in placed) == plan.peak_bytes <= 40 * UNIT
    assert plan.live_bytes <= plan.peak_bytes
    assert 0 <= plan.fragmentation < 1


def test_what_spares_main_memory_most_stays() -> None:
    often = Lifetime(name="often", num_bytes=64, first=0, last=1, traffic_bytes=640)
    seldom = Lifetime(name="seldom", num_bytes=64, first=0, last=1, traffic_bytes=64)
    assert set(plan_memory([seldom, often], 100, UNIT).addresses) == {"often"}


def test_all_stay_where_all_fit() -> None:
    items = _random_lifetimes(3, 10)
    assert len(plan_memory(items, 1 << 20, UNIT).addresses) == 10


@pytest.mark.skipif(not has_solver(), reason="OR-Tools is not installed")
@pytest.mark.parametrize("seed", range(8))
def test_solver_finds_the_least_peak(seed: int) -> None:
    """The least peak of five items, by trying every order: each order's lowest places contain an optimal packing."""
    items = _random_lifetimes(100 + seed, 5)
    found = optimal_places(items, 1 << 12, UNIT)
    assert found is not None
    peak = max(found[item.name] + item.num_bytes for item in items)
    assert peak == min(_peak_in_order(order) for order in itertools.permutations(items))


def _peak_in_order(order: tuple[Lifetime, ...]) -> int:
    places: dict[str, int] = {}
    for idx, item in enumerate(order):
        at = 0
        for other in sorted((o for o in order[:idx] if o.meets(item)), key=lambda o: places[o.name]):
            if places[other.name] >= at + item.num_bytes:
                break
            at = max(at, places[other.name] + other.num_bytes)
        places[item.name] = at
    return max(places[item.name] + item.num_bytes for item in order)
