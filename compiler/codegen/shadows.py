"""Who touched what last: from it follows what a step must wait for.

Per memory space and unit one number is kept for every granule: the unit's last step that touched it. A unit ends its
steps in order, so waiting for the greatest number in a range is waiting for all that was done there. Ranges are widened
to whole granules, which may order more than is needed and never less.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...archdsl import PeArray, ceil_div
from ...models import LOAD_STEP, MATMUL_STEP, STORE_STEP, compiled
from .steps import FIRST, FOURTH, SECOND, THIRD, Facts, Ints, Steps, Waits, X, Y

WHOLE = np.int64(1)
"""Granule of vectors and slots; no literal, for each of which functions would be compiled anew."""
Shadow = npt.NDArray[np.int32]
"""The last steps of one unit in one space: by granule, behind the last one of all."""


class _Shadows(NamedTuple):
    """By space and unit."""

    pad_loads: Shadow
    pad_walks: Shadow
    pad_stores: Shadow
    sum_walks: Shadow
    sum_stores: Shadow
    slot_loads: Shadow
    slot_stores: Shadow
    table_loads: Shadow
    table_stores: Shadow
    memory_loads: Shadow
    memory_stores: Shadow


def waits_for_effects(facts: Facts, form: Ints, numbers: Ints, array: PeArray, memory_bytes: int) -> Waits:
    """What steps must wait for so that they have the effects that they have one after the other.

    Args:
        facts: Of forms.
        form, numbers: Of steps, see `Steps`.
        array: The PE array.
        memory_bytes: Size of main memory.
    """
    granule = min(array.cols, array.bus_bytes)
    granules = {"pad": ceil_div(array.scratchpad_bytes, granule), "memory": ceil_div(memory_bytes, granule)}
    places = {"sum": array.accumulator_vectors, "slot": array.parameter_slots, "table": max(1, array.table_slots)}
    sizes = {**granules, **places}
    shadows = _Shadows(*(np.zeros(sizes[name.split("_")[0]] + 2, dtype=np.int32) for name in _Shadows._fields))
    waits = Waits(*np.zeros((len(Waits._fields), len(form)), dtype=np.int64))
    _wait(facts, form, numbers, shadows, granule, waits)
    return waits


@compiled
def _wait(facts: Facts, forms: Ints, numbers: Ints, shadows: _Shadows, granule: int, waits: Waits) -> None:
    loads, walks, stores = 0, 0, 0
    for step in range(len(forms)):
        form, own = int(forms[step]), numbers[step]
        kind = facts.kind[form]
        if kind == LOAD_STEP:
            loads += 1
            _wait_of_load(facts, form, own, shadows, granule, waits, step, loads)
        elif kind == STORE_STEP:
            stores += 1
            _wait_of_store(facts, form, own, shadows, granule, waits, step, stores)
        else:
            walks += 1
            _wait_of_walk(facts, form, own, shadows, granule, waits, step, walks)


@compiled
def _wait_of_load(
    facts: Facts, form: int, own: Ints, shadows: _Shadows, granule: int, waits: Waits, step: int, number: int
) -> None:
    source, target = own[FIRST], own[SECOND]
    if facts.space[form]:
        is_table = facts.space[form] == 2
        stores, loads = (
            (shadows.table_stores, shadows.table_loads) if is_table else (shadows.slot_stores, shadows.slot_loads)
        )
        waits.after_store[step] = _last(stores, target, target + 1, WHOLE)
        _touch(loads, target, target + 1, WHOLE, number)
        return
    read_end, written_end = source + facts.read_bytes[form], target + facts.written_bytes[form]
    waits.after_walk[step] = _last(shadows.pad_walks, target, written_end, granule)
    waits.after_store[step] = max(
        _last(shadows.pad_stores, target, written_end, granule),
        _last(shadows.memory_stores, source, read_end, granule),
    )
    _touch(shadows.pad_loads, target, written_end, granule, number)
    _touch(shadows.memory_loads, source, read_end, granule, number)


@compiled
def _wait_of_walk(
    facts: Facts, form: int, own: Ints, shadows: _Shadows, granule: int, waits: Waits, step: int, number: int
) -> None:
    low, end = _range(facts, form, own)
    second, second_end = own[THIRD], own[THIRD] + facts.read_bytes[form]
    sums, sums_end = own[FIRST], own[FIRST] + facts.num_sums[form]
    waits.after_load[step] = _last(shadows.pad_loads, low, end, granule)
    waits.after_store[step] = max(
        _last(shadows.pad_stores, low, end, granule), _last(shadows.sum_stores, sums, sums_end, WHOLE)
    )
    if second_end > second:
        load = _last(shadows.pad_loads, second, second_end, granule)
        store = _last(shadows.pad_stores, second, second_end, granule)
        if facts.kind[form] == MATMUL_STEP:
            waits.preload_after_load[step], waits.preload_after_store[step] = load, store
        else:
            waits.after_load[step] = max(waits.after_load[step], load)
            waits.after_store[step] = max(waits.after_store[step], store)
        _touch(shadows.pad_walks, second, second_end, granule, number)
    _touch(shadows.pad_walks, low, end, granule, number)
    _touch(shadows.sum_walks, sums, sums_end, WHOLE, number)


@compiled
def _wait_of_store(
    facts: Facts, form: int, own: Ints, shadows: _Shadows, granule: int, waits: Waits, step: int, number: int
) -> None:
    sums, sums_end = own[FIRST], own[FIRST] + facts.num_sums[form]
    target, end = own[SECOND], own[SECOND] + facts.written_bytes[form]
    slot, table = own[THIRD], own[FOURTH] - 1
    is_local = facts.space[form] == 1
    after_load = _last(shadows.slot_loads, slot, slot + 1, WHOLE)
    if facts.has_table[form]:
        after_load = max(after_load, _last(shadows.table_loads, table, table + 1, WHOLE))
        _touch(shadows.table_stores, table, table + 1, WHOLE, number)
    after_walk = _last(shadows.sum_walks, sums, sums_end, WHOLE)
    if is_local:
        after_load = max(after_load, _last(shadows.pad_loads, target, end, granule))
        after_walk = max(after_walk, _last(shadows.pad_walks, target, end, granule))
        _touch(shadows.pad_stores, target, end, granule, number)
    else:
        after_load = max(after_load, _last(shadows.memory_loads, target, end, granule))
        _touch(shadows.memory_stores, target, end, granule, number)
    waits.after_load[step], waits.after_walk[step] = after_load, after_walk
    _touch(shadows.sum_stores, sums, sums_end, WHOLE, number)
    _touch(shadows.slot_stores, slot, slot + 1, WHOLE, number)


@compiled
def _range(facts: Facts, form: int, own: Ints) -> tuple[int, int]:
    """The bytes of its input that a walk reads, from the first one to the end; of rows and bytes outside nothing is read."""
    address, y, x = own[SECOND], own[Y], own[X]
    first, last = max(0, y), min(facts.rows[form] - 1, y + facts.y_span[form])
    low, high = max(0, x), min(facts.width[form], x + facts.x_span[form])
    if first > last or low >= high:
        return address, address
    return address + first * facts.pitch[form] + low, address + last * facts.pitch[form] + high


def bytes_read(steps: Steps) -> tuple[Ints, Ints]:
    """[steps] first byte and end of what walks read of their inputs; of other steps nothing that means something."""
    ends = np.zeros((2, len(steps)), dtype=np.int64)
    _bytes_read(steps.forms.facts, steps.form, steps.numbers, ends)
    return ends[0], ends[1]


@compiled
def _bytes_read(facts: Facts, forms: Ints, numbers: Ints, ends: Ints) -> None:
    for step in range(len(forms)):
        ends[0, step], ends[1, step] = _range(facts, int(forms[step]), numbers[step])


@compiled
def _last(shadow: Shadow, low: int, high: int, granule: int) -> int:
    """The last step in a range; 0 for none."""
    found = 0
    if shadow[0]:
        for at in range(1 + low // granule, min(1 - (-high // granule), len(shadow))):
            found = max(found, shadow[at])
    return found


@compiled
def _touch(shadow: Shadow, low: int, high: int, granule: int, step: int) -> None:
    """A step touches a range."""
    shadow[0] = step
    shadow[1 + low // granule : 1 - (-high // granule)] = step
