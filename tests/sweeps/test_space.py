"""Axes of a design space: lists, ranges and log steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileloom.archdsl.yamlio import parse_yaml
from tileloom.archdsl.yamltree import Place, Source
from tileloom.sweeps.space import Axis, Space, read_space


def values(text: str) -> tuple[object, ...]:
    """Values of the axis `x` with this YAML."""
    space, faults = read_space(parse_yaml(f"x: {text}").root)
    assert not faults
    return space.axes[0].values


def faults(text: str) -> list[tuple[int, str, str]]:
    """Column, path and message of each fault of the axis `x` with this YAML."""
    _, found = read_space(parse_yaml(f"x: {text}").root)
    return [(fault.column, fault.path, fault.message) for fault in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[1, 2.5, 64 KiB, true, [input, weight]]", (1, 2.5, "64 KiB", True, ("input", "weight"))),
        ("{from: 2, to: 8, step: 3}", (2, 5, 8)),
        ("{from: 2, to: 9, step: 3}", (2, 5, 8)),
        ("{from: 0.1, to: 0.7, step: 0.2}", (0.1, 0.3, 0.5, 0.7)),
        ("{from: 3, to: 3, step: 1}", (3,)),
        ("{from: 32 KiB, to: 1 MiB, factor: 2}", tuple(f"{n} KiB" for n in (32, 64, 128, 256, 512, 1024))),
        ("{from: 1 GHz, to: 2 GHz, step: 500 MHz}", ("1 GHz", "1.5 GHz", "2 GHz")),
        ("{from: 1, to: 1000, factor: 10}", (1, 10, 100, 1000)),
        ("{from: 1, to: 1000, log_steps: 4}", (1, 10, 100, 1000)),
        ("{from: 0.001, to: 1.0, log_steps: 4}", (0.001, 0.01, 0.1, 1.0)),
        ("{from: 8, to: 64, log_steps: 4}", (8, 16, 32, 64)),
        ("{from: 1, to: 2, log_steps: 9}", (1, 2)),
        ("{from: 2 B/cycle, to: 8 B/cycle, log_steps: 3}", ("2 B/cycle", "4 B/cycle", "8 B/cycle")),
        ("{from: 1.5 KiB, to: 6 KiB, log_steps: 4}", ("1.5 KiB", "2.380859375 KiB", "3.779296875 KiB", "6 KiB")),
    ],
)
def test_values_of_an_axis(text: str, expected: tuple[object, ...]) -> None:
    found = values(text)
    assert found == expected
    assert [type(value) for value in found] == [type(value) for value in expected]


@pytest.mark.parametrize(
    ("marked", "path", "message"),
    [
        ("^[]", "", "the list is empty; give at least one value"),
        ("^3", "", "a list of values or a range {from, to, step}, {from, to, log_steps} or {from, to, factor} is needed here"),
        ("[4, 8, ^4]", ".2", "4 is given twice; the first is element 0"),
        ("[^{a: 1}]", ".0", "a value is a number, a text, true, false or a list of those"),
        ("{from: 1, to: 4, ^stp: 1}", ".stp", "unknown field 'stp'; did you mean 'step'?"),
        ("^{from: 1, step: 1}", "", "a range needs 'to'; write {from, to, step}, {from, to, log_steps} or {from, to, factor}"),
        ("^{from: 1, to: 4}", "", "a range takes one of 'step', 'log_steps' and 'factor', and has none"),
        ("^{from: 1, to: 4, step: 1, factor: 2}", "", "a range takes one of 'step', 'log_steps' and 'factor', not step and factor"),
        ("{from: 4, to: ^1, step: 1}", ".to", "'to' is below 'from'; swap them"),
        ("{from: 1 KiB, to: ^4, factor: 2}", ".to", "'from' is in KiB and 'to' is without a unit; both need units of the same kind"),
        ("{from: 1 KiB, to: ^1 GHz, factor: 2}", ".to", "'from' is in KiB and 'to' is in GHz; both need units of the same kind"),
        ("{from: 1, to: 4, step: ^0}", ".step", "'step' must be above 0"),
        ("{from: 1 KiB, to: 4 KiB, step: ^1}", ".step", "'step' is without a unit and 'from' is in KiB"),
        ("{from: 1, to: 4, factor: ^1}", ".factor", "'factor' must be a number above 1"),
        ("{from: ^0, to: 4, factor: 2}", ".from", "a logarithmic range must start above 0"),
        ("{from: 1, to: 4, log_steps: ^1}", ".log_steps", "'log_steps' must be a whole number of values, at least 2"),
        ("{from: 1, to: 4, step: ^0.0001}", ".step", "this makes 30001 values; at most 10000 are allowed"),
        ("{from: ^1 Kib, to: 4 KiB, factor: 2}", ".from", "'1 Kib' is not a number or quantity; did you mean 'KiB'?"),
        ("{from: ^[1], to: 4, step: 1}", ".from", "a number or a quantity such as '64 KiB' is needed here"),
    ],
)  # fmt: skip
def test_faults_of_an_axis(marked: str, path: str, message: str) -> None:
    column = len("x: ") + marked.index("^") + 1
    assert faults(marked.replace("^", "")) == [(column, f"space.x{path}", message)]


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(2, 30))
def test_log_steps_start_and_end_where_told_and_only_rise(low: int, span: int, count: int) -> None:
    found = values(f"{{from: {low}, to: {low + span}, log_steps: {count}}}")
    numbers = [value for value in found if isinstance(value, int)]
    assert len(numbers) == len(found) <= count
    assert (numbers[0], numbers[-1]) == (low, low + span)
    assert numbers == sorted(set(numbers))


@given(st.integers(1, 1000), st.integers(0, 100_000), st.integers(1, 1000))
def test_steps_agree_with_range(low: int, span: int, step: int) -> None:
    if span // step < 10_000:
        assert values(f"{{from: {low}, to: {low + span}, step: {step}}}") == tuple(range(low, low + span + 1, step))


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_grid_index_counts_combinations_with_the_last_axis_fastest(sizes: list[int]) -> None:
    place = Place(Source("<test>"))
    axes = [
        Axis(path=f"p{i}", key_place=place, values=tuple(range(n)), places=(place,) * n) for i, n in enumerate(sizes)
    ]
    space = Space(tuple(axes))
    digits = [space.digits(grid_idx) for grid_idx in range(space.num_points)]
    assert digits == sorted(set(digits))
    assert all(space.inputs(d) == tuple((f"p{i}", v) for i, v in enumerate(d)) for d in digits)
