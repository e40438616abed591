"""Instructions as values, as bits, and as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from ..errors import CompileError
from ..spec import nearest_hint
from .definition import HEADER_DEPENDENCES, InstructionKind, tensor_pe_array_isa


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One instruction.

    Attributes:
        name: Mnemonic.
        operands: Values of its fields; those left out are 0.
        pop_prev, pop_next: Whether it waits for a token of the neighbouring queue.
        push_prev, push_next: Whether it gives one at its end.
        issue_cycle: Static mode: the cycle of its issue.
    """

    name: str
    operands: Mapping[str, int] = field(default_factory=dict[str, int])
    pop_prev: bool = False
    pop_next: bool = False
    push_prev: bool = False
    push_next: bool = False
    issue_cycle: int = 0

    @property
    def is_known(self) -> bool:
        """Whether the instruction set has its mnemonic."""
        return self.name in tensor_pe_array_isa().by_name

    @property
    def kind(self) -> InstructionKind:
        """What the instruction set says about it."""
        return tensor_pe_array_isa().by_name[self.name]

    @property
    def queue(self) -> str:
        """Its queue."""
        return self.kind.queue

    def __getitem__(self, operand: str) -> int:
        """An operand's value."""
        self.kind.field(operand)
        return self.operands.get(operand, 0)


def encode(instruction: Instruction, where: str = "") -> int:
    """The instruction's bits.

    Args:
        instruction: The instruction.
        where: Its place, for messages.

    Raises:
        CompileError: A mnemonic or operand is unknown, or a value does not fit its field.
    """
    word = _encoded(instruction)
    if word is None:
        is_known = instruction.is_known
        fault = next(operand_faults(instruction))
        raise CompileError(f"{where}{instruction.name}: {fault}" if is_known else f"{where}{fault}")
    return word


@dataclass(frozen=True, slots=True)
class _Packing:
    """An instruction's opcode at its place, and of every further field its place, mask and range."""

    opcode: int
    header: tuple[tuple[str, int, int, int, int], ...]
    fields: Mapping[str, tuple[int, int, int, int]]


@cache
def _packing(name: str) -> _Packing | None:
    isa = tensor_pe_array_isa()
    kind = isa.by_name.get(name)
    if kind is None:
        return None
    places = {spec.name: (low, (1 << spec.bits) - 1, spec.least, spec.most) for spec, low in isa.layout(kind)}
    header = tuple((spec.name, *places[spec.name]) for spec in isa.header[1:])
    fields = {spec.name: places[spec.name] for spec in kind.fields}
    return _Packing(kind.opcode << places["opcode"][0], header, fields)


def _encoded(instruction: Instruction) -> int | None:
    """The bits, or None where there are none; programs have hundreds of thousands of instructions."""
    packing = _packing(instruction.name)
    if packing is None:
        return None
    word = packing.opcode
    for name, low, mask, least, most in packing.header:
        value = int(getattr(instruction, name))
        if not value and not least:
            continue  # most of them
        if not least <= value <= most:
            return None
        word |= (value & mask) << low
    for name, value in instruction.operands.items():
        place = packing.fields.get(name)
        if place is None or not place[2] <= value <= place[3]:
            return None
        word |= (value & place[1]) << place[0]
    return word


def operand_faults(instruction: Instruction) -> Iterator[str]:
    """Everything for which an instruction has no bits: an unknown mnemonic or operand, a value beyond its field."""
    isa = tensor_pe_array_isa()
    kind = isa.by_name.get(instruction.name)
    if kind is None:
        yield f"unknown instruction '{instruction.name}'{nearest_hint(instruction.name, isa.by_name)}"
        return
    known = [spec.name for spec in kind.fields]
    for name in instruction.operands:
        if name not in known:
            yield f"unknown operand '{name}'{nearest_hint(name, known)}"
    values = _values(instruction, kind)
    for spec in (*isa.header, *kind.fields):
        value = values.get(spec.name, 0)
        if not spec.least <= value <= spec.most:
            yield f"{spec.name} is {value}; it must be from {spec.least} to {spec.most}"


def _values(instruction: Instruction, kind: InstructionKind) -> dict[str, int]:
    return {
        **instruction.operands,
        "opcode": kind.opcode,
        **{bit: int(getattr(instruction, bit)) for bit in HEADER_DEPENDENCES},
        "issue_cycle": instruction.issue_cycle,
    }


