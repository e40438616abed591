"""Programs: what a symbol graph computes, as a flat list of array operations over one block of mappings.

Intermediate results share a few buffers that stay in a core's second-level cache. A program may rest on
conditions ("these two are equal for every mapping"); a block that breaks one is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .amounts import Symbol
from .nest import FloatArray

Value = Symbol | float
Condition = tuple[Symbol, Value]
"""Two values that are equal for every mapping."""


class ConditionBroken(Exception):
    """A block has a mapping for which the program is not right."""


@dataclass(frozen=True, slots=True)
class _Step:
    """One array operation. Registers are numbered: inputs first, then constants, then buffers.

    Attributes:
        function: What is called, with the operands and `out`.
        operands: Registers read.
        result: Register written; None for a check, which writes flags.
    """

    function: Callable[..., Any]
    operands: tuple[int, ...]
    result: int | None


@dataclass(frozen=True, slots=True)
class Program:
    """Array operations over one block.

    Attributes:
        inputs: Which of the graph's inputs are needed, in the order of their registers.
        constants: Values of the registers that follow.
        num_buffers: How many buffers follow these.
        steps: Operations in order.
        outputs: Per output its register, or its value where that is the same for all.
    """

    inputs: tuple[int, ...]
    constants: tuple[float, ...]
    num_buffers: int
    steps: tuple[_Step, ...]
    outputs: tuple[int | float, ...]


class _Layout:
    """Puts symbols into registers; a buffer is used again once nothing reads it any more."""

    def __init__(self, symbols: Sequence[Symbol], outputs: Sequence[Value], conditions: Sequence[Condition]) -> None:
        inputs = [symbol for symbol in symbols if symbol.operation is None]
        values = [value for symbol in symbols for value in symbol.operands] + [value for _, value in conditions]
        constants = sorted({value for value in values if isinstance(value, float)})
        self.inputs = tuple(symbol.idx for symbol in inputs)
        self.constants = tuple(constants)
        self.registers: dict[Value, int] = {value: register for register, value in enumerate([*inputs, *constants])}
        self.first_buffer = self.num_registers = len(self.registers)
        self.free: list[int] = []
        self.uses: dict[Value, int] = dict.fromkeys(outputs, 1)
        for value in values + [symbol for symbol, _ in conditions]:
            self.uses[value] = self.uses.get(value, 0) + 1

    def read(self, values: Sequence[Value]) -> tuple[int, ...]:
        """Registers of values that a step reads; those read for the last time become free."""
        registers = tuple(self.registers[value] for value in values)
        for value, register in zip(values, registers, strict=True):
            self.uses[value] -= 1
            if not self.uses[value] and register >= self.first_buffer:
                self.free.append(register)
        return registers

    def write(self, symbol: Symbol) -> int:
        """A register for a new result."""
        if not self.free:
            self.free.append(self.num_registers)
            self.num_registers += 1
        register = self.registers[symbol] = self.free.pop()
        return register


def compile_program(outputs: Sequence[Value], conditions: Sequence[Condition]) -> Program:
    """Lays out what outputs and conditions need.

    Args:
        outputs: What the program computes.
        conditions: What it rests on; checked as soon as both values are there.
    """
    symbols = _needed([*outputs, *(value for condition in conditions for value in condition)])
    layout = _Layout(symbols, outputs, conditions)
    checks: dict[Symbol, list[Condition]] = {}
    place = {symbol: position for position, symbol in enumerate(symbols)}
    for symbol, value in conditions:
        later = value if isinstance(value, Symbol) and place[value] > place[symbol] else symbol
        checks.setdefault(later, []).append((symbol, value))
    steps: list[_Step] = []
    for symbol in symbols:
        if symbol.operation is not None:
            operands = layout.read(symbol.operands)
            steps.append(_Step(getattr(np, symbol.operation), operands, layout.write(symbol)))
        steps += [_Step(_check_equal, layout.read(condition), None) for condition in checks.get(symbol, ())]
    return Program(
        layout.inputs,
        layout.constants,
        layout.num_registers - layout.first_buffer,
        tuple(steps),
        tuple(layout.registers[output] if isinstance(output, Symbol) else output for output in outputs),
    )


def _needed(values: Sequence[Value]) -> list[Symbol]:
    """Symbols that values are computed from, themselves included, operands first and shortly before their use."""
    found: dict[Symbol, None] = {}
    waiting = [value for value in reversed(values) if isinstance(value, Symbol)]
    while waiting:
        symbol = waiting[-1]
        missing = [x for x in symbol.operands if isinstance(x, Symbol) and x not in found]
        if missing:
            waiting += reversed(missing)
        else:
            found[waiting.pop()] = None
    return list(found)


def _check_equal(left: FloatArray, right: FloatArray, out: np.ndarray[Any, Any]) -> None:
    if not np.equal(left, right, out=out).all():
        raise ConditionBroken


class BoundProgram:
    """A program with its buffers, for blocks of one length.

    Attributes:
        program: The program.
        length: Mappings in a block.
        rows: Per input that differs between mappings its index in the graph, and where its values go.
    """

    def __init__(self, program: Program, length: int, scalars: Mapping[int, float]) -> None:
        """Makes room.

        Args:
            program: The program.
            length: Mappings in a block.
            scalars: Values of inputs that are the same for all mappings.
        """
        self.program = program
        self.length = length
        inputs = [np.array(scalars[idx]) if idx in scalars else np.empty(length) for idx in program.inputs]
        self.rows = [(idx, row) for idx, row in zip(program.inputs, inputs, strict=True) if idx not in scalars]
        constants = [np.array(value) for value in program.constants]
        self._registers = [*inputs, *constants, *(np.empty(length) for _ in range(program.num_buffers))]
        flags = np.empty(length, dtype=bool)
        self._calls = [
            (
                step.function,
                tuple(self._registers[operand] for operand in step.operands),
                flags if step.result is None else self._registers[step.result],
            )
            for step in program.steps
        ]

    def run(self) -> list[FloatArray | float]:
        """Computes the outputs of the block whose inputs are in place; the next run overwrites them.

        Raises:
            ConditionBroken: The program does not hold for this block.
        """
        for function, operands, out in self._calls:
            function(*operands, out=out)
        return [output if isinstance(output, float) else self._registers[output] for output in self.program.outputs]
