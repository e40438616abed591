"""All ways to serve a rate of requests: prompts among those that decode, apart from them, and networks on other chips."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...archdsl import Infeasible
from .heterogeneous import FeedForwardPool, pool_of
from .plan import Limits, Plan, make_plan
from .plan_pools import PoolsPlan, plan_pools
from .plan_split import SplitPlan, plan_split
from .service import Service

Way = Literal["together", "apart", "split"]
"""Prompts ride on steps that decode; prompts have instances of their own; feed-forward networks run on other chips."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plans:
    """The cheapest plan of each way, or why there is none.

    Attributes:
        together: Prompts ride on steps that decode.
        apart: Prompts have instances of their own.
        split: Feed-forward networks run on other chips; None where there are no such chips.
    """

    together: Plan | Infeasible
    apart: PoolsPlan | Infeasible
    split: SplitPlan | Infeasible | None

    @property
    def cheapest(self) -> Way | None:
        """The way with the fewest chips, the simplest of equal ones; None where no plan holds."""
        ways: tuple[tuple[Way, Plan | PoolsPlan | SplitPlan | Infeasible | None], ...] = (
            ("together", self.together),
            ("apart", self.apart),
            ("split", self.split),
        )
        chips: dict[Way, int] = {
            way: plan.num_chips for way, plan in ways if plan is not None and not isinstance(plan, Infeasible)
        }
        return min(chips, key=lambda way: chips[way], default=None)


def make_plans(service: Service, limits: Limits, pool: FeedForwardPool | None = None) -> Plans:
    """The cheapest plan of each way.

    Args:
        service: What is served, on GPUs.
        limits: What must hold.
        pool: Chips for feed-forward networks; those beside the GPUs of the system when left out.

    Raises:
        ModelError: The model cannot be laid out on the system at all, or a chip lacks a datatype.
    """
    others = pool if pool is not None else _neighbours(service)
    return Plans(
        together=make_plan(service, limits),
        apart=plan_pools(service, limits),
        split=None if others is None else plan_split(service, limits, others),
    )


def _neighbours(service: Service) -> FeedForwardPool | None:
    """Chips of another kind in the system, as a pool."""
    beside = service.fabric.neighbours
    if beside is None:
        return None
    return pool_of(
        beside.arch,
        beside.num_chips,
        chips_per_layer=beside.num_chips,
        link_bytes_per_s=beside.link_bytes_per_s,
        link_latency_s=beside.link_latency_s,
    )
