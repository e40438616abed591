"""Steps as the models' recurrence wants them."""

from __future__ import annotations

import numpy as np

from ...archdsl import PeArray
from ...models import LOAD_STEP, MATMUL_STEP, STORE_STEP, StepColumns
from .shadows import bytes_read
from .steps import ACCUMULATE, FIRST, THIRD, Ints, Steps
from .tokens import NUM_CONFIGS, changes_of, kept_waits


def columns_of(steps: Steps, array: PeArray) -> StepColumns:
    """What the cycles of steps depend on.

    Args:
        steps: In their final order.
        array: The PE array.
    """
    kept, changes = kept_waits(steps), changes_of(steps)
    vectors = steps.fact("vectors")
    reads_sums = np.where(steps.kind == STORE_STEP, 1, steps.numbers[:, ACCUMULATE])
    return StepColumns(
        kind=steps.kind,
        kernel=steps.kernel,
        vectors=vectors,
        beats=steps.fact("beats"),
        operands=steps.fact("operands"),
        configs=sum((changes >> config & 1 for config in range(NUM_CONFIGS)), np.zeros(len(steps), dtype=np.int64)),
        is_fenced=kept.is_fenced,
        after_load=kept.waits.after_load,
        after_walk=kept.waits.after_walk,
        after_store=kept.waits.after_store,
        preload_after_load=kept.waits.preload_after_load,
        preload_after_store=kept.waits.preload_after_store,
        meets_inputs=_meets_inputs(steps, array),
        sum_banks=reads_sums * _sum_banks(steps.numbers[:, FIRST], vectors, array),
    )


def _meets_inputs(steps: Steps, array: PeArray) -> Ints:
    """Whether weights stand in a bank from which the walk in front reads its inputs, which is a product, too."""
    found = np.zeros(len(steps), dtype=np.int64)
    walks = np.flatnonzero((steps.kind != LOAD_STEP) & (steps.kind != STORE_STEP))
    before, after = walks[:-1], walks[1:]
    low, end = bytes_read(steps)
    weights = steps.numbers[:, THIRD]
    bank_bytes = array.scratchpad_bytes // array.scratchpad_banks
    first, last = low // bank_bytes, np.maximum(low, end - 1) // bank_bytes
    first_of_weights = weights // bank_bytes
    last_of_weights = np.maximum(weights, weights + steps.fact("read_bytes") - 1) // bank_bytes
    are_products = (steps.kind[before] == MATMUL_STEP) & (steps.kind[after] == MATMUL_STEP)
    meet = (first[before] <= last_of_weights[after]) & (first_of_weights[after] <= last[before])
    found[after] = are_products & meet
    return found


def _sum_banks(first: Ints, num: Ints, array: PeArray) -> Ints:
    """Banks of the accumulators in which some vectors stand, a bit each."""
    size = array.accumulator_vectors // array.accumulator_banks
    begin, end = first // size, (first + num - 1) // size
    found = np.zeros(len(first), dtype=np.int64)
    for part in range(array.accumulator_banks):
        bank = (begin + part) % array.accumulator_banks
        found |= np.where(begin + part <= end, np.int64(1) << bank, 0)
    return found
