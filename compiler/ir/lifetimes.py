"""How long places of the `tile` level live: from their op to their last use in its block."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Operation, SSAValue

from .tile import ParametersOp, PlaceOp, SumsOp, TableOp, ViewOp


def deaths_in(block: Block) -> dict[Operation, list[SSAValue]]:
    """By op of a block the block's places that no op behind it uses, itself or through a view."""
    positions = {op: idx for idx, op in enumerate(block.ops)}
    found: dict[Operation, list[SSAValue]] = {}
    for op in positions:
        if isinstance(op, PlaceOp | SumsOp | ParametersOp | TableOp):
            users = (_ancestor(user, block) for user in _users(op.result))
            found.setdefault(max(users, key=positions.__getitem__, default=op), []).append(op.result)
    return found


def _users(value: SSAValue) -> Iterator[Operation]:
    """The ops that use a value or a view of it."""
    for use in value.uses:
        yield use.operation
        if isinstance(use.operation, ViewOp):
            yield from _users(use.operation.result)


def _ancestor(op: Operation, block: Block) -> Operation:
    """The op of a block in which an op stands."""
    while op.parent_block() is not block:
        parent = op.parent_op()
        assert parent is not None
        op = parent
    return op
