"""Pareto fronts against the definition, and the knee."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileloom.sweeps.pareto import knee_index, pareto_mask

VALUES = st.one_of(
    st.integers(-3, 3).map(float),  # few values: many ties and duplicates
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, -0.0, math.inf, math.nan]),
)


def tables(max_rows: int = 25) -> st.SearchStrategy[list[list[float]]]:
    """Objective tables of one to five objectives."""
    return st.integers(1, 5).flatmap(
        lambda k: st.lists(st.lists(VALUES, min_size=k, max_size=k), min_size=1, max_size=max_rows)
    )


def on_front_by_definition(rows: list[list[float]]) -> list[bool]:
    """Every row against every other."""
    finite = [all(math.isfinite(value) for value in row) for row in rows]

    def dominates(a: list[float], b: list[float]) -> bool:
        return all(x <= y for x, y in zip(a, b, strict=True)) and any(x < y for x, y in zip(a, b, strict=True))

    return [
        finite[i] and not any(finite[j] and dominates(rows[j], rows[i]) for j in range(len(rows)))
        for i in range(len(rows))
    ]


@given(tables())
def test_front_agrees_with_the_definition(rows: list[list[float]]) -> None:
    assert pareto_mask(np.array(rows)).tolist() == on_front_by_definition(rows)


@given(tables(), st.randoms(use_true_random=False))
def test_front_does_not_depend_on_order(rows: list[list[float]], random: Random) -> None:
    order = list(range(len(rows)))
    random.shuffle(order)
    shuffled = pareto_mask(np.array([rows[i] for i in order]))
    assert shuffled.tolist() == pareto_mask(np.array(rows))[order].tolist()


def test_ties_and_duplicates_are_all_kept() -> None:
    rows = np.array([[1.0, 2.0], [1.0, 2.0], [2.0, 1.0], [1.0, 3.0], [2.0, 2.0]])
    assert pareto_mask(rows).tolist() == [True, True, True, False, False]


def test_rows_without_numbers_are_left_out_and_dominate_nothing() -> None:
    rows = np.array([[math.nan, 0.0], [-math.inf, 0.0], [3.0, 3.0]])
    assert pareto_mask(rows).tolist() == [False, False, True]
    assert pareto_mask(rows[:2]).tolist() == [False, False]
    assert knee_index(rows[:2]) is None


@pytest.mark.parametrize("shape", [(3,), (2, 0), (1, 2, 2)])
def test_wrong_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"objectives must have shape \[N, K\]"):
        pareto_mask(np.zeros(shape))


def test_knee_is_furthest_below_the_line_between_the_ends() -> None:
    rows = np.array([[0.0, 10.0], [1.0, 4.0], [2.0, 3.0], [10.0, 0.0], [0.5, 20.0]])
    distances = [(10 - x - y) / math.sqrt(2) for x, y in rows[:4]]
    assert knee_index(rows) == int(np.argmax(distances)) == 1


@given(tables())
def test_knee_is_on_the_front(rows: list[list[float]]) -> None:
    table = np.array(rows)
    index = knee_index(table)
    assert (index is None) == (not pareto_mask(table).any())
    if index is not None:
        assert pareto_mask(table)[index]


def test_knee_does_not_depend_on_units() -> None:
    rows = np.array([[0.0, 10.0], [1.0, 4.0], [2.0, 3.0], [10.0, 0.0]])
    assert knee_index(rows * [1e-12, 1e9] + [5.0, 0.0]) == knee_index(rows)
