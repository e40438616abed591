"""The instruction set as data: fields, widths, queues and dependence bits, read from one file."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, lru_cache
from importlib import resources

import yaml
from pydantic import Field

from ..spec import Fault, Spec

HEADER_DEPENDENCES = ("pop_prev", "pop_next", "push_prev", "push_next")


class InstructionField(Spec):
    """One field of an instruction."""

    name: str = Field(description="Name, unique in its instruction.")
    bits: int = Field(ge=1, le=64, description="Width.")
    signed: bool = Field(default=False, description="Whether it is in two's complement.")
    choices: tuple[str, ...] = Field(default=(), description="Names of its values, from 0; numbers where left out.")
    description: str = Field(description="What it means.")

    @property
    def least(self) -> int:
        """The least value."""
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def most(self) -> int:
        """The greatest value."""
        if self.choices:
            return len(self.choices) - 1
        return (1 << (self.bits - int(self.signed))) - 1


class InstructionKind(Spec):
    """One kind of instruction."""

    name: str = Field(description="Mnemonic.")
    opcode: int = Field(ge=1, description="Its code.")
    queue: str = Field(description="The queue that it goes to.")
    is_barrier: bool = Field(default=False, description="Whether dispatch waits instead of a queue.")
    description: str = Field(description="What it does.")
    fields: tuple[InstructionField, ...] = Field(description="Its operands, most significant first.")

    def field(self, name: str) -> InstructionField:
        """The field of that name.

        Raises:
            KeyError: There is none.
        """
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(f"{self.name} has no field '{name}'; it has {', '.join(f.name for f in self.fields) or 'none'}")


class Queue(Spec):
    """One instruction queue."""

    name: str = Field(description="Name.")
    description: str = Field(description="What its instructions do.")


class InstructionSet(Spec):
    """An instruction set of three queues that exchange tokens with their neighbours."""

    name: str = Field(description="Name.")
    instruction_bits: int = Field(ge=8, description="Width of every instruction.")
    header: tuple[InstructionField, ...] = Field(description="Fields in front of every instruction.")
    queues: tuple[Queue, ...] = Field(description="Queues; each exchanges tokens with those before and after it.")
    instructions: tuple[InstructionKind, ...] = Field(description="All kinds of instructions.")

    def faults(self) -> Iterator[Fault]:
        names = {queue.name for queue in self.queues}
        seen: dict[int, str] = {}
        for idx, kind in enumerate(self.instructions):
            where = ("instructions", idx)
            if kind.queue not in names:
                yield Fault((*where, "queue"), f"{kind.name}: no queue is called '{kind.queue}'")
            if kind.opcode > self.header[0].most or kind.opcode in seen:
                yield Fault((*where, "opcode"), f"{kind.name}: opcode {kind.opcode} is too large or taken")
            seen[kind.opcode] = kind.name
            bits = self.header_bits + sum(field.bits for field in kind.fields)
            if bits > self.instruction_bits:
                yield Fault((*where, "fields"), f"{kind.name}: needs {bits} bits and there are {self.instruction_bits}")

    @property
    def header_bits(self) -> int:
        """Bits of the header."""
        return sum(field.bits for field in self.header)

    @cached_property
    def by_name(self) -> dict[str, InstructionKind]:
        """Kinds by mnemonic."""
        return {kind.name: kind for kind in self.instructions}

    @cached_property
    def by_opcode(self) -> dict[int, InstructionKind]:
        """Kinds by opcode."""
        return {kind.opcode: kind for kind in self.instructions}

    def layout(self, kind: InstructionKind) -> tuple[tuple[InstructionField, int], ...]:
        """Every field of an instruction with the position of its least significant bit."""
        found: list[tuple[InstructionField, int]] = []
        low = self.instruction_bits
        for field in (*self.header, *kind.fields):
            low -= field.bits
            found.append((field, low))
        return tuple(found)


@lru_cache(maxsize=1)
def tensor_pe_array_isa() -> InstructionSet:
    """The instruction set of the tensor PE array."""
    text = resources.files(__package__ or "").joinpath("tensor_pe_array.yaml").read_text(encoding="utf-8")
    return InstructionSet.model_validate(yaml.safe_load(text))
