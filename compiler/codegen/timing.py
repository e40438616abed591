"""Steps as columns of numbers, for the models' recurrence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...archdsl import PeArray, ceil_div
from ...models import LOAD_STEP, MATMUL_STEP, STORE_STEP, VECTOR_STEP, StepColumns
from .steps import Load, Step, Walk


def columns_of(steps: Sequence[Step], array: PeArray) -> StepColumns:
    """What the cycles of steps depend on."""
    rows: list[tuple[int, ...]] = []
    before = 0  # banks of the walk before
    for step in steps:
        meets = isinstance(step, Walk) and step.weight_banks & before != 0
        rows.append((*_row(step, array), int(meets)))
        if isinstance(step, Walk):
            before = step.input_banks
    return StepColumns(*np.array(rows, dtype=np.int64).reshape(-1, len(StepColumns._fields)).T.copy())


def _row(step: Step, array: PeArray) -> tuple[int, ...]:
    operands = step.operands
    if isinstance(step, Load):
        waits = (0, step.after_walk, step.after_store, 0, 0)
        return (LOAD_STEP, step.kernel, operands["rows"], operands["row_beats"], 0, *waits)
    vectors = operands["x_count"] * operands["y_count"]
    if isinstance(step, Walk):
        waits = (step.after_load, 0, step.after_store, step.preload_after_load, step.preload_after_store)
        if step.preload is not None:
            return (MATMUL_STEP, step.kernel, vectors, 0, 0, *waits)
        return (VECTOR_STEP, step.kernel, vectors, 0, (0, 1, vectors)[operands["operand"]], *waits)
    bits = (8, 4, 32)[operands["format"]]
    beats = 0 if operands["space"] else ceil_div(ceil_div(operands["columns"] * bits, 8), array.bus_bytes)
    return (STORE_STEP, step.kernel, vectors, beats, 0, step.after_load, step.after_walk, 0, 0, 0)
