"""A `pe` program as a program image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import SSAValue

from ...archdsl import (
    Instruction,
    LoadRange,
    OpRecord,
    PeArray,
    Placement,
    ProgramImage,
    Region,
    Scaling,
    ScratchpadMap,
    SpatialArch,
    Symbol,
    SymbolRole,
    ceil_div,
    make_image,
    pe_array,
)
from ..ir import pe, tile
from ..ir.attributes import Float, Integers, shape_of
from ..ir.store import DataStore


def program_image(program: pe.ProgramOp, arch: SpatialArch, store: DataStore) -> ProgramImage:
    """The image of a program.

    Args:
        program: The program.
        arch: The architecture that it is for.
        store: Arrays of its constants.
    """
    array = pe_array(arch)
    buffers = [op for op in program.body.block.ops if isinstance(op, tile.BufferOp)]
    in_memory = [op for op in buffers if tile.space_of(op.result) == tile.MAIN]
    size = max((_end(op) for op in in_memory), default=0)
    memory = np.zeros(max(1, ceil_div(size, array.bus_bytes)) * array.bus_bytes, dtype=np.uint8)
    for op in in_memory:
        if op.sha256 is not None:
            content = store[op.sha256.data]
            memory[_address(op) : _address(op) + content.size] = content
    symbols = [*_ends(program, in_memory), *_constants(in_memory)]
    regions = [
        Region(name=op.buffer_name.data, address=_address(op), size_bytes=_end(op) - _address(op)) for op in in_memory
    ]
    instructions, records = _records(program)
    scratchpad = _scratchpad(program, array)
    return make_image(
        arch, instructions, memory.tobytes(), symbols, regions=regions, ops=records, scratchpad=scratchpad
    )


def _address(op: tile.BufferOp) -> int:
    return int(op.address.value.data)


def _end(op: tile.BufferOp) -> int:
    return _address(op) + tile.size_of(op.result)[0] * tile.pitch_of(op.result)


def _scratchpad(program: pe.ProgramOp, array: PeArray) -> ScratchpadMap:
    """What stands in the scratchpad beyond one kernel."""
    placements: list[Placement] = []
    for name, place in zip(program.local_names or (), program.local_places or (), strict=True):
        address, size_bytes, first, last = (int(value) for value in place.get_values())
        placements.append(
            Placement(name=name.data, address=address, size_bytes=size_bytes, first_op=first, last_op=last)
        )
    return ScratchpadMap(
        size_bytes=array.scratchpad_bytes, live_bytes=int(program.live_bytes.value.data), placements=tuple(placements)
    )


def _scalings(scales: ArrayAttr[Float] | None, zeros: Integers | None, num: int) -> list[Scaling | None]:
    """What integers of some tensors stand for; None where that is not known."""
    if scales is None or zeros is None:
        return [None] * num
    pairs = zip(scales, zeros.get_values(), strict=True)
    known = [(float(scale.value.data), int(zero)) for scale, zero in pairs]
    return [Scaling(scale=scale, zero_point=zero) if scale > 0 else None for scale, zero in known]


def _ends(program: pe.ProgramOp, buffers: Sequence[tile.BufferOp]) -> Iterator[Symbol]:
    """Symbols of inputs and outputs, with the shapes that the network gives them."""
    by_name = {op.buffer_name.data: op for op in buffers}
    inputs = _scalings(program.input_scales, program.input_zero_points, len(program.inputs))
    outputs = _scalings(program.output_scales, program.output_zero_points, len(program.outputs))
    ends: tuple[
        tuple[SymbolRole, ArrayAttr[StringAttr], ArrayAttr[Integers], Sequence[SSAValue], list[Scaling | None]], ...
    ] = (
        ("input", program.input_names, program.input_strides, program.inputs, inputs),
        ("output", program.output_names, program.output_strides, program.outputs, outputs),
    )
    for role, names, strides, values, scalings in ends:
        for name, steps, value, scaling in zip(names, strides, values, scalings, strict=True):
            yield Symbol(
                name=name.data, role=role, address=_address(by_name[name.data]), shape=shape_of(value) or (1,),
                strides_bytes=tuple(int(step) for step in steps.get_values()) or (1,), element_bits=8,
                scaling=scaling,
            )  # fmt: skip


def _constants(buffers: Sequence[tile.BufferOp]) -> Iterator[Symbol]:
    for op in buffers:
        if op.role.data in ("weight", "parameter"):
            yield Symbol(
                name=op.buffer_name.data, role=cast(SymbolRole, op.role.data), address=_address(op),
                shape=(_end(op) - _address(op),), strides_bytes=(1,), element_bits=8, signed=op.role.data == "weight",
            )  # fmt: skip


def _records(program: pe.ProgramOp) -> tuple[tuple[Instruction, ...], list[OpRecord]]:
    """The instructions, and per kernel those between its mark and the next one."""
    instructions: list[Instruction] = []
    marks: list[tuple[pe.KernelOp, int]] = []
    for op in program.body.block.ops:
        if isinstance(op, pe.InstructionOp):
            instructions.append(op.instruction)
        elif isinstance(op, pe.KernelOp):
            marks.append((op, len(instructions)))
    ends = [at for _, at in marks[1:]] + [len(instructions) - 1]
    records = [
        OpRecord(
            name=mark.kernel_name.data, kind=mark.kind.data,
            dims={dim.data: int(size.value.data) for dim, size in zip(mark.dims, mark.sizes, strict=True)},
            nodes=tuple(node.data for node in mark.nodes), bound_cycles=float(mark.bound_cycles.value.data),
            compulsory_bytes=int(mark.compulsory_bytes.value.data), first_instruction=at, num_instructions=max(1, end - at), macs=int(mark.macs.value.data),
            predicted_cycles=int(mark.predicted_cycles.value.data), loads=_loads(mark), staging=_staging(mark),
        )
        for (mark, at), end in zip(marks, ends, strict=True)
    ]  # fmt: skip
    return tuple(instructions), records


def _loads(mark: pe.KernelOp) -> tuple[LoadRange, ...]:
    values = [int(value) for value in mark.loads.get_values()]
    return tuple(LoadRange(first=first, num=num) for first, num in zip(values[::2], values[1::2], strict=True))


def _staging(mark: pe.KernelOp) -> tuple[int, int]:
    begin, end = (int(value) for value in mark.staging.get_values())
    return begin, end
