"""What is served, on what and how; and whether a layout suits it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ...archdsl import LanguageModel, ModelError, counted
from ..gpu.calibrations import Mode
from ..gpu.chip import Chip, has_calibration, make_chip
from .engine import Engine, Traffic
from .fabric import Fabric
from .graph import DEFAULT_LOAD_IMBALANCE
from .heterogeneous import FEED_FORWARD_ROLES, FeedForwardPool, SplitStepTimer
from .memory import MemoryColumns, memory_of
from .numerics import Numerics, require_datatypes
from .parallel import Layout, Layouts, require_layout
from .steps import StepTimer
from .timing import GpuStepTimer

SCHEDULER_CONSTANT = "scheduler_s_per_sequence"
USUAL_CALIBRATION = "frameworks_warm"
"""Constants of calibrated services where none are named: those of inference frameworks' common kernels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What is served, on what, and how.

    Attributes:
        model: The model.
        numerics: Its datatypes.
        fabric: The system.
        chip: Its GPU, with the constants of one mode.
        engine: How requests are batched.
        traffic: What users ask for.
        load_imbalance: Rows of the fullest chip over the mean, among chips that share experts.
        feed_forward: Other chips that do the feed-forward networks; None when the GPUs do everything.
    """

    model: LanguageModel
    numerics: Numerics
    fabric: Fabric
    chip: Chip
    engine: Engine
    traffic: Traffic
    load_imbalance: float = DEFAULT_LOAD_IMBALANCE
    feed_forward: FeedForwardPool | None = None

    @property
    def timer(self) -> StepTimer:
        """Prices its steps."""
        gpus = GpuStepTimer(
            model=self.model,
            numerics=self.numerics,
            chip=self.chip,
            fabric=self.fabric,
            load_imbalance=self.load_imbalance,
        )
        return gpus if self.feed_forward is None else SplitStepTimer(gpus=gpus, pool=self.feed_forward)

    def memory(self, layouts: Layouts) -> MemoryColumns:
        """What a chip of each layout holds."""
        return memory_of(
            self.model,
            self.numerics,
            self.fabric,
            layouts,
            sequence_tokens=self.traffic.isl + self.traffic.osl,
            step_tokens=self.engine.max_step_tokens,
            sampled=256.0,
            without=FEED_FORWARD_ROLES if self.feed_forward is not None else frozenset(),
        )


def make_service(
    model: LanguageModel,
    numerics: Numerics,
    fabric: Fabric,
    engine: Engine,
    traffic: Traffic,
    *,
    mode: Mode = "datasheet",
    calibration: str | None = None,
    load_imbalance: float = DEFAULT_LOAD_IMBALANCE,
    feed_forward: FeedForwardPool | None = None,
) -> Service:
    """A service with the constants of one mode, the scheduler's among them; those usual for frameworks where none are named.

    Raises:
        ModelError: No such calibration, a number of the traffic is out of range, or the chip lacks a datatype.
    """
    for name, value in (("isl", traffic.isl), ("max step tokens", engine.max_step_tokens)):
        if value < 1:
            raise ModelError(f"{name} {value} is below 1")
    if traffic.osl < 2:
        raise ModelError(f"osl {traffic.osl} is below 2: a time per output token needs a token after the first")
    if not 0 <= traffic.prefix_hit < 1:
        raise ModelError(f"prefix hit {traffic.prefix_hit:g} is not between 0 and 1 (1 excluded)")
    if engine.max_sequences is not None and engine.max_sequences < 1:
        raise ModelError(f"max sequences {engine.max_sequences} is below 1; leave it out for no limit")
    if load_imbalance < 1:
        raise ModelError(f"load imbalance {load_imbalance:g} is below 1")
    if not math.isfinite(load_imbalance):
        raise ModelError(f"load imbalance {load_imbalance:g} is no number; 1 is a router that chooses all alike")
    if load_imbalance != DEFAULT_LOAD_IMBALANCE and model.experts is None:
        raise ModelError(f"load imbalance {load_imbalance:g}: {model.name} has no experts; leave it out")
    front_end = engine.front_end_tokens_per_s
    if front_end is not None and not (front_end > 0 and math.isfinite(front_end)):
        raise ModelError(f"front end: {front_end:g} tokens/s is not a number above 0; leave it out for no limit")
    if engine.speculation.queries > engine.max_step_tokens:
        raise ModelError(
            f"drafts of {engine.speculation.draft_tokens:,} tokens do not fit in a step of {engine.max_step_tokens:,}: "
            "shorten drafts, or lengthen steps (--max-step-tokens)"
        )
    require_datatypes(model, numerics, fabric.arch)
    if calibration is None and mode == "calibrated" and has_calibration(fabric.arch, USUAL_CALIBRATION):
        calibration = USUAL_CALIBRATION
    chip = make_chip(fabric.arch, mode, calibration)
    return Service(
        model=model,
        numerics=numerics,
        fabric=fabric,
        chip=chip,
        engine=replace(engine, scheduler_s_per_sequence=chip.constants[SCHEDULER_CONSTANT]),
        traffic=traffic,
        load_imbalance=load_imbalance,
        feed_forward=feed_forward,
    )


def require_service(service: Service, layout: Layout, concurrency: int) -> None:
    """Check that a layout suits the model, the system and the traffic.

    Raises:
        ModelError: It does not; all reasons that concern the layout together.
    """
    require_layout(service.model, layout)
    if layout.num_chips > service.fabric.num_chips:
        raise ModelError(
            f"{layout} needs {counted(layout.num_chips, 'chips')}; {service.fabric.name} has {service.fabric.num_chips}"
        )
    if concurrency < 1:
        raise ModelError(f"concurrency {concurrency} is below 1")
    require_context(service)


def require_context(service: Service) -> None:
    """Check that prompt and answer are within the model's context.

    Raises:
        ModelError: They are not.
    """
    longest = service.model.max_tokens
    total = service.traffic.isl + service.traffic.osl
    if longest is not None and total > longest:
        raise ModelError(
            f"isl + osl = {total:,} tokens; {service.model.name} was made for {longest:,}: shorten --isl or --osl"
        )
