"""Writes steps down as instructions with their tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from ...archdsl import Instruction
from ...models import LOAD_STEP, STORE_STEP
from .steps import NUMBERS, Operands, Steps
from .tokens import KeptWaits, changes_of, kept_waits

Bools = npt.NDArray[np.bool_]
_Row = tuple[int, int, list[int], int, int, tuple[bool, ...]]


def instructions_of(steps: Steps) -> tuple[list[Instruction], list[int]]:
    """Steps as instructions with their tokens, and the kernel of every instruction.

    Args:
        steps: In their final order.
    """
    kept = kept_waits(steps)
    waits, (gives_prev, gives_next) = kept.waits, _given(steps, kept)
    takes_walk = waits.after_walk > 0
    tokens = zip(
        *(column.tolist() for column in (
            waits.preload_after_load > 0, waits.preload_after_store > 0,
            (waits.after_load > 0) | (takes_walk & (steps.kind == STORE_STEP)),
            (waits.after_store > 0) | (takes_walk & (steps.kind == LOAD_STEP)), gives_prev, gives_next,
        )),
        strict=True,
    )  # fmt: skip
    columns = zip(
        steps.form.tolist(), steps.kernel.tolist(), steps.numbers.tolist(), changes_of(steps).tolist(),
        kept.is_fenced.tolist(), tokens, strict=True,
    )  # fmt: skip
    made: list[Instruction] = []
    kernels: list[int] = []
    for idx, kernel, numbers, changed, is_fenced, bits in cast("Iterable[_Row]", columns):
        form = steps.forms.forms[idx]
        own = NUMBERS[form.name]
        if is_fenced:
            made.append(Instruction(name="FENCE"))
        if changed:
            addresses = {config: ((name, column),) for config, name, column in own.configs}
            made += [
                Instruction(name=name, operands=_filled(operands, addresses.get(config, ()), numbers))
                for config, (name, operands) in enumerate(form.configs)
                if changed >> config & 1
            ]
        if form.preload is not None:
            operands = _filled(form.preload, own.preload, numbers)
            made.append(Instruction(name="PRELOAD", operands=operands, pop_prev=bits[0], pop_next=bits[1]))
        made.append(
            Instruction(
                name=form.name, operands=_filled(form.operands, own.operands, numbers), pop_prev=bits[2], pop_next=bits[3],
                push_prev=bits[4], push_next=bits[5],
            )
        )  # fmt: skip
        kernels += [kernel] * (len(made) - len(kernels))
    made.append(Instruction(name="HALT"))
    kernels.append(kernels[-1] if kernels else -1)
    return made, kernels


def _filled(operands: Operands, own: Sequence[tuple[str, int]], numbers: Sequence[int]) -> Operands:
    """A form's operands with those that are a step's own."""
    filled = dict(operands)
    for name, column in own:
        filled[name] = numbers[column]
    return filled


def _given(steps: Steps, kept: KeptWaits) -> tuple[Bools, Bools]:
    """[steps] whether a token is given to the queue before, and to the one behind: where some step waits for it."""
    is_load, is_store = steps.kind == LOAD_STEP, steps.kind == STORE_STEP
    waits = kept.waits
    to_prev, to_next = np.zeros((2, len(steps)), dtype=np.bool_)
    for given, givers, wanted in (
        (to_next, is_load, (waits.after_load, waits.preload_after_load)),
        (to_prev, ~is_load & ~is_store, (waits.after_walk[is_load],)),
        (to_next, ~is_load & ~is_store, (waits.after_walk[is_store],)),
        (to_prev, is_store, (waits.after_store, waits.preload_after_store)),
    ):
        numbers = np.concatenate(wanted)
        given[np.flatnonzero(givers)[numbers[numbers > 0] - 1]] = True
    return to_prev, to_next
