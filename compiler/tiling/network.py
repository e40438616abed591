"""`qnn` ops that run without the host in between, as one program of `tile` kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...archdsl import InfeasibleError, PassError, PeArray
from ..ir import qnn
from ..ir.attributes import int_attr, ints_attr, names_attr, shape_of
from ..ir.store import DataStore
from ..ir.text import nodes_of
from ..ir.tile import KernelOp, ProgramOp
from .activations import Buffers, aligned, axes_of
from .band_tilings import choose_band_tiling
from .bands import chain_ops
from .bounds import bounds_of
from .chains import ChainSearch, Segment
from .kernels import KernelMaker
from .limits import no_room, require_places
from .partition import Part
from .planning import MemoryPlan
from .target import Target
from .values import Values, activations_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What can be chosen about a program.

    Attributes:
        staging_bytes: Room of the scratchpad for weights and what else is staged.
        keeps_layers: Whether every op's result is stored in main memory too.
        keeps_on_chip: Whether results may stand in the scratchpad until they are used.
        is_depth_first: Whether ops may be cut together into bands of rows.
        has_int4: Whether weights that fit 4 bits take no more.
    """

    staging_bytes: int
    keeps_layers: bool = False
    keeps_on_chip: bool = True
    is_depth_first: bool = True
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
    choices: dict[object, Any] = {}
    chains = _chains(part, store, array, options, choices) if options.is_depth_first else list[Segment]()
    while True:
        try:
            return _tiled(part, store, array, options, name, chains, choices)
        except _ChainDoesNotFit as error:
            # Places were found for ops one by one; where those of a chain leave it too little room, it is not made.
            del chains[error.chain]


class _ChainDoesNotFit(Exception):
    """A chain has too little room.

    Attributes:
        chain: Its number.
    """

    def __init__(self, chain: int) -> None:
        super().__init__(chain)
        self.chain = chain


def _placed(
    part: Part, store: DataStore, array: PeArray, options: Options, chains: Sequence[Segment], choices: dict[object, Any]
) -> tuple[KernelMaker, MemoryPlan]:  # fmt: skip
    """A maker of kernels for tensors that have their places, and the plan of these."""
    target = Target(
        array=array, buffers=Buffers(), store=store, staging=(array.scratchpad_bytes - options.staging_bytes, array.scratchpad_bytes),
        has_int4=options.has_int4, choices=choices,
    )  # fmt: skip
    values = Values(
        part=part, array=array, target=target, store=store, chains=chains, keeps_layers=options.keeps_layers
    )
    plan = values.place(options.staging_bytes, keeps_on_chip=options.keeps_on_chip)
    return KernelMaker(values=values, target=target, store=store), plan


def _chains(
    part: Part, store: DataStore, array: PeArray, options: Options, choices: dict[object, Any]
) -> list[Segment]:  # fmt: skip
    """Ops that are cut together. Those are left out for whose sake others would lose their places on chip."""
    maker, _ = _placed(part, store, array, options, [], choices)
    values = maker.values
    ops = [op for kernel in values.kernels for op in kernel]

    def staging(first: int, last: int) -> tuple[int, int]:
        overhang = max(_overhang_bytes(op, array) for op in ops[first : last + 1])
        return _staging_begin(values, first, last), array.scratchpad_bytes - overhang

    found = ChainSearch(values=values, maker=maker, staging=staging).find()
    local = {tensor.name for tensor in values.tensors if tensor.local is not None}
    while found:
        tensors = _placed(part, store, array, options, found, choices)[0].values.tensors
        lost = [tensor for tensor in tensors if tensor.name in local and tensor.local is None]
        if not lost:
            break
        touched = {op for op in ops if any(_touches(values, op, tensor.name) for tensor in lost)}
        kept = [segment for segment in found if touched.isdisjoint(ops[segment[0] : segment[1] + 1])]
        found = kept if len(kept) < len(found) else []
    return found


def _touches(values: Values, op: Operation, name: str) -> bool:
    return any(values.tensor(value).name == name for value in (*activations_of(op), op.results[0]))


