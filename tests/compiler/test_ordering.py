"""Loads that were moved ahead: nothing is lost, waits still hold, and banks and bus are used as they should be."""

from __future__ import annotations

from random import Random

import pytest

from tileloom.archdsl import PeArray, pe_array
from tileloom.compiler.codegen.expansion import expand
from tileloom.compiler.codegen.ordering import LOADS_AHEAD, with_loads_ahead
from tileloom.compiler.codegen.steps import Load, Step, Store, Walk
from tileloom.compiler.compilation import CompileOptions
from tileloom.compiler.generators import random_quantised_graph
from tileloom.compiler.generators.builder import GraphBuilder
from tileloom.compiler.generators.layers import add, conv
from tileloom.compiler.generators.quantisation import Scale
from tileloom.compiler.ir import tile
from tileloom.models import replay

from .arrays import arch_named, random_arch, random_options
from .compiled import compiled_for, lowered

Key = tuple[str, tuple[tuple[str, int], ...]]


def programs(seed: int) -> tuple[list[tile.ProgramOp], PeArray]:
    """A random graph's programs for a random array."""
    rng = Random(seed)
    arch = random_arch(rng)
    _, after, _ = lowered(random_quantised_graph(seed), arch, random_options(rng, arch))
    return [op for op in after.body.block.ops if isinstance(op, tile.ProgramOp)], pe_array(arch)


def loads_of(steps: list[Step], *, for_slots: bool) -> list[Key]:
    loads = [step for step in steps if isinstance(step, Load)]
    return [
        ("load", tuple(load.operands.items())) for load in loads if (load.operands.get("space", 0) > 0) == for_slots
    ]


def waited_for(steps: list[Step]) -> list[tuple[Key | None, ...]]:
    """Per walk and store the loads that it waits for, as what they do."""
    loads = [step for step in steps if isinstance(step, Load)]

    def key(number: int) -> Key | None:
        return ("load", tuple(loads[number - 1].operands.items())) if number else None

    return [
        (key(step.after_load), key(step.preload_after_load) if isinstance(step, Walk) else None)
        for step in steps
        if isinstance(step, Walk | Store)
    ]


@pytest.mark.parametrize("ahead", [0, 1, LOADS_AHEAD])
@pytest.mark.parametrize("seed", range(8))
def test_nothing_is_lost_and_every_wait_is_for_what_came_before(seed: int, ahead: int) -> None:
    ops, array = programs(seed)
    for op in ops:
        before = expand(op, array)
        waits = waited_for(before)
        kept = [(type(step), dict(step.operands)) for step in before if not isinstance(step, Load)]
        places = [loads_of(before, for_slots=each) for each in (False, True)]
        after = with_loads_ahead(before, ahead, array)
        assert [(type(step), dict(step.operands)) for step in after if not isinstance(step, Load)] == kept
        assert [loads_of(after, for_slots=each) for each in (False, True)] == places
        seen: dict[Key, int] = {}
        num = 0
        position = iter(waits)
        for step in after:
            if isinstance(step, Load):
                num += 1
                seen[("load", tuple(step.operands.items()))] = num
                continue
            numbers = step.after_load, step.preload_after_load if isinstance(step, Walk) else 0
            assert max(numbers) <= num, "a step waits for a load behind it"
            for number, wanted in zip(numbers, next(position), strict=True):
                assert wanted is None or seen[wanted] <= num
                assert (number > 0) == (wanted is not None)


def test_without_room_ahead_loads_stand_where_they_are_needed() -> None:
    ops, array = programs(3)
    for op in ops:
        steps = with_loads_ahead(expand(op, array), 0, array)
        is_load = [isinstance(step, Load) for step in steps]
        needed = 0
        for idx, step in enumerate(steps):
            if isinstance(step, Walk | Store):
                needed = max(needed, step.after_load, step.preload_after_load if isinstance(step, Walk) else 0)
                assert sum(is_load[:idx]) == needed


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
