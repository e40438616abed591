"""Serving of language models: steps of an engine, its steady state, and plans of how many chips to use and how."""

from .arrivals import ArrivalColumns, ArrivalEstimate, ArrivalPrices, price_arrivals, serve_at_rate
from .batch_curves import BatchCurves
from .disaggregated import DisaggregatedEstimate, Pools, serve_disaggregated
from .engine import POLICIES, Engine, Policy, SteadyState, Traffic, steady_state
from .fabric import Fabric, Neighbours, fabric_of, fabric_of_chips, load_fabric
from .heterogeneous import FeedForwardPool, SplitStepTimer, pool_of
from .load_generator import LoadTest, StepCosts, run_arrivals, run_load_test, step_costs
from .memory import MemoryColumns, memory_of, weights_per_chip
from .numerics import KV_DATATYPES, PUBLISHED, QUANTISATIONS, Numerics, numerics_of, weight_bytes
from .open_loop import ArrivalModel, OpenLoop
from .parallel import Layout, Layouts, layout_faults, layouts_of, possible_layouts, require_layout
from .plan import Limits, Plan, PlanPoints, RateSearch, make_plan, search_rates
from .plan_pools import PoolsPlan, plan_pools
from .plan_split import SplitPlan, plan_split
from .plans import Plans, Way, make_plans
from .service import SCHEDULER_CONSTANT, Service, make_service, require_service
from .serving import (
    ServeEstimate,
    ServiceColumns,
    estimate_at,
    load_test,
    sequences_in_cache,
    serve,
    serve_columns,
)
from .speculation import NO_SPECULATION, Speculation
from .steps import Steps, StepTimer, StepTimes, make_steps
from .timing import GpuStepTimer

__all__ = [
    "KV_DATATYPES",
    "NO_SPECULATION",
    "POLICIES",
    "PUBLISHED",
    "QUANTISATIONS",
    "SCHEDULER_CONSTANT",
    "ArrivalColumns",
    "ArrivalEstimate",
    "ArrivalModel",
    "ArrivalPrices",
    "BatchCurves",
    "DisaggregatedEstimate",
    "Engine",
    "Fabric",
    "FeedForwardPool",
    "GpuStepTimer",
    "Layout",
    "Layouts",
    "Limits",
    "LoadTest",
    "MemoryColumns",
    "Neighbours",
    "Numerics",
    "OpenLoop",
    "Plan",
    "PlanPoints",
    "Plans",
    "Policy",
    "Pools",
    "PoolsPlan",
    "RateSearch",
    "ServeEstimate",
    "Service",
    "ServiceColumns",
    "Speculation",
    "SplitPlan",
    "SplitStepTimer",
    "SteadyState",
    "StepCosts",
    "StepTimer",
    "StepTimes",
    "Steps",
    "Traffic",
    "Way",
    "estimate_at",
    "fabric_of",
    "fabric_of_chips",
    "layout_faults",
    "layouts_of",
    "load_fabric",
    "load_test",
    "make_plan",
    "make_plans",
    "make_service",
    "make_steps",
    "memory_of",
    "numerics_of",
    "plan_pools",
    "plan_split",
    "pool_of",
    "possible_layouts",
    "price_arrivals",
    "require_layout",
    "require_service",
    "run_arrivals",
    "run_load_test",
    "search_rates",
    "sequences_in_cache",
    "serve",
    "serve_at_rate",
    "serve_columns",
    "serve_disaggregated",
    "steady_state",
    "step_costs",
    "weight_bytes",
    "weights_per_chip",
]
