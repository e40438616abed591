"""Accesses of instructions: they add up to the traffic of the replay, and cost what the architecture says."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from tileloom.archdsl import Instruction, ProgramImage, SpatialArch, load_arch, load_image, pe_array
from tileloom.models import Accesses, AccessPrices, count_accesses, replay, resolve

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def image() -> ProgramImage:
    return load_image(ROOT / "docs" / "examples" / "programs" / "conv_8x8")


def tpe_8x8() -> SpatialArch:
    found = load_arch("tpe_8x8")
    assert isinstance(found, SpatialArch)
    return found


def counted(*program: Instruction) -> dict[str, int]:
    """What a few instructions do, without what is nothing."""
    found = count_accesses(pe_array(tpe_8x8()), program)
    totals = {field.name: int(getattr(found, field.name).sum()) for field in fields(Accesses)}
    return {name: total for name, total in totals.items() if total}


def test_main_memory_traffic_is_that_of_the_replay(image: ProgramImage) -> None:
    found, replayed = count_accesses(image.array, image.program), replay(image.array, image.program)
    assert found.memory_read_bytes.sum() == replayed.read_bytes
    assert found.memory_written_bytes.sum() == replayed.write_bytes


def test_groups_add_up(image: ProgramImage) -> None:
    found = count_accesses(image.array, image.program)
    groups = np.arange(len(image.program)) % 3 - 1  # a third belongs to no group
    grouped = found.grouped(groups, 2)
    for field in fields(Accesses):
        assert getattr(grouped, field.name).sum() == getattr(found, field.name)[groups >= 0].sum()


def test_one_compute_by_hand() -> None:
    compute = Instruction(name="COMPUTE", operands={"x_count": 5, "y_count": 2, "rows": 4, "accumulate": 1})
    assert counted(compute) == {
        "array_macs": 10 * 4 * 8, "register_read_bytes": 10 * 4 * 8, "scratchpad_read_bytes": 10 * 4,
        "accumulator_read_bytes": 10 * 32, "accumulator_written_bytes": 10 * 32,
    }  # fmt: skip


def test_widths_follow_the_last_configuration() -> None:
    walk = Instruction(name="CFG_WALK", operands={"input_bits": 2, "weight_bits": 1})
    preload = Instruction(name="PRELOAD", operands={"rows": 8})
    alu = Instruction(name="ALU", operands={"x_count": 3, "y_count": 1, "columns": 2, "operand": 2})
    assert counted(walk, preload) == {"scratchpad_read_bytes": 8 * 4, "register_written_bytes": 8 * 4}
    assert counted(walk, alu)["scratchpad_read_bytes"] == 2 * 3 * 2 * 4


@pytest.mark.parametrize(("space", "written"), [(0, "memory_written_bytes"), (1, "scratchpad_written_bytes")])
def test_stores_go_to_main_memory_in_beats_or_to_the_scratchpad(space: int, written: str) -> None:
    store = Instruction(name="ST", operands={"x_count": 3, "y_count": 1, "columns": 5, "space": space})
    assert counted(store) == {"accumulator_read_bytes": 3 * 32, written: 3 * (5 if space else 8)}


def test_energy_is_counts_times_the_architectures_energies(image: ProgramImage) -> None:
    arch = tpe_8x8()
    numbers = {level.name: level for level in resolve(arch).levels}
    accesses = count_accesses(image.array, image.program)
    total = accesses.grouped(np.zeros(len(image.program), dtype=np.int64), 1)
    energy = AccessPrices(arch).energy(total, 0)
    parts = {part.name: part.amount for part in energy.parts}
    assert energy.amount == pytest.approx(sum(parts.values()))
    memory = numbers["main_memory"]
    expected = (
        total.memory_read_bytes[0] * memory.read_pj_per_byte + total.memory_written_bytes[0] * memory.write_pj_per_byte
    )
    assert parts["main memory"] == pytest.approx(expected)
    assert parts["PE array"] == pytest.approx(total.array_macs[0] * resolve(arch).compute.datatypes[0].mac_pj)
