"""Stages of rows in exact integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ...archdsl import Rounding
from ...models import requantised
from ..ir.store import Array
from ..rows.steps import INPUT, OUTPUT, Put, Stages, Term

Int64 = npt.NDArray[np.int64]


def run_stages(
    stages: Stages, rows: Array, tables: Array, constants: Sequence[Array], limits: tuple[int, int, int], rounding: Rounding
) -> Array:  # fmt: skip
    """What rows become.

    Args:
        stages: The stages.
        rows: [rows, C] int8.
        tables: [tables, 256] int8.
        constants: Bias, multiplier and shift of the output, [C].
        limits: Zero point of the output, and the least and greatest result.
        rounding: What happens to ties.

    Returns:
        [rows, C] int8.
    """
    values: dict[str, Int64] = {INPUT: rows.astype(np.int64)}
    for stage in stages:
        sums: Int64 | None = None
        for action in stage.actions:
            if isinstance(action, Term):
                sums = _added(sums, action, _product(values, action, rounding), has_channels=stage.has_channels)
                continue
            assert sums is not None
            values[action.name] = _put(sums, action, tables, constants, limits, rounding)
    return values[OUTPUT].astype(np.int8)


def _product(values: dict[str, Int64], term: Term, rounding: Rounding) -> Int64:
    factor = np.int64(term.scalar) if term.by is None else values[term.by]
    products = values[term.source] * factor
    floor = products >> term.shift
    twice = 2 * (products - (floor << term.shift)) - (1 << term.shift)
    is_up = floor & 1 == 1 if rounding == "half_to_even" else products >= 0
    return floor + ((twice > 0) | ((twice == 0) & is_up & (term.shift > 0)))


def _added(sums: Int64 | None, term: Term, products: Int64, *, has_channels: bool) -> Int64:
    combine = np.add if term.operation == "add" else np.maximum
    if not has_channels and products.shape[1] > 1:
        products = combine.reduce(products, axis=1, keepdims=True)
    found = products if sums is None else combine(sums, products)
    return (found + (1 << 31)) % (1 << 32) - (1 << 31)


def _put(
    sums: Int64, put: Put, tables: Array, constants: Sequence[Array], limits: tuple[int, int, int], rounding: Rounding
) -> Int64:  # fmt: skip
    if put.is_word:
        return sums
    if put.name == OUTPUT:
        bias, multiplier, shift = (constant.astype(np.int64) for constant in constants)
        return requantised(sums, bias, multiplier, shift, *limits, rounding)
    bias, multiplier, shift = (np.array([value], np.int64) for value in (put.bias, put.multiplier, put.shift))
    found = requantised(sums, bias, multiplier, shift, put.zero_point, -128, 127, rounding)
    return found if put.table is None else tables[put.table][found & 255].astype(np.int64)
