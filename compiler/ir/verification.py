"""Verification of whole modules, with errors that name the op, its ONNX nodes and the cause."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ...archdsl import PassError
from .text import nodes_of


def verify_module(module: ModuleOp, where: str) -> None:
    """Checks every op of a module, and that values are made before they are used.

    Args:
        module: What to check; regions have one block each.
        where: What made it, for the message: `pass fold-constants`, or a file.

    Raises:
        PassError: An op is not as its dialect asks.
    """
    fault = next(_unmade_operands(module), None)  # xDSL does not look at the order of ops
    if fault is None:
        try:
            module.verify()
        except VerifyException as error:
            fault = next(_faults_of_ops(module), (module, str(error)))
    if fault is None:
        return
    op, cause = fault
    raise PassError(f"{where}: {op.name}{_stands_for(op)}: {cause.strip().removeprefix(f'{op.name}: ')}")


def ops_in(op: Operation) -> Iterator[Operation]:
    """All ops inside of one; xDSL's `walk` asks every op for its own walk, and most have nothing in them."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                yield inner
                if inner.regions:
                    yield from ops_in(inner)


def _stands_for(op: Operation) -> str:
    nodes = nodes_of(op)
    if not nodes:
        return ""
    return f" for ONNX node{'s' if len(nodes) > 1 else ''} {', '.join(map(repr, nodes))}"


def _unmade_operands(module: ModuleOp) -> Iterator[tuple[Operation, str]]:
    made: set[SSAValue] = set()
    for op in ops_in(module):
        for position, operand in enumerate(op.operands):
            if operand not in made and isinstance(operand.owner, Operation):
                yield op, f"operand {position} is used before {operand.owner.name} makes it, or is not in the module"
        made.update(op.results)


def _faults_of_ops(module: ModuleOp) -> Iterator[tuple[Operation, str]]:
    for op in module.walk():
        try:
            op.verify(verify_nested_ops=False)
        except VerifyException as error:
            yield op, str(error)
