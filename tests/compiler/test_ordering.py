"""Loads that were moved ahead: nothing is lost, waits still hold, and banks and bus are used as they should be."""

from __future__ import annotations

from random import Random

import pytest

from tileloom.archdsl import PeArray, pe_array
from tileloom.compiler.codegen.expansion import expand
from tileloom.compiler.codegen.ordering import LOADS_AHEAD, with_loads_ahead
from tileloom.compiler.codegen.steps import Form, Steps
from tileloom.compiler.compilation import CompileOptions
from tileloom.compiler.generators import random_quantised_graph
from tileloom.compiler.generators.builder import GraphBuilder
from tileloom.compiler.generators.layers import add, conv
from tileloom.compiler.generators.quantisation import Scale
from tileloom.compiler.ir import tile
from tileloom.models import LOAD_STEP, replay

from .arrays import arch_named, random_arch, random_options
from .compiled import compiled_for, lowered

Key = tuple[str, tuple[int, ...]]


def programs(seed: int) -> tuple[list[tile.ProgramOp], PeArray]:
    """A random graph's programs for a random array."""
    rng = Random(seed)
    arch = random_arch(rng)
    _, after, _ = lowered(random_quantised_graph(seed), arch, random_options(rng, arch))
    return [op for op in after.body.block.ops if isinstance(op, tile.ProgramOp)], pe_array(arch)


def keys_of(steps: Steps) -> list[Key]:
    """Per step what it does."""
    forms: list[Form] = [steps.forms.forms[int(idx)] for idx in steps.form]
    return [
        (form.name, (*form.operands.values(), *numbers))
        for form, numbers in zip(forms, steps.numbers.tolist(), strict=True)
    ]


def loads_of(steps: Steps, *, for_slots: bool) -> list[Key]:
    is_for_slots = (steps.fact("space") > 0).tolist()
    return [
        key
        for key, is_slot in zip(keys_of(steps), is_for_slots, strict=True)
        if key[0] == "LD" and is_slot == for_slots
    ]


def others_of(steps: Steps) -> list[Key]:
    return [key for key in keys_of(steps) if key[0] != "LD"]


def loads_awaited(steps: Steps) -> list[tuple[int, int]]:
    """Per step the numbers of the loads that it and its PRELOAD wait for."""
    return list(zip(steps.waits.after_load.tolist(), steps.waits.preload_after_load.tolist(), strict=True))


def waited_for(steps: Steps) -> list[tuple[Key | None, ...]]:
    """Per walk and store the loads that it waits for, as what they do."""
    keys = keys_of(steps)
    loads = [key for key in keys if key[0] == "LD"]
    return [
        tuple(loads[number - 1] if number else None for number in numbers)
        for key, numbers in zip(keys, loads_awaited(steps), strict=True)
        if key[0] != "LD"
    ]


@pytest.mark.parametrize("ahead", [0, 1, LOADS_AHEAD])
@pytest.mark.parametrize("seed", range(8))
def test_nothing_is_lost_and_every_wait_is_for_what_came_before(seed: int, ahead: int) -> None:
    ops, array = programs(seed)
    for op in ops:
        before = expand(op, array)
        waits = waited_for(before)
        after = with_loads_ahead(before, ahead, array)
        assert others_of(after) == others_of(before)
        for each in (False, True):
            assert loads_of(after, for_slots=each) == loads_of(before, for_slots=each)
        seen: dict[Key, int] = {}
        num = 0
        position = iter(waits)
        for key, numbers in zip(keys_of(after), loads_awaited(after), strict=True):
            if key[0] == "LD":
                num += 1
                seen[key] = num
                continue
            assert max(numbers) <= num, "a step waits for a load behind it"
            for number, wanted in zip(numbers, next(position), strict=True):
                assert wanted is None or seen[wanted] <= num
                assert (number > 0) == (wanted is not None)


def test_without_room_ahead_loads_stand_where_they_are_needed() -> None:
    ops, array = programs(3)
    for op in ops:
        steps = with_loads_ahead(expand(op, array), 0, array)
        num = needed = 0
        for kind, numbers in zip(steps.kind.tolist(), loads_awaited(steps), strict=True):
            if kind == LOAD_STEP:
                num += 1
                continue
            needed = max(needed, *numbers)
            assert num == needed


def test_staged_weights_and_inputs_stand_in_different_banks() -> None:
    builder = GraphBuilder(0, num_samples=1)
    image = builder.add_input((1, 64, 56, 56), Scale(scale=0.02, zero_point=1))
    model = builder.finish([conv(builder, image, 64, (3, 3))])
    options = CompileOptions(keeps_on_chip=False, is_depth_first=False)
    network = compiled_for(model, arch_named("tpe_16x16"), options)
    (program,) = network.images.values()
    bank_bytes = program.array.scratchpad_bytes // program.array.scratchpad_banks

    def banks(name: str) -> set[int]:
        return {step.operands["address"] // bank_bytes for step in program.program if step.name == name}

    assert banks("PRELOAD")
    assert not banks("PRELOAD") & banks("CFG_TILE")
    # So a walk never waits for weights that wait for its inputs: all of it is multiplication.
    cycles = replay(program.array, program.program).cycles
    assert cycles < 1.02 * (program.manifest.ops[0].bound_cycles or 0)


def test_sums_of_two_inputs_from_main_memory_keep_the_bus_busy() -> None:
    builder = GraphBuilder(0, num_samples=1)
    image = conv(builder, builder.add_input((1, 3, 28, 28), Scale(scale=0.02, zero_point=1)), 256, (1, 1))
    model = builder.finish([add(builder, image, conv(builder, image, 256, (1, 1)))])
    options = CompileOptions(keeps_on_chip=False, is_depth_first=False)
    network = compiled_for(model, arch_named("tpe_16x16"), options)
    (program,) = network.images.values()
    last = program.manifest.ops[-1]
    assert last.kind == "add"
    assert (last.predicted_cycles or 0) < 1.15 * (last.bound_cycles or 0)
