"""Steps: what one unit does once, with all that it waits for. A program is a table of them in an order that is right.

A large network has hundreds of thousands of steps, and most tables are only timed and thrown away. So steps stand in
columns of numbers, what all steps of one `tile` op have in common stands once, in its form, and instructions with their
operands are made of what is left in the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Operands = Mapping[str, int]
Config = tuple[str, Operands]
"""An instruction that configures a unit, and its operands."""

FIRST, SECOND, THIRD, FOURTH, Y, X, ACCUMULATE = range(7)
"""Columns of a step's numbers: up to four addresses, by kind of step as in `NUMBERS`, then what only walks have."""
NUM_BASES = 4
NUM_NUMBERS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbered:
    """Which operands of a step's instructions are its own, by column.

    Attributes:
        operands: Of its last instruction, which does the work.
        configs: Of those that configure the unit, by index among them.
        preload: Of a PRELOAD.
    """

    operands: tuple[tuple[str, int], ...]
    configs: tuple[tuple[int, str, int], ...] = ()
    preload: tuple[tuple[str, int], ...] = ()


_WALK = (("y", Y), ("x", X), ("destination", FIRST), ("accumulate", ACCUMULATE))
NUMBERS: Mapping[str, Numbered] = {
    "LD": Numbered(operands=(("memory_address", FIRST), ("local_address", SECOND))),
    "COMPUTE": Numbered(operands=_WALK, configs=((0, "address", SECOND),), preload=(("address", THIRD),)),
    "ALU": Numbered(operands=_WALK, configs=((0, "address", SECOND), (2, "address", THIRD))),
    "ST": Numbered(operands=(("source", FIRST), ("address", SECOND), ("slot", THIRD), ("lookup", FOURTH))),
}
"""By mnemonic."""


class Facts(NamedTuple):
    """What of a form the cycles of its steps and their waits depend on; columns, [forms], in `Forms`.

    Attributes:
        kind: As of the models' steps.
        space: Of a load: 0 for the scratchpad, 1 for a slot of parameters, 2 for one of a table; of a store 1 for the scratchpad.
        vectors: Vectors of a walk or a store; rows of a load.
        beats: Beats of a load's row; of a store's vector, or 0 where it goes to the scratchpad.
        operands: Cycles that a vector op's second operand takes besides.
        is_sequence: Whether that is a vector of its own for each.
        num_sums: Sums that are written or read.
        read_bytes: From a load's first byte in main memory, or that of a walk's second operand, to the last one's end; 0
            where there is none.
        written_bytes: The same of what is written.
        rows, width, pitch: Of a walk's input: its rows, bytes of a row, and from one row to the next.
        y_span, x_span: From the first row of the input that a walk reads to the last one, and from the first byte in the row
            to the last one's end.
        has_table: Whether a store looks something up.
        first_config, second_config, third_config: Numbers of what its unit is configured to but for addresses, by instruction:
            CFG_LD, CFG_TILE or CFG_ST; CFG_WALK; CFG_ALU. 0 where any will do.
    """

    kind: Ints
    space: Ints
    vectors: Ints
    beats: Ints
    operands: Ints
    is_sequence: Ints
    num_sums: Ints
    read_bytes: Ints
    written_bytes: Ints
    rows: Ints
    width: Ints
    pitch: Ints
    y_span: Ints
    x_span: Ints
    has_table: Ints
    first_config: Ints
    second_config: Ints
    third_config: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What all steps of an op have in common. Operands that are a step's own are 0 here.

    Attributes:
        name: Mnemonic of the instruction that does the work.
        operands: Its operands.
        configs: What the unit must be configured to.
        preload: Operands of the PRELOAD; None where there is none.
        facts: Those of `Facts` that are not 0 and do not follow from `configs`, by name.
    """

    name: str
    operands: Operands
    configs: tuple[Config, ...] = ()
    preload: Operands | None = None
    facts: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forms:
    """The forms of a program.

    Attributes:
        forms: One per op.
        facts: Theirs, in columns.
    """

    forms: Sequence[Form]
    facts: Facts

    @staticmethod
    def of(forms: Sequence[Form]) -> Forms:
        """Forms with their facts as columns."""
        numbers: dict[tuple[object, ...], int] = {}
        rows: list[list[int]] = []
        for form in forms:
            configs = [
                numbers.setdefault((name, *operands.values()), len(numbers) + 1) for name, operands in form.configs
            ]
            facts = form.facts
            rows.append([facts.get(name, 0) for name in _PLAIN] + configs + [0] * (_NUM_CONFIGS - len(configs)))
        columns = np.array(rows, dtype=np.int64).reshape(-1, len(Facts._fields)).T.copy()
        return Forms(forms=forms, facts=Facts(*columns))


_NUM_CONFIGS = 3
_PLAIN = Facts._fields[:-_NUM_CONFIGS]


class Waits(NamedTuple):
    """What steps wait for, [steps]: the number (counted from 1 within its unit) of the step whose end they need; 0 for none.

    Attributes:
        after_load, after_walk, after_store: Of a step.
        preload_after_load, preload_after_store: Of the PRELOAD of a product's weights.
    """

    after_load: Ints
    after_walk: Ints
    after_store: Ints
    preload_after_load: Ints
    preload_after_store: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """A program's steps in an order in which they may run one after the other, as columns.

    Attributes:
        forms: Their forms.
        form: [steps] index of each step's form.
        kernel: [steps] index of its kernel.
        numbers: [steps, `NUM_NUMBERS`] what is its own.
        waits: What it waits for.
        kind: [steps] follows from its form.
    """

    forms: Forms
    form: Ints
    kernel: Ints
    numbers: Ints
    waits: Waits
    kind: Ints = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", self.forms.facts.kind[self.form])

    def __len__(self) -> int:
        return len(self.form)

    def fact(self, name: str) -> Ints:
        """[steps] a fact of each step's form."""
        column: Ints = getattr(self.forms.facts, name)
        return column[self.form]
