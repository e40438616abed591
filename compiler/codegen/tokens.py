"""Orders the units by tokens.

Each direction between two neighbouring queues has one counter of tokens, and its tokens are given by steps of one unit
that end in order: LDs, COMPUTEs and ALUs by their last read or their last sum, STs. Of all that steps wait for only what is
not known already is kept; then exactly the steps that somebody waits for give a token, and the n-th waiting step takes the
n-th token. Load and store units are no neighbours: what one must know of the other it learns through a walk.
"""

from __future__ import annotations

from typing import Final, NamedTuple, cast

import numpy as np

from ...models import LOAD_STEP, MATMUL_STEP, STORE_STEP, compiled
from .steps import SECOND, THIRD, Facts, Ints, Steps, Waits

LOADS, STORES = range(2)
"""Units whose ends walks know of."""
NONE: Final = cast("int", np.int64(0))
"""No walk and no step; no literal, for each of which functions would be compiled anew."""
NUM_CONFIGS = 3
"""Instructions that may configure a unit for a step, at most."""


class KeptWaits(NamedTuple):
    """What steps really wait for.

    Attributes:
        waits: The steps whose tokens they take.
        is_fenced: [steps] whether a FENCE stands in front.
    """

    waits: Waits
    is_fenced: Ints


class _Known(NamedTuple):
    """What is known of ends.

    Attributes:
        walks, steps: [2, waits] by unit the walks that learn of a later end than all before them, and of which step's.
        num: [2] how many of them there are.
        floor: [2] by unit the step up to which all have ended by a FENCE.
        walks_before: [2, steps + 1] by unit and step the walks in front of it.
        counts: [2] steps so far, by unit.
    """

    walks: Ints
    steps: Ints
    num: Ints
    floor: Ints
    walks_before: Ints
    counts: Ints


def kept_waits(steps: Steps) -> KeptWaits:
    """What steps wait for beyond what they know already.

    Where a load must know that a store has ended, or a store that a load has, and no walk between them waits for it, the
    last walk in front of it is made to; where there is none, a FENCE stands in front of it.

    Args:
        steps: In their final order.
    """
    num = len(steps)
    kept = Waits(*np.zeros((len(Waits._fields), num), dtype=np.int64))
    is_fenced = np.zeros(num, dtype=np.int64)
    # A walk with its PRELOAD learns twice at most, and a last walk once more for others' sake.
    lists, counts = np.zeros((2, 2, 3 * num), dtype=np.int64), np.zeros((3, 2), dtype=np.int64)
    known = _Known(
        walks=lists[0], steps=lists[1], num=counts[0], floor=counts[1],
        walks_before=np.zeros((2, num + 1), dtype=np.int64), counts=counts[2],
    )  # fmt: skip
    _keep(steps.kind, steps.waits, kept, is_fenced, known)
    return KeptWaits(waits=kept, is_fenced=is_fenced)


@compiled
def _keep(kinds: Ints, waits: Waits, kept: Waits, is_fenced: Ints, known: _Known) -> None:
    walk, walk_step = NONE, NONE - 1  # the last walk, and its step
    knows = np.zeros(2, dtype=np.int64)  # by unit the last walk that it knows to have ended
    asked, granted = (waits.after_load, waits.after_store), (kept.after_load, kept.after_store)
    preload_asked = (waits.preload_after_load, waits.preload_after_store)
    preload_granted = (kept.preload_after_load, kept.preload_after_store)
    for step in range(len(kinds)):
        kind = kinds[step]
        if kind != LOAD_STEP and kind != STORE_STEP:
            walk, walk_step = walk + 1, step
            for unit in range(2):
                if kind == MATMUL_STEP:
                    preload_granted[unit][step] = _learn(known, unit, walk, preload_asked[unit][step])
                granted[unit][step] = _learn(known, unit, walk, asked[unit][step])
            continue
        unit = LOADS if kind == LOAD_STEP else STORES
        other = STORES if kind == LOAD_STEP else LOADS
        relay = _relay(known, other, asked[other][step], walk, walk_step, granted[other])
        if relay < 0:
            is_fenced[step] = 1
            for each in range(2):
                known.floor[each], knows[each] = known.counts[each], walk
        known.counts[unit] += 1
        known.walks_before[unit, known.counts[unit]] = walk
        wanted = max(waits.after_walk[step], relay)
        if wanted > knows[unit]:
            kept.after_walk[step] = knows[unit] = wanted


@compiled
def _last(known: _Known, unit: int) -> int:
    """The last step of a unit that is known to have ended."""
    num = known.num[unit]
    return max(known.floor[unit], known.steps[unit, num - 1] if num else 0)


@compiled
def _learn(known: _Known, unit: int, walk: int, step: int) -> int:
    """A walk waits for a step; returns it if that is new, and else 0."""
    if step <= _last(known, unit):
        return 0
    num = known.num[unit]
    known.walks[unit, num], known.steps[unit, num] = walk, step
    known.num[unit] = num + 1
    return step


@compiled
def _first_walk(known: _Known, unit: int, step: int) -> int:
    """The first walk that knows that a step has ended, which some walk does; by halves."""
    low, high = 0, known.num[unit]
    while low < high:
        middle = (low + high) // 2
        if known.steps[unit, middle] < step:
            low = middle + 1
        else:
            high = middle
    return known.walks[unit, low]


@compiled
def _relay(known: _Known, unit: int, step: int, walk: int, walk_step: int, kept: Ints) -> int:
    """The walk from which can be learned that a step of the other unit has ended, 0 for no need; -1 where no walk can know."""
    if not step or step <= known.floor[unit]:
        return 0
    num = known.num[unit]
    if step <= _last(known, unit):
        return _first_walk(known, unit, step)
    if known.walks_before[unit, step] == walk:
        return -1
    # The last walk may wait already for an earlier step: then it waits for this one.
    if num and known.walks[unit, num - 1] == walk and kept[walk_step]:
        known.steps[unit, num - 1] = step
    else:
        _learn(known, unit, walk, step)
    kept[walk_step] = step
    return walk


def changes_of(steps: Steps) -> Ints:
    """[steps] which of its form's configurations a step's unit does not have yet, a bit each."""
    changes = np.zeros(len(steps), dtype=np.int64)
    _change(steps.forms.facts, steps.form, steps.numbers, changes)
    return changes


@compiled
def _change(facts: Facts, forms: Ints, numbers: Ints, changes: Ints) -> None:
    # Of CFG_LD, CFG_ST, CFG_TILE, CFG_WALK and CFG_ALU: what is set, and the address besides.
    load, store, tile, tile_at, walk, alu, alu_at = 0, 0, 0, -1, 0, 0, -1
    for step in range(len(forms)):
        form = forms[step]
        kind, first = facts.kind[form], facts.first_config[form]
        if kind == LOAD_STEP:
            changes[step] = int(first != 0 and first != load)
            load = first if first else load
            continue
        if kind == STORE_STEP:
            changes[step], store = int(first != store), first
            continue
        found = int(first != tile or numbers[step, SECOND] != tile_at)
        tile, tile_at = first, numbers[step, SECOND]
        found |= int(facts.second_config[form] != walk) << 1
        walk = facts.second_config[form]
        third = facts.third_config[form]
        if third:
            found |= int(third != alu or numbers[step, THIRD] != alu_at) << 2
            alu, alu_at = third, numbers[step, THIRD]
        changes[step] = found
