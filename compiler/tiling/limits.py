"""What does not fit, as errors that say which memory, by how much, and what would fit."""

from __future__ import annotations

from collections.abc import Sequence

from ...archdsl import Infeasible, InfeasibleError, PeArray

LARGEST_BYTES = 1 << 20
"""Of a scratchpad."""


def no_room(array: PeArray, terms: Sequence[tuple[str, int]], free_bytes: int) -> InfeasibleError:
    """The scratchpad is too small for what must stand there at once.

    Args:
        array: The PE array.
        terms: What it is, and bytes of each.
        free_bytes: Bytes that are free for it.
    """
    demand = sum(num for _, num in terms)
    fits = array.scratchpad_bytes
    while fits - (array.scratchpad_bytes - free_bytes) < demand:
        fits *= 2
    lever = f"a scratchpad of {fits // 1024} KiB; {demand - free_bytes:,} bytes are missing"
    if fits > LARGEST_BYTES:
        lever = f"a smaller layer: {demand - free_bytes:,} bytes are missing, and a scratchpad has up to 1 MiB"
    return InfeasibleError(
        Infeasible(
            resource="scratchpad capacity", demand=demand, limit=free_bytes, unit="bytes",
            terms=tuple(terms) if len(terms) > 1 else (), levers=(lever,),
        )
    )  # fmt: skip


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