def decode(word: int, where: str = "") -> Instruction:
    """The instruction of some bits.

    Raises:
        CompileError: No instruction has that opcode, a choice is not one of its values, or unused bits are set.
    """
    isa = tensor_pe_array_isa()
    opcode_spec = isa.header[0]
    opcode = word >> (isa.instruction_bits - opcode_spec.bits) & opcode_spec.most
    kind = isa.by_opcode.get(opcode)
    if kind is None:
        raise CompileError(f"{where}no instruction has opcode {opcode}")
    values: dict[str, int] = {}
    rest = word
    for spec, low in isa.layout(kind):
        bits = word >> low & ((1 << spec.bits) - 1)
        rest &= ~(((1 << spec.bits) - 1) << low)
        value = bits - (1 << spec.bits) if spec.signed and bits >> (spec.bits - 1) else bits
        values[spec.name] = value
        if value > spec.most:
            raise CompileError(f"{where}{kind.name}: {spec.name} is {value}; it must be below {len(spec.choices)}")
    if rest:
        raise CompileError(f"{where}{kind.name}: bits that it does not use are set: {rest:#x}")
    return Instruction(
        name=kind.name,
        operands={spec.name: values[spec.name] for spec in kind.fields},
        issue_cycle=values["issue_cycle"],
        **{bit: bool(values[bit]) for bit in HEADER_DEPENDENCES},
    )


def completed(instruction: Instruction) -> Instruction:
    """The same instruction with all its operands: those left out are 0."""
    given = instruction.operands
    # As fast as can be: `replace` would take as long again as all else.
    return Instruction(
        name=instruction.name,
        operands={name: given.get(name, 0) for name in _operand_names(instruction.name)},
        pop_prev=instruction.pop_prev,
        pop_next=instruction.pop_next,
        push_prev=instruction.push_prev,
        push_next=instruction.push_next,
        issue_cycle=instruction.issue_cycle,
    )


@cache
def _operand_names(name: str) -> tuple[str, ...]:
    return tuple(spec.name for spec in tensor_pe_array_isa().by_name[name].fields)


def encode_program(program: Sequence[Instruction]) -> list[int]:
    """The bits of a program; messages name the instruction's index."""
    return [encode(instruction, f"instruction {idx}: ") for idx, instruction in enumerate(program)]


def disassemble(program: Iterable[Instruction]) -> str:
    """One line per instruction: mnemonic, operands that are not 0, dependence bits, issue cycle."""
    return "".join(f"{_line(instruction)}\n" for instruction in program)


def _line(instruction: Instruction) -> str:
    words = [f"{instruction.name:<9}"]
    for spec in instruction.kind.fields:
        value = instruction[spec.name]
        if value or spec.choices:
            words.append(f"{spec.name}={spec.choices[value] if spec.choices else value}")
    words += [bit for bit in HEADER_DEPENDENCES if getattr(instruction, bit)]
    if instruction.issue_cycle:
        words.append(f"@{instruction.issue_cycle}")
    return " ".join(words).rstrip()


def assemble(text: str, name: str = "program") -> tuple[Instruction, ...]:
    """The inverse of `disassemble`; `#` starts a comment.

    Raises:
        CompileError: With name and line of every fault.
    """
    found: list[Instruction] = []
    faults: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        try:
            found.append(_parsed(words))
            encode(found[-1])
        except CompileError as error:
            faults.append(f"{name}:{number}: {error}")
    if faults:
        raise CompileError("\n".join(faults))
    return tuple(found)


def _parsed(words: Sequence[str]) -> Instruction:
    isa = tensor_pe_array_isa()
    kind = isa.by_name.get(words[0])
    if kind is None:
        raise CompileError(f"unknown instruction '{words[0]}'{nearest_hint(words[0], isa.by_name)}")
    known = {spec.name: spec for spec in kind.fields}
    operands: dict[str, int] = {}
    bits: dict[str, bool] = {}
    issue_cycle = 0
    for word in words[1:]:
        operand, equals, value = word.partition("=")
        if word.startswith("@"):
            issue_cycle = _number(word[1:], "issue cycle")
        elif word in HEADER_DEPENDENCES:
            bits[word] = True
        elif not equals or operand not in known:
            raise CompileError(
                f"{kind.name}: '{word}' is not understood{nearest_hint(operand, (*known, *HEADER_DEPENDENCES))}"
            )
        elif operand in operands:
            raise CompileError(f"{kind.name}: {operand} is given twice")
        else:
            choices = known[operand].choices
            if choices and value not in choices:
                raise CompileError(f"{kind.name}: {operand} is '{value}'; it must be one of {', '.join(choices)}")
            operands[operand] = choices.index(value) if choices else _number(value, operand)
    return Instruction(name=kind.name, operands=operands, issue_cycle=issue_cycle, **bits)


def _number(text: str, what: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise CompileError(f"{what} is '{text}'; it must be a whole number") from None
