"""What does not fit, as errors that say which memory, by how much, and what would fit."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation

from ...archdsl import Infeasible, InfeasibleError, PeArray
from ..ir.lifetimes import deaths_in
from ..ir.tile import ForOp, PlaceOp, pitch_of, size_of
from .activations import aligned

LARGEST_BYTES = 1 << 20
"""Of a scratchpad."""


def no_room(array: PeArray, terms: Sequence[tuple[str, int]], free_bytes: int) -> InfeasibleError:
    """The scratchpad is too small for what must stand there at once.

    Args:
        array: The PE array.
        terms: What it is, and bytes of each.
        free_bytes: Bytes that are free for it.
    """
    terms = tuple(term for term in terms if term[1])
    demand = sum(num for _, num in terms)
    fits = array.scratchpad_bytes
    while fits - (array.scratchpad_bytes - free_bytes) < demand:
        fits *= 2
    lever = f"a scratchpad of {fits // 1024} KiB" if fits >= 1024 else f"a scratchpad of {fits} B"
    lever += f"; {demand - free_bytes:,} bytes are missing"
    if fits > LARGEST_BYTES:
        lever = f"a smaller layer: {demand - free_bytes:,} bytes are missing, and a scratchpad has up to 1 MiB"
    return InfeasibleError(
        Infeasible(
            resource="scratchpad capacity", demand=demand, limit=free_bytes, unit="bytes",
            terms=terms if len(terms) > 1 else (), levers=(lever,),
        )
    )  # fmt: skip


def require_places(array: PeArray, block: Block, free_bytes: int) -> None:
    """Stops where more places live at the same time than there is room for.

    Raises:
        InfeasibleError: With the bytes that are needed at once.
    """
    demand = _most_live(block, max(array.bus_bytes, array.vector_bytes))
    if demand > free_bytes:
        raise no_room(array, (("what is staged at once", demand),), free_bytes)


def _most_live(block: Block, granule: int) -> int:
    deaths = deaths_in(block)
    live = most = 0
    for op in block.ops:
        live += _place_bytes(op, granule)
        nested = _most_live(op.body.block, granule) if isinstance(op, ForOp) else 0
        most = max(most, live + nested)
        live -= sum(_place_bytes(value.owner, granule) for value in deaths.get(op, ()))
    return most


def _place_bytes(op: Operation | Block, granule: int) -> int:
    """Bytes of the place that an op makes."""
    if not isinstance(op, PlaceOp):
        return 0
    return aligned(size_of(op.result)[0] * pitch_of(op.result), granule)


def require_sums(array: PeArray, most: int) -> None:
    """Stops where a sum might not fit an accumulator.

    Args:
        array: The PE array.
        most: The greatest magnitude that a sum may have.

    Raises:
        InfeasibleError: It has more bits than an accumulator.
    """
    bits = most.bit_length() + 1
    if bits > array.accumulator_bits:
        lever = "a narrower sum: accumulators have up to 32 bits" if bits > 32 else f"accumulator_bits: {bits}"
        raise InfeasibleError(
            Infeasible(
                resource="accumulator width", demand=bits, limit=array.accumulator_bits, unit="bits", levers=(lever,)
            )
        )
