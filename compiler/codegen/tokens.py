"""Orders the units by tokens, and writes steps down as instructions.

Each direction between two neighbouring queues has one counter of tokens, and its tokens are given by steps of one unit
that end in order: LDs, COMPUTEs and ALUs by their last read or their last sum, STs. Of all that steps wait for only what is
not known already is kept; then exactly the steps that somebody waits for give a token, and the n-th waiting step takes the
n-th token. Load and store units are no neighbours: what one must know of the other it learns through a walk.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from ...archdsl import Instruction
from .steps import Config, Load, Operands, Step, Store, Walk

Part = Literal["PRELOAD", "walk"]


@dataclass(slots=True)
class _Known:
    """What walks know of another unit: by walk (counted from 1) the last of its steps that has ended."""

    walks: list[int] = field(default_factory=list[int])
    steps: list[int] = field(default_factory=list[int])

    floor: int = 0  # steps up to this one have ended by a FENCE

    @property
    def last(self) -> int:
        """The last step that is known to have ended."""
        return max(self.floor, self.steps[-1] if self.steps else 0)

    def learn(self, walk: int, step: int) -> bool:
        """A walk waits for a step; says whether that is new."""
        if step <= self.last:
            return False
        self.walks.append(walk)
        self.steps.append(step)
        return True

    def first_walk(self, step: int) -> int:
        """The first walk that knows that a step has ended, or 0 where a FENCE does; the step must be known."""
        if step <= self.floor:
            return 0
        return self.walks[bisect_left(self.steps, step)]


@dataclass(slots=True)
class Waits:
    """What steps really wait for, by number of the waiting step (counted from 1).

    Attributes:
        load_walk, store_walk: A load's and a store's walk.
        walk_load, walk_store: A walk's load and store, by walk and part.
        fences: Indices of the steps behind a FENCE.
    """

    load_walk: dict[int, int] = field(default_factory=dict[int, int])
    store_walk: dict[int, int] = field(default_factory=dict[int, int])
    walk_load: dict[tuple[int, Part], int] = field(default_factory=dict[tuple[int, Part], int])
    walk_store: dict[tuple[int, Part], int] = field(default_factory=dict[tuple[int, Part], int])
    fences: set[int] = field(default_factory=set[int])


def waits_of(steps: Sequence[Step]) -> Waits:
    """What steps wait for beyond what they know already.

    Where a load must know that a store has ended, or a store that a load has, and no walk between them waits for it, the
    last walk in front of it is made to; where there is none, a FENCE stands in front of it.

    Args:
        steps: In their final order.
    """
    return _Ordering().run(steps)


class _Ordering:
    def __init__(self) -> None:
        self.waits = Waits()
        self.num_loads = self.num_walks = self.num_stores = 0
        self.loads, self.stores = _Known(), _Known()  # what walks know
        self.load_knows = self.store_knows = 0  # the last walk that loads and stores know to have ended
        self.walks_before_load: list[int] = [0]  # per load and store the walks in front of it
        self.walks_before_store: list[int] = [0]

    def run(self, steps: Sequence[Step]) -> Waits:
        for idx, step in enumerate(steps):
            if isinstance(step, Walk):
                self._walk(step)
            elif isinstance(step, Load):
                self._load(idx, step)
            else:
                self._store(idx, step)
        return self.waits

    def _walk(self, walk: Walk) -> None:
        self.num_walks += 1
        parts: list[tuple[Part, int, int]] = [("walk", walk.after_load, walk.after_store)]
        if walk.preload is not None:
            parts.insert(0, ("PRELOAD", walk.preload_after_load, walk.preload_after_store))
        for part, load, store in parts:
            if self.loads.learn(self.num_walks, load):
                self.waits.walk_load[self.num_walks, part] = load
            if self.stores.learn(self.num_walks, store):
                self.waits.walk_store[self.num_walks, part] = store

    def _load(self, idx: int, load: Load) -> None:
        relay = self._relay(self.stores, self.waits.walk_store, load.after_store, self.walks_before_store)
        if relay is None:
            self._fence(idx)
        self.num_loads += 1
        self.walks_before_load.append(self.num_walks)
        wanted = max(load.after_walk, relay or 0)
        if wanted > self.load_knows:
            self.waits.load_walk[self.num_loads] = self.load_knows = wanted

    def _store(self, idx: int, store: Store) -> None:
        relay = self._relay(self.loads, self.waits.walk_load, store.after_load, self.walks_before_load)
        if relay is None:
            self._fence(idx)
        self.num_stores += 1
        self.walks_before_store.append(self.num_walks)
        wanted = max(store.after_walk, relay or 0)
        if wanted > self.store_knows:
            self.waits.store_walk[self.num_stores] = self.store_knows = wanted

    def _relay(
        self, known: _Known, waits: dict[tuple[int, Part], int], step: int, walks_before: Sequence[int]
    ) -> int | None:
        """The walk from which can be learned that a step of the other unit has ended; None where no walk can know."""
        if not step:
            return 0
        if step <= known.last:
            return known.first_walk(step)
        if walks_before[step] == self.num_walks:
            return None
        # The last walk may wait already for an earlier step: then it waits for this one.
        if known.walks and known.walks[-1] == self.num_walks and (self.num_walks, "walk") in waits:
            known.steps[-1] = step
        else:
            known.learn(self.num_walks, step)
        waits[self.num_walks, "walk"] = step
        return self.num_walks

    def _fence(self, idx: int) -> None:
        self.waits.fences.add(idx)
        self.loads.floor, self.stores.floor = self.num_loads, self.num_stores
        self.load_knows = self.store_knows = self.num_walks


@dataclass(slots=True)
class Configured:
    """What units are configured to, from step to step."""

    _operands: dict[str, Operands] = field(default_factory=dict[str, Operands])

    def changes(self, step: Step) -> list[Config]:
        """The configurations that a step needs and that its unit does not have."""
        found = [config for config in step.all_configs if self._operands.get(config[0]) != config[1]]
        self._operands.update(found)
        return found


def instructions_of(steps: Sequence[Step]) -> tuple[list[Instruction], list[int]]:
    """Steps as instructions with their tokens, and the kernel of every instruction.

    Args:
        steps: In their final order.
    """
    waits = waits_of(steps)
    givers = {
        "LD": set(waits.walk_load.values()), "to load": set(waits.load_walk.values()),
        "to store": set(waits.store_walk.values()), "ST": set(waits.walk_store.values()),
    }  # fmt: skip
    made: list[Instruction] = []
    kernels: list[int] = []
    configured = Configured()
    loads = walks = stores = 0
    for idx, step in enumerate(steps):
        if idx in waits.fences:
            made.append(Instruction(name="FENCE"))
        made += [Instruction(name=name, operands=operands) for name, operands in configured.changes(step)]
        if isinstance(step, Load):
            loads += 1
            made.append(
                Instruction(
                    name="LD",
                    operands=step.operands,
                    pop_next=loads in waits.load_walk,
                    push_next=loads in givers["LD"],
                )
            )
        elif isinstance(step, Walk):
            walks += 1
            if step.preload is not None:
                key: tuple[int, Part] = (walks, "PRELOAD")
                made.append(
                    Instruction(
                        name="PRELOAD", operands=step.preload, pop_prev=key in waits.walk_load,
                        pop_next=key in waits.walk_store,
                    )
                )  # fmt: skip
            key = (walks, "walk")
            made.append(
                Instruction(
                    name=step.name, operands=step.operands, pop_prev=key in waits.walk_load,
                    pop_next=key in waits.walk_store, push_prev=walks in givers["to load"],
                    push_next=walks in givers["to store"],
                )
            )  # fmt: skip
        else:
            stores += 1
            made.append(
                Instruction(
                    name="ST", operands=step.operands, pop_prev=stores in waits.store_walk,
                    push_prev=stores in givers["ST"],
                )
            )  # fmt: skip
        kernels += [step.kernel] * (len(made) - len(kernels))
    made.append(Instruction(name="HALT"))
    kernels.append(kernels[-1] if kernels else -1)
    return made, kernels
