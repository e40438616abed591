"""Plans with prompts apart and with feed-forward networks on other chips: as good as trying all, and what binds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileloom.archdsl import Infeasible, InfeasibleError, ModelError, load_arch
from tileloom.models.serving import (
    FeedForwardPool,
    Layout,
    Limits,
    Plan,
    Pools,
    PoolsPlan,
    Service,
    SplitPlan,
    load_fabric,
    make_plans,
    plan_pools,
    plan_split,
    pool_of,
    serve_disaggregated,
)

from .conftest import ServiceMaker

LPU = Path(__file__).parent / "lpu.yaml"


def lpus(num_chips: int) -> FeedForwardPool:
    """LPUs behind a link."""
    return pool_of(load_arch(LPU), num_chips, chips_per_layer=num_chips, link_bytes_per_s=400e9, link_latency_s=2e-6)


def brute_force(service: Service, limits: Limits, layouts: list[Layout], most: int) -> int | None:
    """Fewest chips of all pairs of layouts and numbers of instances, by one estimate at a time."""
    found: list[int] = []
    for prefill in layouts:
        for decode in layouts:
            for num_prefill in range(1, most + 1):
                for num_decode in range(1, most + 1):
                    pools = Pools(prefill=prefill, num_prefill=num_prefill, decode=decode, num_decode=num_decode)
                    if pools.num_chips > service.fabric.num_chips:
                        continue
                    try:
                        one = serve_disaggregated(service, pools, limits.requests_per_s)
                    except (ModelError, InfeasibleError):
                        continue
                    assert limits.ttft_s is not None and limits.tpot_s is not None
                    if one.ttft.amount <= limits.ttft_s and one.tpot.amount <= limits.tpot_s:
                        found.append(pools.num_chips)
    return min(found, default=None)


def test_pools_are_those_of_brute_force(service: ServiceMaker) -> None:
    made = service("llama3.1_8b", "4xh100_sxm")
    limits = Limits(requests_per_s=30, ttft_s=0.2, tpot_s=0.02)
    layouts = [Layout(), Layout(tp=2)]
    plan = plan_pools(made, limits, layouts)
    assert isinstance(plan, PoolsPlan)
    assert plan.num_chips == brute_force(made, limits, layouts, 2)


def test_pools_hold_their_limits_and_say_what_binds(service: ServiceMaker) -> None:
    made = service("llama3.1_70b", "64xh100_sxm")
    strict = plan_pools(made, Limits(requests_per_s=10, ttft_s=0.5, tpot_s=0.013))
    loose = plan_pools(made, Limits(requests_per_s=10, ttft_s=0.5))
    assert isinstance(strict, PoolsPlan) and isinstance(loose, PoolsPlan)
    assert strict.estimate.ttft.amount <= 0.5
    assert strict.estimate.tpot.amount <= 0.013
    assert loose.num_chips < strict.num_chips
    assert "tpot" in strict.binding and "tpot" not in loose.binding


def test_pools_that_no_number_of_chips_makes_fast_enough_are_told(service: ServiceMaker) -> None:
    answer = plan_pools(service(), Limits(requests_per_s=1, tpot_s=1e-4))
    assert isinstance(answer, Infeasible)
    assert answer.levers == ("wider limits in --slo", "prompts among those that decode")
    many = plan_pools(service(), Limits(requests_per_s=2000))
    assert isinstance(many, Infeasible) and many.demand > 8
    assert many.levers == (f"a system of {many.demand} chips",)


def test_other_chips_hold_what_gpus_alone_do_not(service: ServiceMaker) -> None:
    made = service("llama3.1_70b", "8xh100_sxm", quantisation="fp8")
    limits = Limits(requests_per_s=1, tpot_s=0.005)
    plans = make_plans(made, limits, lpus(512))
    assert isinstance(plans.together, Infeasible)
    assert isinstance(plans.split, SplitPlan)
    assert plans.cheapest == "split"
    assert plans.split.estimate.arrivals.tpot.amount <= 0.005
    assert plans.split.num_gpus <= 8 and plans.split.num_others <= 512
    assert plans.split.pool.chips_per_layer == plans.split.pool.num_chips


def test_other_chips_that_hold_too_little_are_told(service: ServiceMaker) -> None:
    answer = plan_split(service("llama3.1_70b", quantisation="fp8"), Limits(requests_per_s=1), lpus(16))
    assert isinstance(answer, Infeasible)
    assert answer.unit == "bytes"


def test_gpus_alone_are_the_cheapest_where_they_hold(service: ServiceMaker) -> None:
    plans = make_plans(service(), Limits(requests_per_s=5, tpot_s=0.03))
    assert isinstance(plans.together, Plan) and isinstance(plans.apart, PoolsPlan)
    assert plans.split is None
    assert plans.cheapest == "together"
    assert plans.together.num_chips == 1 < plans.apart.num_chips


def test_a_system_with_both_kinds_of_chips_is_searched_as_it_is(service: ServiceMaker, tmp_path: Path) -> None:
    path = tmp_path / "both.yaml"
    path.write_text(BOTH.replace("LPU", str(LPU)), encoding="utf-8")
    fabric = load_fabric(str(path))
    assert fabric.num_chips == 4 and fabric.domain_chips == 4
    beside = fabric.neighbours
    assert beside is not None
    assert (beside.arch.name, beside.num_chips) == ("test_lpu", 512)
    assert beside.link_bytes_per_s == 50e9
    assert beside.link_latency_s == pytest.approx(2e-6)
    plans = make_plans(service("llama3.1_70b", str(path), quantisation="fp8"), Limits(requests_per_s=1, tpot_s=0.007))
    assert isinstance(plans.split, SplitPlan)


BOTH = """schema_version: 1
kind: system
name: both
chips:
  - {name: gpu, count: 4, arch: h100_sxm}
  - {name: lpu, count: 512, arch: "LPU"}
links:
  - {name: nvlink, bandwidth: 450 GB/s, latency: 0.5 us, technology: nvlink, source: "assumption: made up for tests"}
  - {name: bridge, bandwidth: 50 GB/s, latency: 1 us, technology: pcie, source: "assumption: made up for tests"}
topology:
  - {kind: switch, name: nvswitch, link: nvlink, members: [gpu]}
  - {kind: switch, name: bridges, link: bridge, members: [gpu, lpu]}
"""


def test_a_higher_rate_never_needs_fewer_chips(service: ServiceMaker) -> None:
    made = service("llama3.1_8b", "64xh200_sxm")
    together, apart = list[int](), list[int]()
    for requests_per_s in (1e-9, 1.0, 20.0, 100.0, 400.0):
        plans = make_plans(made, Limits(requests_per_s=requests_per_s, ttft_s=0.5, tpot_s=0.02))
        assert isinstance(plans.together, Plan) and isinstance(plans.apart, PoolsPlan)
        together.append(plans.together.num_chips)
        apart.append(plans.apart.num_chips)
    assert together == sorted(together) and apart == sorted(apart)
    assert together[0] == 1 and apart[0] == 2


def test_plans_beyond_the_context_are_errors(service: ServiceMaker) -> None:
    made = service("llama3.1_70b", isl=131_072)
    for search in (make_plans, plan_pools):
        with pytest.raises(ModelError, match=r"isl \+ osl = 131,328 tokens; .* shorten --isl or --osl"):
            search(made, Limits(requests_per_s=1))


def test_one_chip_is_no_chips(service: ServiceMaker) -> None:
    answer = plan_pools(service(system="h100_sxm"), Limits(requests_per_s=1))
    assert "needs 2 chips, has 1 chip\n" in str(answer)
