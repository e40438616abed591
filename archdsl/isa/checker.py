"""Whether a program is valid for a PE array, found without running it: every fault, each at its instruction.

A valid program ends, and what it does is what its text says when read from top to bottom, whatever the timing of main
memory. It is checked in three steps, each of which needs the one before:

1. Every instruction by itself, with the configuration in force: fields, counts, alignment, ranges; the order of
   preloads and swaps; HALT; dependence bits.
2. Tokens: whether every instruction issues, and whether a counter may overflow.
3. Data: whether accesses of different units to the same place are ordered as the program has them, and whether what is
   read was written.

Tokens that are left over at the end are no fault: a program starts without tokens, and what a token too many in front
of another lets go too early shows as a hazard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..errors import CompileError
from .encoding import Instruction
from .operand_checks import OperandCheck
from .parameters import INDEX_BITS, PeArray
from .regions import Access
from .tokens import bit_faults, blocked_faults, issue, overflow_faults

MOST_MEMORY_BYTES = 1 << 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramFault:
    """One reason why a program is invalid.

    Attributes:
        index: Index of the instruction at fault; that behind the last one when something is missing at the end.
        instruction: Its mnemonic; `end` behind the last one.
        message: What is wrong and what would be right.
    """

    index: int
    instruction: str
    message: str

    def __str__(self) -> str:
        return f"instruction {self.index} ({self.instruction}): {self.message}"


def check_program(program: Sequence[Instruction], array: PeArray, memory_bytes: int) -> tuple[ProgramFault, ...]:
    """Everything that makes a program invalid, in the order of its instructions.

    Tokens are looked at once every instruction is right by itself, and data hazards once tokens are.

    Args:
        program: The program.
        array: The PE array that it is for.
        memory_bytes: Size of main memory, up to 4 GiB.

    Returns:
        The faults; none when the program is valid.

    Raises:
        ValueError: The size of main memory is out of range.

    Limits:
        Static mode's issue cycles are not looked at. What main memory holds at the start is taken to be valid
        everywhere, and of the scratchpad only reads are reported of which nothing was written.
    """
    if not 0 < memory_bytes <= MOST_MEMORY_BYTES:
        raise ValueError(f"memory_bytes is {memory_bytes}; it must be from 1 to {MOST_MEMORY_BYTES}")
    touched: list[tuple[Access, ...]] = []
    check = OperandCheck(array=array, memory_bytes=memory_bytes)
    faults: list[tuple[int, str]] = []
    for idx, instruction in enumerate(program):
        messages, some = check.step(instruction)
        touched.append(some)
        faults += [(idx, message) for message in messages]
    known = {idx: instruction for idx, instruction in enumerate(program) if instruction.is_known}
    faults += [(idx, message) for idx, instruction in known.items() for message in bit_faults(instruction)]
    faults += [*_weight_faults(known), *_end_faults(program)]
    if not faults:
        faults += _run_faults(program, touched, array)
    names = [*(instruction.name for instruction in program), "end"]
    return tuple(
        ProgramFault(index=idx, instruction=names[idx], message=message)
        for idx, message in sorted(faults, key=lambda fault: fault[0])
    )


def require_valid_program(program: Sequence[Instruction], array: PeArray, memory_bytes: int) -> None:
    """Stops on an invalid program.

    Args:
        program: The program.
        array: The PE array that it is for.
        memory_bytes: Size of main memory, up to 4 GiB.

    Raises:
        CompileError: With every fault, one a line.
        ValueError: The size of main memory is out of range.
    """
    faults = check_program(program, array, memory_bytes)
    if faults:
        raise CompileError("\n".join(map(str, faults)))


def _weight_faults(program: dict[int, Instruction]) -> Iterator[tuple[int, str]]:
    """The shadow weights: a PRELOAD fills them, and a COMPUTE with swap takes them into use and frees them."""
    waiting, has_weights = -1, False
    for idx, instruction in program.items():
        if instruction.name == "PRELOAD":
            if waiting >= 0:
                yield (
                    idx,
                    (
                        f"it waits for ever: the weights of instruction {waiting} (PRELOAD) still wait in the shadow registers;"
                        " put a COMPUTE with swap between"
                    ),
                )
            waiting = idx
        elif instruction.name == "COMPUTE" and instruction.operands.get("swap"):
            if waiting < 0:
                yield (
                    idx,
                    "it waits for ever: swap is set, and no PRELOAD stands between it and the last swap; put one there",
                )
            waiting, has_weights = -1, True
        elif instruction.name == "COMPUTE" and not has_weights:
            yield idx, "no weights are in use yet: put a PRELOAD in front of it, and set swap"
            has_weights = True


def _end_faults(program: Sequence[Instruction]) -> Iterator[tuple[int, str]]:
    """One HALT, at the end."""
    halt = next((idx for idx, instruction in enumerate(program) if instruction.name == "HALT"), -1)
    if halt < 0:
        yield len(program), "the program has no HALT; end it with one"
    elif halt + 1 < len(program):
        yield (
            halt + 1,
            f"it stands behind instruction {halt} (HALT) and never issues; remove it, or move the HALT to the end",
        )
    if len(program) > 1 << INDEX_BITS:
        yield (
            1 << INDEX_BITS,
            f"the program has {len(program)} instructions; the program counter reaches {1 << INDEX_BITS}",
        )


def _run_faults(
    program: Sequence[Instruction], touched: Sequence[tuple[Access, ...]], array: PeArray
) -> Iterator[tuple[int, str]]:
    """What goes wrong between instructions that are right by themselves."""
    # NumPy, which hazards need, takes longer to import than all else of this package.
    from .hazards import hazard_faults
    from .ordering import clocks

    found = issue(program, array.queue_depth)
    if found.blocked:
        yield from blocked_faults(program, found)
        return
    overflows = list(overflow_faults(program, array.queue_depth))
    yield from overflows
    if not overflows:
        yield from hazard_faults(program, touched, clocks(program, found.order, array), array)
