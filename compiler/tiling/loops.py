"""Short ways to write nests of `tile.for`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Operation

from ...archdsl import ceil_div
from ..ir.tile import ForOp, Linear


def loop(count: int, body: Callable[[Linear], Sequence[Operation]]) -> list[Operation]:
    """Runs a body for 0, 1, ... `count` - 1; without a loop where once is enough."""
    if count < 1:
        return []
    if count == 1:
        return list(body(Linear()))
    made = ForOp(count)
    made.body.block.add_ops(body(Linear(0, {made.index: 1})))
    return [made]


def split(total: int, size: int, body: Callable[[Linear, int], Sequence[Operation]]) -> list[Operation]:
    """Cuts a range into parts of a size and a shorter last one, and runs a body with each part's index and size."""
    whole, rest = divmod(total, size)
    found = loop(whole, lambda idx: body(idx, size))
    if rest:
        found += body(Linear(whole), rest)
    return found


def equal_parts(total: int, most: int) -> int:
    """The size of parts that are as equal as can be, of at most so much."""
    return ceil_div(total, ceil_div(total, most))
