"""What the tests of serving share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import pytest

from tileloom.archdsl import load_language_model
from tileloom.models.gpu.calibrations import Mode
from tileloom.models.gpu.chip import Chip
from tileloom.models.serving import (
    Engine,
    FeedForwardPool,
    Service,
    Traffic,
    load_fabric,
    make_service,
    numerics_of,
)


class ServiceMaker(Protocol):
    """Makes a service from names; see `service`."""

    def __call__(self, model: str = ..., system: str = ..., **options: Any) -> Service: ...


@pytest.fixture
def service() -> ServiceMaker:
    """A service from names: `quantisation`, `kv`, `isl`, `osl`, `prefix_hit`, `load_imbalance`,
    `feed_forward`, `mode`; the rest is the engine's."""

    def make(model: str = "llama3.1_8b", system: str = "8xh100_sxm", **options: Any) -> Service:
        described = load_language_model(model)
        numerics = numerics_of(described, options.pop("quantisation", "published"), options.pop("kv", "bf16"))
        traffic = Traffic(
            isl=options.pop("isl", 1024), osl=options.pop("osl", 256), prefix_hit=options.pop("prefix_hit", 0.0)
        )
        load_imbalance = options.pop("load_imbalance", 1.0)
        pool: FeedForwardPool | None = options.pop("feed_forward", None)
        mode: Mode = options.pop("mode", "datasheet")
        fabric = load_fabric(system)
        return make_service(
            described,
            numerics,
            fabric,
            Engine(**options),
            traffic,
            mode=mode,
            load_imbalance=load_imbalance,
            feed_forward=pool,
        )

    return make


def with_memory_bandwidth(service: Service, factor: float) -> Service:
    """The service on a chip whose main memory is faster by a factor."""
    memory = service.chip.arch.main_memory
    faster = replace(memory.bandwidth, amount=memory.bandwidth.amount * factor)
    arch = service.chip.arch.model_copy(update={"main_memory": memory.model_copy(update={"bandwidth": faster})})
    chip: Chip = replace(service.chip, arch=arch)
    return replace(service, chip=chip, fabric=replace(service.fabric, arch=arch))


def with_scheduler(service: Service, seconds: float) -> Service:
    """The service with another overhead of the scheduler."""
    chip = service.chip.with_constants({"scheduler_s_per_sequence": seconds})
    return replace(service, chip=chip, engine=replace(service.engine, scheduler_s_per_sequence=seconds))
