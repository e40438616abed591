"""Steps as columns of numbers, for the models' recurrence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...archdsl import PeArray, ceil_div
from ...models import LOAD_STEP, MATMUL_STEP, STORE_STEP, VECTOR_STEP, StepColumns
from .steps import Load, Step, Walk
from .tokens import Configured, Waits, waits_of


def columns_of(steps: Sequence[Step], array: PeArray) -> StepColumns:
    """What the cycles of steps depend on.

    Args:
        steps: In their final order.
        array: The PE array.
    """
    columns = _Columns(array=array, waits=waits_of(steps), configured=Configured())
    rows = [columns.row(idx, step) for idx, step in enumerate(steps)]
    return StepColumns(*np.array(rows, dtype=np.int64).reshape(-1, len(StepColumns._fields)).T.copy())


@dataclass(slots=True, kw_only=True)
class _Columns:
    array: PeArray
    waits: Waits
    configured: Configured
    loads: int = 0
    walks: int = 0
    stores: int = 0
    banks_before: int = 0  # of the scratchpad, from which the walk before reads inputs

    def row(self, idx: int, step: Step) -> tuple[int, ...]:
        """A step's fields, in the order of `StepColumns`."""
        operands, waits = step.operands, self.waits
        front = (len(self.configured.changes(step)), int(idx in waits.fences))
        if isinstance(step, Load):
            self.loads += 1
            after = (0, waits.load_walk.get(self.loads, 0), 0, 0, 0)
            return (LOAD_STEP, step.kernel, operands["rows"], operands["row_beats"], 0, *front, *after, 0, 0)
        vectors = operands["x_count"] * operands["y_count"]
        if isinstance(step, Walk):
            self.walks += 1
            after = (waits.walk_load.get((self.walks, "walk"), 0), 0, waits.walk_store.get((self.walks, "walk"), 0))
            before = (
                waits.walk_load.get((self.walks, "PRELOAD"), 0), waits.walk_store.get((self.walks, "PRELOAD"), 0),
                int(step.weight_banks & self.banks_before != 0),
            )  # fmt: skip
            self.banks_before = step.input_banks
            kind, second = (MATMUL_STEP, 0)
            if step.preload is None:
                kind, second = VECTOR_STEP, (0, 1, vectors)[operands["operand"]]
            banks = self._sum_banks(operands["destination"], vectors) if operands["accumulate"] else 0
            return (kind, step.kernel, vectors, 0, second, *front, *after, *before, banks)
        self.stores += 1
        bits = (8, 4, 32)[operands["format"]]
        beats = 0 if operands["space"] else ceil_div(ceil_div(operands["columns"] * bits, 8), self.array.bus_bytes)
        after = (0, waits.store_walk.get(self.stores, 0), 0, 0, 0)
        banks = self._sum_banks(operands["source"], vectors)
        return (STORE_STEP, step.kernel, vectors, beats, 0, *front, *after, 0, banks)

    def _sum_banks(self, first: int, num: int) -> int:
        """Banks of the accumulators in which some vectors stand, a bit each."""
        size = self.array.accumulator_vectors // self.array.accumulator_banks
        return sum(
            {1 << part % self.array.accumulator_banks for part in range(first // size, (first + num - 1) // size + 1)}
        )
