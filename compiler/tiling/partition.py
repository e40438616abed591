"""Which ops run on the accelerator without the host in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from ..ir.data import ConstantOp
from .borders import MOVES


@dataclass(slots=True)
class Part:
    """Ops of one program.

    Attributes:
        ops: In their order.
        inputs: Values from outside that they read, but for constants.
        outputs: Values of theirs that are read outside.
    """

    ops: list[Operation] = field(default_factory=list[Operation])
    inputs: list[SSAValue] = field(default_factory=list[SSAValue])
    outputs: list[SSAValue] = field(default_factory=list[SSAValue])


def is_on_array(op: Operation) -> bool:
    """Whether an op may run on the PE array."""
    return op.name.startswith("qnn.")


def parts_of(module: ModuleOp) -> list[Part]:
    """The programs of a module, in an order in which they can run.

    Args:
        module: Changed where what it is given is returned under another shape: that the host does.
    """
    left = _views_of_inputs(module)
    stage: dict[Operation, int] = {}  # programs that must have ended before an op can run
    parts: list[Part] = []
    for op in module.body.block.ops:
        before = [operand.owner for operand in op.operands if isinstance(operand.owner, Operation)]
        is_device = is_on_array(op) and op not in left
        stage[op] = max((stage[o] + (is_on_array(o) and o not in left and not is_device) for o in before), default=0)
        if is_device:
            parts += [Part() for _ in range(stage[op] + 1 - len(parts))]
            parts[stage[op]].ops.append(op)
    parts = [part for part in parts if part.ops]
    for part in parts:
        _find_ends(part)
    return parts


def _views_of_inputs(module: ModuleOp) -> set[Operation]:
    """Reshapes and transposes of what no program has touched, copied for those who read them outside of programs."""
    copies: dict[Operation, Operation] = {}
    given: set[SSAValue] = set()
    for op in list(module.body.block.ops):
        if not is_on_array(op):
            given.update(op.results)
        elif isinstance(op, MOVES) and op.operands[0] in given:
            given.add(op.results[0])
            outside = [use for use in op.results[0].uses if not is_on_array(use.operation)]
            for use in outside:
                use.operation.operands[use.index] = _copied(op, copies).results[0]
    return set(copies.values())


def _copied(op: Operation, copies: dict[Operation, Operation]) -> Operation:
    """A copy of a view and of the views that it is of, each once."""
    if op not in copies:
        copy = copies[op] = op.clone()
        source = op.operands[0].owner
        if isinstance(source, MOVES):
            copy.operands[0] = _copied(source, copies).results[0]
        block = op.parent_block()
        assert block is not None
        block.insert_op_after(copy, op)
    return copies[op]


def _find_ends(part: Part) -> None:
    inside = set(part.ops)
    for op in part.ops:
        for operand in op.operands:
            is_outside = operand.owner not in inside and not isinstance(operand.owner, ConstantOp)
            if is_outside and operand not in part.inputs:
                part.inputs.append(operand)
    for op in part.ops:
        for result in op.results:
            if any(use.operation not in inside for use in result.uses):
                part.outputs.append(result)


def with_programs(module: ModuleOp, programs: Sequence[tuple[Part, Operation]]) -> None:
    """Puts programs in the place of the ops that they compute.

    Args:
        module: Changed.
        programs: Each part and its program, whose results stand for the part's outputs.
    """
    block = module.body.block
    for part, program in programs:
        block.insert_op_before(program, part.ops[-1])
        for value, result in zip(part.outputs, program.results, strict=True):
            for use in list(value.uses):
                if use.operation not in part.ops:
                    use.operation.operands[use.index] = result
        for op in reversed(part.ops):
            block.erase_op(op)
    for op in list(block.ops):
        if isinstance(op, ConstantOp) and not list(op.result.uses):
            block.erase_op(op)
    _sort(block)


def _sort(block: Block) -> None:
    """Puts ops behind what they read, and else leaves them in their order."""
    order: dict[Operation, None] = {}

    def visit(op: Operation) -> None:
        if op not in order:
            for operand in op.operands:
                if isinstance(operand.owner, Operation):
                    visit(operand.owner)
            order[op] = None

    for op in block.ops:
        visit(op)
    for op in order:
        op.detach()
    block.add_ops(order)
