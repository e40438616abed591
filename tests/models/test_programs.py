"""Symbols and the programs made of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tileloom.models.amounts import Amount, Symbol, SymbolGraph, larger, rounded_down, rounded_up, smaller
from tileloom.models.programs import BoundProgram, ConditionBroken, compile_program


def symbol(amount: Amount) -> Symbol:
    assert isinstance(amount, Symbol)
    return amount


def test_equal_symbols_are_one_object() -> None:
    graph = SymbolGraph()
    a, b = graph.input(), graph.input()
    assert a + b is b + a
    assert smaller(a, b) is smaller(b, a)
    assert a - b is not b - a
    assert a / b is a / b


def test_operations_that_change_nothing_are_left_out() -> None:
    graph = SymbolGraph()
    a, tile = graph.input(), graph.input(is_integer=True)
    assert a * 1.0 is a and a + 0.0 is a and a - 0.0 is a and a / 1.0 is a
    assert smaller(a, math.inf) is a and smaller(a, a) is a and larger(a, a) is a
    assert a * 0.0 == 0.0 and a - a == 0.0 and a / a == 1.0 and a / math.inf == 0.0
    assert rounded_up(tile * 2.0) is tile * 2.0 and rounded_down(a) is not a
    assert rounded_up(tile * 0.5) is not tile * 0.5 and rounded_up(tile / 2.0) is not tile / 2.0


def test_a_program_computes_what_its_symbols_say() -> None:
    graph = SymbolGraph()
    a, b, scale = graph.input(), graph.input(), graph.input()
    outputs = [rounded_down(a / b) * scale, larger(a - b, 0.0) + a, 3.0, b]
    program = compile_program([x if isinstance(x, float) else symbol(x) for x in outputs], [])
    bound = BoundProgram(program, 4, {2: 10.0})
    values = np.array([[7.0, 8.0, 9.0, 10.0], [2.0, 3.0, 9.0, 11.0]])
    for idx, place in bound.rows:
        place[:] = values[idx]
    first, second, third, fourth = bound.run()
    assert np.array_equal(first, np.floor(values[0] / values[1]) * 10.0)
    assert np.array_equal(second, np.maximum(values[0] - values[1], 0.0) + values[0])
    assert third == 3.0
    assert np.array_equal(fourth, values[1])


def test_buffers_are_used_again() -> None:
    graph = SymbolGraph()
    total: Amount = graph.input()
    for step in range(1, 50):
        total = (total + float(step)) * 0.5
    program = compile_program([symbol(total)], [])
    assert (len(program.steps), program.num_buffers) == (98, 1)


def test_a_block_that_breaks_a_condition_is_refused() -> None:
    graph = SymbolGraph()
    a, b = graph.input(), graph.input()
    program = compile_program([symbol(a + b)], [(symbol(a * 2.0), b), (a, 1.0)])
    bound = BoundProgram(program, 2, {})
    places = dict(bound.rows)
    places[0][:], places[1][:] = 1.0, 2.0
    assert np.array_equal(bound.run()[0], [3.0, 3.0])
    places[1][1] = 3.0
    with pytest.raises(ConditionBroken):
        bound.run()
