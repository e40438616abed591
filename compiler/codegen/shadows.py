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

PAD, SLOTS, TABLES, SUMS, MEMORY = range(5)
"""Spaces; the first three as `Facts.space` numbers a load's."""
NUM_UNITS, NUM_RANGES = 3, 4
"""Units in the order of `Waits`, and ranges that a step touches at most."""
OPERAND = 1
"""The range that a PRELOAD of weights reads, or a vector op as its second operand."""
PRELOAD_ROW = 3
"""Row of `Waits` that is the first of a PRELOAD's."""


class _Touched(NamedTuple):
    """What steps touch.

    Attributes:
        unit: [steps] who touches.
        is_preload: [steps] whether a PRELOAD of its own reads the range `OPERAND`.
        space: [steps, ranges] where.
        low, high: [steps, ranges] granules, counted over all spaces; none where `high` is not above `low`.
    """

    unit: Ints
    is_preload: Ints
    space: Ints
    low: Ints
    high: Ints


def waits_for_effects(facts: Facts, form: Ints, numbers: Ints, array: PeArray, memory_bytes: int) -> Waits:
    """What steps must wait for so that they have the effects that they have one after the other.

    Args:
        facts: Of forms.
        form, numbers: Of steps, see `Steps`.
        array: The PE array.
        memory_bytes: Size of main memory.
    """
    granule = min(array.cols, array.bus_bytes)
    granules = np.array([granule, 1, 1, 1, granule])
    sizes: Ints = np.array([
        ceil_div(array.scratchpad_bytes, granule), array.parameter_slots, max(1, array.table_slots), array.accumulator_vectors,
        ceil_div(memory_bytes, granule),
    ])  # fmt: skip
    ends = np.cumsum(sizes)
    touched = _touched(facts, form, numbers, granules, ends - sizes, ends)
    shadows = np.zeros((NUM_UNITS, ends[-1]), dtype=np.int32)
    waits = np.zeros((len(Waits._fields), len(form)), dtype=np.int64)
    _wait(touched, shadows, waits)
    return Waits(*waits)


def bytes_read(steps: Steps) -> tuple[Ints, Ints]:
    """[steps] first byte and end of what walks read of their inputs; of other steps nothing that means something."""
    return _bytes_read(steps.forms.facts, steps.form, steps.numbers)


def _bytes_read(facts: Facts, form: Ints, numbers: Ints) -> tuple[Ints, Ints]:
    """Of rows and bytes outside the input nothing is read."""
    address, y, x = numbers[:, SECOND], numbers[:, Y], numbers[:, X]
    first, last = np.maximum(0, y), np.minimum(facts.rows[form] - 1, y + facts.y_span[form])
    low, high = np.maximum(0, x), np.minimum(facts.width[form], x + facts.x_span[form])
    is_read, pitch = (first <= last) & (low < high), facts.pitch[form]
    return address + is_read * (first * pitch + low), address + is_read * (last * pitch + high)


def _touched(facts: Facts, form: Ints, numbers: Ints, granules: Ints, begins: Ints, ends: Ints) -> _Touched:
    """What steps touch of spaces that stand one behind the other from `begins` to `ends`."""
    kind, where = facts.kind[form], facts.space[form]
    is_load, is_store = kind == LOAD_STEP, kind == STORE_STEP
    is_walk = ~(is_load | is_store)
    first, second, third = numbers[:, FIRST], numbers[:, SECOND], numbers[:, THIRD]
    input_low, input_end = _bytes_read(facts, form, numbers)
    written = np.where(is_load & (where != PAD), 1, facts.written_bytes[form])
    operand = np.select([is_walk, is_load], [third, first], numbers[:, FOURTH] - 1)
    spaces = (
        np.select([is_walk, is_load, where == 1], [PAD, where, PAD], MEMORY),
        np.select([is_walk, is_load], [PAD, MEMORY], TABLES),
        np.full_like(kind, SUMS),
        np.full_like(kind, SLOTS),
    )
    lows = (np.where(is_walk, input_low, second), operand, first, third)
    highs = (
        np.where(is_walk, input_end, second + written),
        operand + np.where(is_store, facts.has_table[form], facts.read_bytes[form]),
        first + np.where(is_load, 0, facts.num_sums[form]),
        third + is_store,
    )
    space, low, high = (np.stack(columns, axis=1) for columns in (spaces, lows, highs))
    granule, begin, end = granules[space], begins[space], ends[space]
    return _Touched(
        unit=is_walk + 2 * is_store,
        is_preload=(kind == MATMUL_STEP).astype(np.int64),
        space=space,
        low=begin + low // granule,
        high=np.where(high > low, np.minimum(begin - (-high // granule), end), 0),
    )


@compiled
def _wait(touched: _Touched, shadows: npt.NDArray[np.int32], waits: Ints) -> None:
    """Fills in `waits`, rows as the fields of `Waits`; `shadows`, [units, granules], is 0 where nothing was touched."""
    counts = np.zeros(NUM_UNITS, dtype=np.int32)
    is_known = np.zeros((NUM_UNITS, MEMORY + 1), dtype=np.int64)  # whether a unit has touched a space
    for step in range(len(touched.unit)):
        unit = touched.unit[step]
        counts[unit] += 1
        for idx in range(NUM_RANGES):
            low, high, space = touched.low[step, idx], touched.high[step, idx], touched.space[step, idx]
            if low >= high:
                continue
            for other in range(NUM_UNITS):
                if other == unit or not is_known[other, space]:
                    continue
                is_preload = idx == OPERAND and touched.is_preload[step]
                row = PRELOAD_ROW + other // 2 if is_preload else other
                for at in range(low, high):
                    waits[row, step] = max(waits[row, step], shadows[other, at])
            is_known[unit, space] = 1
            for at in range(low, high):
                shadows[unit, at] = counts[unit]
