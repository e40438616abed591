"""Tensor PE arrays for tests of the compiler: some by name, and random ones."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final

from tileloom.archdsl import SpatialArch, load_arch, pe_array
from tileloom.compiler.compilation import CompileOptions

Overrides = Mapping[str, object]

ONE_PORT: Final[Overrides] = {
    "hierarchy.scratchpad.banks": 1,
    "hierarchy.scratchpad.ports": {"read": 0, "write": 0, "read_write": 1},
}
SMALL: Final[Overrides] = {"parameters.scratchpad": "8 KiB", "parameters.accumulator_vectors": 64}
WIDE: Final[Overrides] = {"parameters.scratchpad": "32 KiB", "parameters.accumulator_vectors": 128}


def arch_of(rows: int, cols: int, bus_bytes: int, overrides: Overrides | None = None) -> SpatialArch:
    """The preset tpe_16x16 with other sizes: a scratchpad of 64 KiB, 4 tables, and what else is asked for."""
    sizes: dict[str, object] = {
        "parameters.rows": rows, "parameters.cols": cols, "parameters.bus_bytes": bus_bytes,
        "parameters.scratchpad": "64 KiB",
    }  # fmt: skip
    return arch_named("tpe_16x16", {**sizes, **(overrides or {})})


def arch_named(name: str, overrides: Overrides | None = None) -> SpatialArch:
    """A preset, with what is asked for."""
    arch = load_arch(name, dict(overrides or {}))
    assert isinstance(arch, SpatialArch)
    return arch


def random_arch(rng: Random) -> SpatialArch:
    """An array of any sizes that the RTL can be built for: odd ones, one bank, one port, few slots, slow memory."""
    rows, cols = rng.choice((2, 3, 4, 5, 8, 8, 12, 16, 32)), rng.choice((2, 3, 4, 6, 8, 8, 12, 16, 32))
    word = 1 << max(1, (max(rows, cols) - 1).bit_length())
    buses = [bus for bus in (1, 2, 4, 8, 16, 32) if bus <= word and (cols % bus == 0 or bus % cols == 0)]
    accumulator_banks, latency = rng.choice((1, 2, 2, 4)), rng.choice((1, 20, 100, 100, 500))
    overrides: dict[str, object] = {
        "parameters.scratchpad": f"{rng.choice((8, 16, 32, 64, 128))} KiB",
        "parameters.accumulator_vectors": accumulator_banks * rng.choice((2, 8, 16, 33, 64, 256)),
        "hierarchy.scratchpad.banks": rng.choice((1, 2, 4, 4, 8)),
        "hierarchy.accumulator.banks": accumulator_banks,
        "hierarchy.mac.vector_lanes": rng.choice([lanes for lanes in range(1, cols + 1) if cols % lanes == 0]),
        "control.queue_depth": rng.choice((2, 3, 4, 8, 8, 16)),
        "control.loads_in_flight": rng.choice((1, 2, 4, 8)),
        "control.requests_in_flight": rng.choice((1, 3, 16, 32)),
        "control.parameter_slots": rng.choice((2, 3, 4, 8)),
        "control.table_slots": rng.choice((1, 2, 4)),
        "control.rounding": rng.choice(("half_to_even", "half_away")),
        "hierarchy.main_memory.latency": f"{latency} cycles",
    }  # fmt: skip
    if rng.random() < 0.3:
        overrides["hierarchy.scratchpad.ports"] = {"read": 0, "write": 0, "read_write": 1}
    bus_bytes, beat = rng.choice(buses), rng.choice((1, 1, 1, 2, 4))
    for name in ("read_bandwidth", "write_bandwidth"):
        overrides[f"hierarchy.main_memory.{name}"] = f"{bus_bytes / beat} B/cycle"
    return arch_of(rows, cols, bus_bytes, overrides)


def random_options(rng: Random, arch: SpatialArch) -> CompileOptions:
    """Choices of a compilation; the host may run what the array does not."""
    num_bytes = pe_array(arch).scratchpad_bytes
    return CompileOptions(
        fallback=True,
        keeps_layers=rng.random() < 0.25,
        keeps_on_chip=rng.random() < 0.7,
        staging_bytes=rng.choice((None, None, num_bytes // 8, num_bytes // 2, num_bytes)),
        loads_ahead=rng.choice((0, 1, 2, 8, 12)),
        is_depth_first=rng.random() < 0.8,
    )
