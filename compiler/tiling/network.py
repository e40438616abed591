"""`qnn` ops that run without the host in between, as one program of `tile` kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...archdsl import InfeasibleError, PassError, PeArray
from ..ir import qnn
from ..ir.attributes import int_attr, ints_attr, names_attr, shape_of
from ..ir.store import DataStore
from ..ir.text import nodes_of
from ..ir.tile import KernelOp, ProgramOp
from .activations import Buffers, aligned, axes_of
from .bounds import bounds_of
from .kernels import KernelMaker
from .limits import require_places
from .partition import Part
from .target import Target
from .values import Values, activations_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What can be chosen about a program.

    Attributes:
        staging_bytes: Room of the scratchpad for weights and what else is staged.
        keeps_layers: Whether every op's result is stored in main memory too.
        keeps_on_chip: Whether results may stand in the scratchpad until they are used.
        has_int4: Whether weights that fit 4 bits take no more.
    """

    staging_bytes: int
    keeps_layers: bool = False
    keeps_on_chip: bool = True
    has_int4: bool = False


def tile_program(part: Part, store: DataStore, array: PeArray, options: Options, name: str) -> ProgramOp:
    """Lowers one program.

    Args:
        part: Its ops, and what goes in and out.
        store: Arrays of constants; what kernels need of them is added.
        array: The PE array.
        options: Choices.
        name: Of the program.

    Returns:
        The program, with the part's inputs as operands.

    Raises:
        InfeasibleError: An op does not fit the array's memories; with its nodes.
        PassError: An op has no kernel; with its nodes.
    """
    target = Target(
        array=array, buffers=Buffers(), store=store, staging=(array.scratchpad_bytes - options.staging_bytes, array.scratchpad_bytes),
        has_int4=options.has_int4,
    )  # fmt: skip
    values = Values(part=part, array=array, target=target, store=store)
    plan = values.place(options.staging_bytes, keeps_layers=options.keeps_layers, keeps_on_chip=options.keeps_on_chip)
    maker = KernelMaker(values=values, target=target, store=store)
    kernels: list[Operation] = []
    taken: dict[str, int] = {}
    for idx, op in enumerate(values.kernels):
        target.staging = (_staging_begin(values, idx), array.scratchpad_bytes - _overhang_bytes(op, array))
        nodes, bounds = nodes_of(op), bounds_of(op, array)
        name_ = nodes[0] if nodes else op.name
        taken[name_] = taken.get(name_, 0) + 1
        try:
            kernel = KernelOp(
                name_ if taken[name_] == 1 else f"{name_}#{taken[name_]}", op.name.removeprefix("qnn."), maker.ops(op),
                nodes=nodes, dims=_dims(op), macs=bounds.macs, bound_cycles=bounds.cycles(array),
                compulsory_bytes=bounds.compulsory_bytes, staging=target.staging,
            )  # fmt: skip
            require_places(array, kernel.body.block, target.staging_bytes)
        except InfeasibleError as error:
            raise InfeasibleError(replace(error.infeasible, op=", ".join(nodes) or op.name)) from error
        except PassError as error:
            raise PassError(f"{', '.join(nodes) or op.name}: {error}") from error
        kernels.append(kernel)
    attributes: dict[str, Attribute] = {
        "program_name": StringAttr(name),
        "live_bytes": int_attr(plan.live_bytes),
        **_local_places(values),
    }
    known: set[str] = set()
    for what, ends in (("input", part.inputs), ("output", part.outputs)):
        attributes[f"{what}_names"] = names_attr(_end_name(values, target, value, known) for value in ends)
        attributes[f"{what}_strides"] = ArrayAttr([ints_attr(values.strides(value)) for value in ends])
    return ProgramOp(
        operands=[list(part.inputs)], attributes=attributes, result_types=[[value.type for value in part.outputs]],
        regions=[Region(Block([*target.buffers.ops, *kernels]))],
    )  # fmt: skip


def _staging_begin(values: Values, idx: int) -> int:
    """First byte of the scratchpad behind all tensors that a kernel must leave alone.

    A bank gives one vector a cycle, and inputs come before weights: where a whole bank is left, weights are not staged in
    one that holds activations.
    """
    array = values.array
    ends = [
        tensor.local.address + tensor.format.num_bytes
        for tensor in values.tensors
        if tensor.local is not None and tensor.first <= idx <= tensor.last
    ]
    end = aligned(max(ends, default=0), array.word_bytes)
    bank_bytes = array.scratchpad_bytes // array.scratchpad_banks
    next_bank = aligned(end, bank_bytes)
    return next_bank if next_bank + bank_bytes <= array.scratchpad_bytes else end


def _local_places(values: Values) -> dict[str, Attribute]:
    """What stands in the scratchpad, where, and for how long."""
    found = [(tensor, tensor.local) for tensor in values.tensors if tensor.local is not None]
    found.sort(key=lambda item: (item[0].first, item[1].address))
    places = [
        (local.address, aligned(tensor.format.num_bytes, values.unit), tensor.first, tensor.last)
        for tensor, local in found
    ]
    return {
        "local_names": names_attr(tensor.name for tensor, _ in found),
        "local_places": ArrayAttr([ints_attr(place) for place in places]),
    }


def _end_name(values: Values, target: Target, value: SSAValue, known: set[str]) -> str:
    """The name of an input or output: its buffer's, or that of another buffer for the same bytes where that has a name already.

    A network may return what it is given, or the same elements twice in other shapes.
    """
    tensor = values.tensor(value)
    name = tensor.name
    if name in known:
        assert tensor.memory is not None
        name = target.buffers.again(tensor.memory)
    known.add(name)
    return name


def _overhang_bytes(op: Operation, array: PeArray) -> int:
    """What must be left behind data that are read a whole vector at a time: second factors of computed products."""
    is_computed = isinstance(op, qnn.MultiplyOp) or (isinstance(op, qnn.MatMulOp) and len(activations_of(op)) > 1)
    return array.vector_bytes if is_computed else 0


def _dims(op: Operation) -> Mapping[str, int]:
    if isinstance(op, qnn.MatMulOp):
        shape, weights = shape_of(op.input), shape_of(op.weights)
        return {"M": math.prod(shape[:-1]), "N": weights[-1], "K": shape[-1]}
    images, height, width, channels = axes_of(shape_of(op.results[0]))
    dims = {"B": images, "K": channels, "OY": height, "OX": width}
    if isinstance(op, qnn.Conv2dOp):
        kernel = shape_of(op.weights)
        groups = op.groups.value.data
        of_group = {"K": kernel[3] // groups, "C": kernel[2] // groups, "FY": kernel[0], "FX": kernel[1]}
        return dims | of_group | ({"G": groups} if groups > 1 else {})
    return dims
