"""The token protocol without time: who may move tokens, in which order a program issues, and where it hangs.

Queues issue in order, tokens only count, and dispatch is in program order into queues of bounded depth. Such a system
reaches the same end whatever the units' timing, so that one greedy run decides whether every run ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from .definition import HEADER_DEPENDENCES
from .encoding import Instruction
from .parameters import TOKEN_BITS

QUEUES = ("load", "execute", "store")
PUSHES = {
    "load": {"push_next": 0},
    "execute": {"push_prev": 1, "push_next": 2},
    "store": {"push_prev": 3},
}
"""Counters that a queue's instructions give tokens to: load to execute, back, execute to store, back."""
POPS = {
    "load": {"pop_next": 1},
    "execute": {"pop_prev": 0, "pop_next": 3},
    "store": {"pop_prev": 2},
}
"""Counters that a queue's instructions take tokens from."""
GIVER = ("load", "execute", "execute", "store")
TAKER = ("execute", "load", "store", "execute")


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """An instruction at the head of its queue that never issues, and the counter whose token it lacks."""

    idx: int
    counter: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """How a program issues.

    Attributes:
        order: Indices in an order in which they may issue, barriers among them.
        blocked: Heads of queues that never issue.
    """

    order: tuple[int, ...]
    blocked: tuple[Blocked, ...]


def pushes(instruction: Instruction) -> Iterator[int]:
    """Counters that an instruction gives a token to."""
    if not instruction.kind.is_barrier:
        for bit, counter in PUSHES[instruction.queue].items():
            if getattr(instruction, bit):
                yield counter


def pops(instruction: Instruction) -> Iterator[int]:
    """Counters that an instruction takes a token from."""
    if not instruction.kind.is_barrier:
        for bit, counter in POPS[instruction.queue].items():
            if getattr(instruction, bit):
                yield counter


def bit_faults(instruction: Instruction) -> Iterator[str]:
    """Dependence bits for which there is no neighbouring queue."""
    for bit in HEADER_DEPENDENCES:
        if not getattr(instruction, bit):
            continue
        if instruction.kind.is_barrier:
            yield f"{bit} is set; {instruction.name} goes to no queue and moves no tokens: put it on a NOP"
        elif bit not in {**PUSHES[instruction.queue], **POPS[instruction.queue]}:
            side = "in front of" if bit.endswith("prev") else "behind"
            yield f"{bit} is set; there is no queue {side} the {instruction.queue} queue: clear it"


def issue(program: Sequence[Instruction], queue_depth: int) -> Issue:
    """Runs a program's tokens: every instruction ends as soon as it issues."""
    order: list[int] = []
    tokens = [0] * len(GIVER)
    queues: dict[str, deque[int]] = {name: deque() for name in QUEUES}
    taken = [tuple(pops(instruction)) for instruction in program]
    given = [tuple(pushes(instruction)) for instruction in program]
    pc, num_before = 0, -1
    while num_before != len(order) + pc:
        num_before = len(order) + pc
        for queue in queues.values():
            while queue and all(tokens[counter] for counter in taken[queue[0]]):
                idx = queue.popleft()
                for counter in taken[idx]:
                    tokens[counter] -= 1
                for counter in given[idx]:
                    tokens[counter] += 1
                order.append(idx)
        while pc < len(program):
            if program[pc].kind.is_barrier:
                if any(queues.values()):
                    break
                order.append(pc)
            else:
                queue = queues[program[pc].queue]
                if len(queue) == queue_depth:
                    break
                queue.append(pc)
            pc += 1
    blocked = tuple(
        Blocked(idx=queue[0], counter=next(c for c in taken[queue[0]] if not tokens[c])) for queue in queues.values() if queue
    )  # fmt: skip
    return Issue(order=tuple(order), blocked=blocked)


def blocked_faults(program: Sequence[Instruction], found: Issue) -> Iterator[tuple[int, str]]:
    """Index and message of the first instruction of every queue that never issues."""
    for blocked in found.blocked:
        giver = GIVER[blocked.counter]
        number = 1 + sum(blocked.counter in pops(program[idx]) for idx in found.order if idx < blocked.idx)
        givers = [idx for idx, instruction in enumerate(program) if blocked.counter in pushes(instruction)]
        head = f"it waits for token {number} of the {giver} queue for ever: "
        if number > len(givers):
            cause = f"the program gives {len(givers)}; give one more, or take one less"
        else:
            idx = givers[number - 1]
            cause = f"instruction {idx} ({program[idx].name}) gives it, and cannot issue before this one has; move it forward"
        yield blocked.idx, head + cause


def overflow_faults(program: Sequence[Instruction], queue_depth: int) -> Iterator[tuple[int, str]]:
    """Index and message of the first instruction per counter whose token may find the counter full.

    How many tokens are taken before is bounded below: what stands in front of an instruction has been dispatched
    before it, and so all but a queue's depth of it has issued, all of it if a barrier lies between.
    """
    most = (1 << TOKEN_BITS) - 1
    for counter, taker in enumerate(TAKER):
        takes = [0, *accumulate(
            int(counter in pops(instruction)) for instruction in program
            if instruction.queue == taker and not instruction.kind.is_barrier
        )]  # fmt: skip
        num_given = num_before = num_fenced = 0
        for idx, instruction in enumerate(program):
            if instruction.kind.is_barrier:
                num_fenced = num_before
                continue
            num_before += instruction.queue == taker
            if counter not in pushes(instruction):
                continue
            num_given += 1
            num_taken = takes[max(num_fenced, num_before - queue_depth, 0)]
            if num_given - num_taken > most:
                yield (
                    idx,
                    (
                        f"it may give token {num_given} to the {taker} queue when only {num_taken} are taken; a counter holds"
                        f" {most}: let the {taker} queue take tokens earlier, or give none that nobody takes"
                    ),
                )
                break
