"""What an architecture says about the tensor PE array: the sizes from which RTL, simulators and checker are made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ..errors import ArchError
from ..nodes import Memory
from ..spatial import SpatialArch
from ..workload import TensorRole, ceil_div
from .formats import FLAG_BITS, FP8_FORMATS, INT8, NumberFormat

Rounding = Literal["half_to_even", "half_away"]
OUT_DEPTH = 8
"""Vectors that post-processing may have under way: more than its pipeline is long, so that it never waits."""
TOKEN_BITS = 8
"""Width of the counters of tokens."""
INDEX_BITS = 20
"""Width of the program counter."""
TABLE_BYTES = 256
"""Elements of a table: one for every byte."""
PARAMETER_BYTES = 9
"""Channel parameters of one column: bias (4), multiplier (4), shift (1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeArray:
    """Parameters of one tensor PE array.

    Attributes:
        rows, cols: PEs down (reduction) and across (output channels).
        format: How the 8 bits of an element inside the array are read.
        accumulator_bits: Width of the number in a partial sum.
        scratchpad_bytes: Size of the scratchpad; `scratchpad_banks` parts of equal size.
        is_single_port: Whether a bank reads or writes in a cycle; else it does both.
        word_bytes: Bytes of a scratchpad word.
        accumulator_vectors: Vectors of `cols` partial sums; `accumulator_banks` parts of equal size.
        post_lanes: Columns that post-processing takes per cycle.
        bus_bytes: Bytes of one beat of main memory.
        queue_depth: Instructions that wait per queue.
        loads_in_flight: Loads whose data may be outstanding.
        requests_in_flight: Rows that main memory may be asked for ahead.
        parameter_slots: Sets of channel parameters.
        table_slots: Tables of 256 elements.
        rounding: How ties of requantisation are rounded.
        latency_cycles: Cycles from a request to main memory to its first beat.
        cycles_per_beat: Cycles from one beat to the next.
    """

    rows: int
    cols: int
    element_bits: int = 8
    format: NumberFormat = INT8
    accumulator_bits: int = 32
    scratchpad_bytes: int
    scratchpad_banks: int
    is_single_port: bool
    word_bytes: int
    accumulator_vectors: int
    accumulator_banks: int
    post_lanes: int
    bus_bytes: int
    queue_depth: int
    loads_in_flight: int
    requests_in_flight: int
    parameter_slots: int
    table_slots: int
    rounding: Rounding
    latency_cycles: int
    cycles_per_beat: int

    @property
    def sum_bits(self) -> int:
        """Bits of a partial sum: its number, and what says that it is none."""
        return self.accumulator_bits + (FLAG_BITS if self.format.is_float else 0)

    @property
    def bank_words(self) -> int:
        """Words of a scratchpad bank."""
        return self.scratchpad_bytes // self.scratchpad_banks // self.word_bytes

    @property
    def slot_beats(self) -> int:
        """Beats of one set of channel parameters."""
        return -(-PARAMETER_BYTES * self.cols // self.bus_bytes)

    @property
    def table_beats(self) -> int:
        """Beats of a table."""
        return TABLE_BYTES // self.bus_bytes

    @property
    def vector_bytes(self) -> int:
        """What vectors of 8-bit elements begin at multiples of, so that each lies within a word of the scratchpad."""
        return 1 << (self.cols - 1).bit_length()

    @property
    def word_lanes(self) -> int:
        """Elements of 32 bits that a vector may have."""
        return max(self.rows, self.cols) // 4

    @property
    def exact_terms(self) -> int:
        """Products of two elements whose sum an accumulator certainly holds."""
        return ((1 << (self.accumulator_bits - 1)) - 1) >> self.format.product_bits

    @property
    def num_passes(self) -> int:
        """Cycles that post-processing takes per vector."""
        return self.cols // self.post_lanes


def pe_array(arch: SpatialArch) -> PeArray:
    """The tensor PE array that an architecture describes.

    Raises:
        ArchError: It describes none, or one that the RTL cannot be built for; with every cause.
    """
    control = arch.control
    if control is None:
        raise ArchError(f"{arch.name} is no tensor PE array: it has no `control`; start from the preset tpe_16x16")
    faults: list[str] = []
    memories = {
        role: [m for m in arch.memories[1:] if m.memory_class == "scratchpad" and role in m.keeps]
        for role in TensorRole
    }
    pads, accumulators = memories[TensorRole.WEIGHT], memories[TensorRole.OUTPUT]
    axes = [axis for fanout in arch.fanouts for axis in fanout.axes]
    if len(pads) != 1 or TensorRole.INPUT not in pads[0].keeps:
        faults.append("one scratchpad must keep inputs and weights")
    if len(accumulators) != 1 or accumulators == pads:
        faults.append("one other scratchpad must keep outputs")
    if [axis.name for axis in axes] != ["rows", "cols"]:
        faults.append(f"the fan-out's axes must be rows and cols, not {', '.join(axis.name for axis in axes)}")
    if arch.compute.stationary != "weight" or arch.compute.preload != "shadowed":
        faults.append(
            "the compute unit must hold weights (stationary: weight) with shadow registers (preload: shadowed)"
        )
    if faults:
        raise ArchError(f"{arch.name} is no tensor PE array: {'; '.join(faults)}")
    main, pad, accumulator = arch.memories[0], pads[0], accumulators[0]
    rows, cols = (axis.size for axis in axes)
    word_bytes = 1 << max(1, math.ceil(math.log2(max(rows, cols))))
    bus_bytes = main.min_transfer_bytes
    rate = arch.read_bytes_per_cycle(main)
    number_format, accumulator_bits = _numbers(arch, faults)
    sum_bytes = ceil_div(accumulator_bits + (FLAG_BITS if number_format.is_float else 0), 8)
    made = PeArray(
        rows=rows,
        cols=cols,
        format=number_format,
        accumulator_bits=accumulator_bits,
        scratchpad_bytes=_capacity(pad, faults),
        scratchpad_banks=pad.banks,
        is_single_port=pad.ports.read == 0,
        word_bytes=word_bytes,
        accumulator_vectors=_capacity(accumulator, faults) // (sum_bytes * cols),
        accumulator_banks=accumulator.banks,
        post_lanes=arch.compute.vector_lanes or cols,
        bus_bytes=bus_bytes,
        queue_depth=control.queue_depth,
        loads_in_flight=control.loads_in_flight,
        requests_in_flight=control.requests_in_flight,
        parameter_slots=control.parameter_slots,
        table_slots=control.table_slots,
        rounding=control.rounding,
        latency_cycles=math.ceil(main.latency_cycles),
        cycles_per_beat=max(1, math.ceil(bus_bytes / rate)),
    )
    faults += _size_faults(made)
    if faults:
        raise ArchError(f"{arch.name}: no RTL can be built: {'; '.join(faults)}")
    return made


def _numbers(arch: SpatialArch, faults: list[str]) -> tuple[NumberFormat, int]:
    """The format of elements and the width of sums."""
    kinds = arch.compute.datatypes
    names = [name for name in kinds if name not in ("int4", "int8")]
    if "int8" in kinds and not names:
        return INT8, kinds["int8"].accumulator_bits or 32
    if list(kinds) == ["fp8"] and arch.control is not None:
        kind, found = kinds["fp8"], FP8_FORMATS[arch.control.fp8_format]
        if not kind.fixed_point_sum or kind.accumulator_bits is None:
            faults.append("fp8 must have fixed_point_sum: true and accumulator_bits: its sums are exact")
        return found, kind.accumulator_bits or found.product_bits + 1
    faults.append(f"the compute unit's datatypes must be int8, int8 with int4, or fp8 alone, not {', '.join(kinds)}")
    return INT8, 32


def _capacity(memory: Memory, faults: list[str]) -> int:
    if memory.capacity_bytes is None:
        faults.append(f"{memory.name} must have a capacity")
        return 0
    return int(memory.capacity_bytes)


def _size_faults(array: PeArray) -> list[str]:
    """What the RTL cannot be built for."""
    least, most = array.format.product_bits + 2, 128 if array.format.is_float else 32
    checks = {
        f"accumulator_bits ({array.accumulator_bits}) must be from {least} to {most} for {array.format.name}": least <= array.accumulator_bits <= most,
        f"rows ({array.rows}) and cols ({array.cols}) must be from 2 to 128": min(array.rows, array.cols) >= 2 and max(array.rows, array.cols) <= 128,
        f"the bus ({array.bus_bytes} B) must be a power of two": array.bus_bytes & (array.bus_bytes - 1) == 0,
        f"the bus ({array.bus_bytes} B) must not be wider than a scratchpad word ({array.word_bytes} B)": array.bus_bytes <= array.word_bytes,
        f"cols ({array.cols}) must divide the bus ({array.bus_bytes} B) or be a multiple of it": array.cols % array.bus_bytes == 0 or array.bus_bytes % array.cols == 0,
        f"a bank of the scratchpad ({array.scratchpad_bytes} B in {array.scratchpad_banks}) must have a power of two of words of {array.word_bytes} B, at least 2": (
            array.bank_words >= 2
            and array.bank_words & (array.bank_words - 1) == 0
            and array.bank_words * array.word_bytes * array.scratchpad_banks == array.scratchpad_bytes
        ),
        f"the accumulators ({array.accumulator_vectors} vectors) must split evenly over {array.accumulator_banks} banks": (
            array.accumulator_vectors > 0 and array.accumulator_vectors % array.accumulator_banks == 0
        ),
        f"post-processing lanes ({array.post_lanes}) must divide cols ({array.cols})": array.cols % array.post_lanes == 0,
        "scratchpad and accumulators must be within 1 MiB and 65536 vectors": (
            array.scratchpad_bytes <= 1 << 20 and array.accumulator_vectors <= 1 << 16
        ),
    }  # fmt: skip
    return [message for message, holds in checks.items() if not holds]