def _tiled(
    part: Part, store: DataStore, array: PeArray, options: Options, name: str, chains: Sequence[Segment],
    choices: dict[object, Any],
) -> ProgramOp:  # fmt: skip
    maker, plan = _placed(part, store, array, options, chains, choices)
    values, target = maker.values, maker.target
    kernels: list[Operation] = []
    taken: dict[str, int] = {}
    num_chains = 0
    for idx, ops in enumerate(values.kernels):
        overhang = max(_overhang_bytes(op, array) for op in ops)
        target.staging = (_staging_begin(values, idx, idx), array.scratchpad_bytes - overhang)
        label = ", ".join(node for op in ops for node in nodes_of(op)) or "+".join(op.name for op in ops)
        try:
            kernel = _kernel(maker, ops, taken)
            require_places(array, kernel.body.block, target.staging_bytes)
        except InfeasibleError as error:
            if len(ops) > 1:
                raise _ChainDoesNotFit(num_chains) from error
            raise InfeasibleError(replace(error.infeasible, op=label)) from error
        except PassError as error:
            raise PassError(f"{label}: {error}") from error
        num_chains += len(ops) > 1
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


def _kernel(maker: KernelMaker, ops: Sequence[Operation], taken: dict[str, int]) -> KernelOp:
    """The kernel of an op, or of a chain of them.

    Args:
        maker: Makes it.
        ops: The ops.
        taken: How often a name has been taken; changed.

    Raises:
        InfeasibleError: It does not fit.
        PassError: An op has no kernel.
    """
    target, name = maker.target, "+".join(_name(op) for op in ops)
    if len(ops) == 1:
        made = maker.ops(ops[0])
    else:
        chain = maker.chain(ops)
        chosen = choose_band_tiling(target, chain)
        if chosen is None:
            raise no_room(target.array, (("a band of rows", target.staging_bytes + 1),), target.staging_bytes)
        made = chain_ops(target, chain, chosen[0])
        maker.fetched(ops)
    taken[name] = taken.get(name, 0) + 1
    bounds = [bounds_of(op, target.array) for op in ops]
    kinds = "+".join(op.name.removeprefix("qnn.") for op in ops)
    return KernelOp(
        name if taken[name] == 1 else f"{name}#{taken[name]}", kinds, made, nodes=[node for op in ops for node in nodes_of(op)],
        dims=_dims(ops[0]) if len(ops) == 1 else _chain_dims(ops), macs=sum(bound.macs for bound in bounds),
        bound_cycles=sum(bound.cycles(target.array) for bound in bounds),
        compulsory_bytes=sum(bound.compulsory_bytes for bound in bounds), staging=target.staging,
    )  # fmt: skip


def _name(op: Operation) -> str:
    nodes = nodes_of(op)
    return nodes[0] if nodes else op.name


def _staging_begin(values: Values, first: int, last: int) -> int:
    """First byte of the scratchpad behind all tensors that some kernels must leave alone.

    A bank gives one vector a cycle, and inputs come before weights: where a whole bank is left, weights are not staged in
    one that holds activations.
    """
    array = values.array
    ends = [
        tensor.local.address + tensor.format.num_bytes
        for tensor in values.tensors
        if tensor.local is not None and tensor.first <= last and first <= tensor.last
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


def _chain_dims(ops: Sequence[Operation]) -> Mapping[str, int]:
    """Dims of the one op of a chain that has products; of several only those of the result."""
    products = [op for op in ops if isinstance(op, qnn.Conv2dOp | qnn.MatMulOp)]
    return _dims(products[0]) if len(products) == 1 else _output_dims(ops[-1])


def _dims(op: Operation) -> Mapping[str, int]:
    if isinstance(op, qnn.MatMulOp):
        shape, weights = shape_of(op.input), shape_of(op.weights)
        return {"M": math.prod(shape[:-1]), "N": weights[-1], "K": shape[-1]}
    dims = _output_dims(op)
    if isinstance(op, qnn.Conv2dOp):
        kernel = shape_of(op.weights)
        groups = op.groups.value.data
        of_group = {"K": kernel[3] // groups, "C": kernel[2] // groups, "FY": kernel[0], "FX": kernel[1]}
        return dims | of_group | ({"G": groups} if groups > 1 else {})
    return dims


def _output_dims(op: Operation) -> dict[str, int]:
    images, height, width, channels = axes_of(shape_of(op.results[0]))
    return {"B": images, "K": channels, "OY": height, "OX": width}
