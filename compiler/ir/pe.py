"""Dialect `pe`: instructions of the tensor PE array, one op each. Level 4 of the IR.

The ops follow from the instruction set's description in `archdsl`: an operand that is 0 is left out, tokens and issue cycle
are attributes too. A `pe.program` stands where the `tile.program` stood, with the same buffers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import UNKNOWN_LOC, IntegerAttr, UnitAttr
from xdsl.ir import Attribute, Dialect, Operation
from xdsl.irdl import (
    IRDLOperation,
    attr_def,
    irdl_op_definition,
    opt_attr_def,
)
from xdsl.utils.exceptions import VerifyException

from ...archdsl import HEADER_DEPENDENCES, Instruction, InstructionKind, nearest_hint, tensor_pe_array_isa
from .attributes import Integer, Integers, int_attr, ints_attr
from .programs import AnyKernelOp, AnyProgramOp


@irdl_op_definition
class ProgramOp(AnyProgramOp):
    """A program: buffers at fixed places, then instructions. Attributes as of `AnyProgramOp`."""

    name = "pe.program"


@irdl_op_definition
class KernelOp(AnyKernelOp):
    """Computations and stores of one op of the network begin here; loads may stand earlier. Attributes as of `AnyKernelOp`, and:

    Attributes:
        predicted_cycles: From the end of the kernel before to its own end, by the models' recurrence over steps.
        loads: Its instructions of the load queue, as pairs: index of the first, and how many stand side by side.
    """

    name = "pe.kernel"
    predicted_cycles = attr_def(Integer)
    loads = attr_def(Integers)


class InstructionOp(IRDLOperation):
    """An instruction; what all of them have in common."""

    def __post_init__(self) -> None:
        """Nothing: xDSL would fill in defaults, and no instruction has any."""

    @property
    def instruction(self) -> Instruction:
        """As a value."""
        # By exact type: `isinstance` asks xDSL's abstract classes, for millions of attributes.
        operands = {key: attr.value.data for key, attr in self.attributes.items() if type(attr) is IntegerAttr}
        issue_cycle = operands.pop("issue_cycle", 0)
        bits = {key: True for key in self.attributes if key in HEADER_DEPENDENCES}
        return Instruction(
            name=self.name.removeprefix("pe.").upper(), operands=operands, issue_cycle=issue_cycle, **bits
        )

    def verify(self, verify_nested_ops: bool = True) -> None:
        """Checks all that an instruction can get wrong; xDSL's own checks, which can do no more, take ten times longer."""
        known = _LIMITS[self.name]
        for key, attr in self.attributes.items():
            limits = known.get(key)
            if limits is None:
                raise VerifyException(f"{self.name}: has no operand '{key}'{nearest_hint(key, known)}")
            value = attr.value.data if type(attr) is IntegerAttr else 1
            if not limits[0] <= value <= limits[1]:
                raise VerifyException(f"{self.name}: {key} is {value}; it must be from {limits[0]} to {limits[1]}")
        if self.operands or self.results or self.regions:
            raise VerifyException(f"{self.name}: an instruction has attributes alone")


def _instruction_op(kind: InstructionKind) -> type[InstructionOp]:
    """The op of an instruction."""
    fields: dict[str, Any] = {spec.name: opt_attr_def(Integer) for spec in kind.fields}
    fields |= {bit: opt_attr_def(UnitAttr) for bit in HEADER_DEPENDENCES}
    fields |= {"issue_cycle": opt_attr_def(Integer), "name": f"pe.{kind.name.lower()}"}
    made = type(f"{kind.name.title().replace('_', '')}Op", (InstructionOp,), {**fields, "__doc__": kind.description})
    return irdl_op_definition(made)


def _limits(kind: InstructionKind) -> dict[str, tuple[int, int]]:
    """The least and greatest value of every attribute."""
    fields = {spec.name: (spec.least, spec.most) for spec in (*tensor_pe_array_isa().header, *kind.fields)}
    del fields["opcode"]
    return fields


_LIMITS = {f"pe.{kind.name.lower()}": _limits(kind) for kind in tensor_pe_array_isa().instructions}

INSTRUCTION_OPS: Mapping[str, type[InstructionOp]] = {
    kind.name: _instruction_op(kind) for kind in tensor_pe_array_isa().instructions
}
"""The op of every instruction, by mnemonic."""


def instruction_op(instruction: Instruction) -> InstructionOp:
    """An instruction as an op."""
    attributes: dict[str, Attribute] = {key: int_attr(value) for key, value in instruction.operands.items() if value}
    for bit in HEADER_DEPENDENCES:
        if getattr(instruction, bit):
            attributes[bit] = UnitAttr()
    if instruction.issue_cycle:
        attributes["issue_cycle"] = int_attr(instruction.issue_cycle)
    return INSTRUCTION_OPS[instruction.name].create(attributes=attributes, location=UNKNOWN_LOC)


def instructions_in(program: ProgramOp) -> Iterator[Instruction]:
    """The instructions of a program."""
    for op in program.body.block.ops:
        if isinstance(op, InstructionOp):
            yield op.instruction


def kernel_op(source: Operation, predicted_cycles: int, loads: Sequence[int]) -> KernelOp:
    """The mark of a `tile.kernel`.

    Args:
        source: The kernel.
        predicted_cycles: Its cycles by a model.
        loads: Indices of its instructions of the load queue, in order.
    """
    names = ("kernel_name", "kind", "nodes", "dims", "sizes", "macs", "bound_cycles", "compulsory_bytes", "staging")
    attributes = {name: source.attributes[name] for name in names}
    made = {"predicted_cycles": int_attr(predicted_cycles), "loads": ints_attr(_pairs(loads))}
    return KernelOp.create(attributes={**attributes, **made})


def _pairs(indices: Sequence[int]) -> list[int]:
    """First index and number of each run of neighbours."""
    pairs: list[int] = []
    for idx in indices:
        if pairs and idx == pairs[-2] + pairs[-1]:
            pairs[-1] += 1
        else:
            pairs += [idx, 1]
    return pairs


Pe = Dialect("pe", [ProgramOp, KernelOp, *INSTRUCTION_OPS.values()], [])
