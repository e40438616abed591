"""A small spatial architecture, whose nodes tests change."""

from collections.abc import Callable
from typing import Any

import pytest

from tileloom.archdsl import SpatialArch

Changes = dict[str, dict[str, Any]]


@pytest.fixture
def make_arch() -> Callable[..., SpatialArch]:
    """Builds the architecture with fields of named nodes replaced."""

    def make(changes: Changes | None = None, **technology: float) -> SpatialArch:
        hierarchy: list[dict[str, Any]] = [
            {
                "kind": "memory",
                "name": "dram",
                "memory_class": "main_memory",
                "capacity_bytes": None,
                "width_bits": 128,
                "technology": "hbm2",
            },
            {
                "kind": "memory",
                "name": "scratchpad",
                "memory_class": "scratchpad",
                "capacity_bytes": 256 * 1024,
                "width_bits": 128,
                "banks": 4,
                "ports": {"read": 1, "write": 1},
            },
            {"kind": "fanout", "name": "array", "axes": [{"name": "rows", "size": 4}, {"name": "cols", "size": 8}]},
            {
                "kind": "memory",
                "name": "register",
                "memory_class": "register_file",
                "capacity_bytes": 8,
                "width_bits": 32,
            },
            {"kind": "compute", "name": "mac", "datatypes": {"int8": {}, "bf16": {"macs_per_cycle": 0.5}}},
        ]
        for node in hierarchy:
            node.update((changes or {}).get(node["name"], {}))
        return SpatialArch.model_validate(
            {
                "schema_version": 1,
                "kind": "spatial",
                "name": "small",
                "clock_hz": 1e9,
                "technology": {"node_nm": 22.0, "source": "assumption: test", **technology},
                "hierarchy": hierarchy,
                "source": "assumption: test",
            }
        )

    return make
