"""The tensors of a program: how they stand in memory, where, and for how long."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...archdsl import PassError, PeArray
from ..ir import qnn
from ..ir.attributes import shape_of
from ..ir.data import ConstantOp, InputOp
from ..ir.store import DataStore
from ..ir.text import nodes_of
from ..ir.tile import MAIN, SCRATCHPAD
from .activations import Activation, Format, aligned, axes_of, given_format, stored_format
from .borders import MOVES, moves_before, moves_behind, strides_before, strides_behind
from .movement import strides_of
from .partition import Part
from .planning import Lifetime, MemoryPlan, plan_memory
from .target import Target


@dataclass(slots=True)
class Tensor:
    """A tensor that kernels read or write.

    Attributes:
        name: Unique.
        format: How it stands in memory.
        first, last: First and last kernel that touches it.
        reads: How many ops read it, but for those of the kernel that makes it.
        is_between: Whether it stands nowhere as a whole: it goes from one op of a kernel to another.
        is_input, is_output: Whether the program is given it, or returns it.
        memory, local: Where it stands in main memory and in the scratchpad.
        fetched_rows: Rows that were loaded from one to the other.
    """

    name: str
    format: Format
    first: int
    last: int
    reads: int = 0
    is_input: bool = False
    is_output: bool = False
    is_between: bool = False
    memory: Activation | None = None
    local: Activation | None = None
    fetched_rows: int = 0


@dataclass(slots=True, kw_only=True)
class Values:
    """The tensors of a program.

    Args:
        part: Its ops, inputs and outputs.
        array: The PE array.
        target: What is made.
        store: Arrays of constants.
        chains: First and last of ops that are one kernel, counted without those that are views.
        keeps_layers: Whether every result stands in main memory too.
        kernels: The ops of every kernel.
    """

    part: Part
    array: PeArray
    target: Target
    store: DataStore
    chains: Sequence[tuple[int, int]] = ()
    keeps_layers: bool = False
    kernels: list[tuple[Operation, ...]] = field(default_factory=list["tuple[Operation, ...]"])
    _tensors: dict[SSAValue, Tensor] = field(default_factory=dict[SSAValue, Tensor])
    _aliases: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    _strides: dict[SSAValue, tuple[int, ...]] = field(default_factory=dict[SSAValue, "tuple[int, ...]"])
    _names: dict[str, int] = field(default_factory=dict[str, int])
    _readers: dict[SSAValue, list[Operation]] = field(default_factory=dict[SSAValue, "list[Operation]"])

    def __post_init__(self) -> None:
        absorbed = self._absorb_inputs() | self._absorb_outputs()
        inner = {idx for first, last in self.chains for idx in range(first + 1, last + 1)}
        num_ops = 0
        for op in self.part.ops:
            if op in absorbed:
                continue
            if isinstance(op, qnn.ReshapeOp) and self._is_view(op):
                self._aliases[op.result] = self.root(op.input)
            else:
                if num_ops in inner:
                    self.kernels[-1] = (*self.kernels[-1], op)
                else:
                    self.kernels.append((op,))
                self._touch(op, len(self.kernels) - 1)
                num_ops += 1
        for value in self.part.outputs:
            self._tensors[self.root(value)].is_output = True
        for ops in self.kernels:
            for op in ops[:-1]:
                self.tensor(op.results[0]).is_between = self.is_between(op.results[0], ops)

    @property
    def unit(self) -> int:
        """What tensors in the scratchpad begin at and take multiples of, in bytes."""
        return max(self.array.bus_bytes, self.array.vector_bytes)

    def root(self, value: SSAValue) -> SSAValue:
        """The value whose bytes a value has."""
        return self._aliases.get(value, value)

    def tensor(self, value: SSAValue) -> Tensor:
        """The tensor of a value."""
        return self._tensors[self.root(value)]

    def is_between(self, value: SSAValue, ops: Sequence[Operation]) -> bool:
        """Whether nobody but some ops needs a value that one of them makes."""
        if self.keeps_layers or self.tensor(value).is_output:
            return False
        return all(op in ops for op in self._readers.get(self.root(value), ()))

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors, in the order in which kernels come to them."""
        return list(self._tensors.values())

    def place(self, staging_bytes: int, *, keeps_on_chip: bool) -> MemoryPlan:
        """Finds a place for every tensor that needs one.

        Args:
            staging_bytes: Room of the scratchpad that they must leave.
            keeps_on_chip: Whether tensors may stand in the scratchpad.
        """
        unit = self.unit
        for root, tensor in self._tensors.items():
            if isinstance(root.owner, ConstantOp):
                self._place_constant(root, tensor)
            elif tensor.is_input or tensor.is_output or self.keeps_layers:
                self._place_in_memory(tensor)
        wanted = [
            Lifetime(
                name=tensor.name, num_bytes=aligned(tensor.format.num_bytes, unit), first=tensor.first, last=tensor.last,
                traffic_bytes=tensor.format.num_bytes * (tensor.reads + (not tensor.is_input and not tensor.is_output)),
            )
            for tensor in self.tensors if tensor.reads and keeps_on_chip and not tensor.is_between
        ]  # fmt: skip
        plan = plan_memory(wanted, self.array.scratchpad_bytes - staging_bytes, unit)
        for tensor in self.tensors:
            if tensor.name in plan.addresses:
                tensor.local = Activation(
                    name=f"{tensor.name}.local" if tensor.memory else tensor.name, format=tensor.format, space=SCRATCHPAD,
                    address=plan.addresses[tensor.name],
                )  # fmt: skip
            elif tensor.memory is None and not tensor.is_between:
                self._place_in_memory(tensor)
        return plan

    def activation(self, value: SSAValue) -> Activation:
        """Where a kernel finds a value, in the value's own shape; what goes from op to op in a kernel has no address."""
        tensor = self.tensor(value)
        nowhere = Activation(name=tensor.name, format=tensor.format, space=SCRATCHPAD, address=-1)
        place = tensor.local or tensor.memory or nowhere
        return _viewed(place, shape_of(value))

    def targets(self, value: SSAValue) -> tuple[Activation, ...]:
        """All places to which a kernel stores a value."""
        tensor = self.tensor(value)
        return tuple(place for place in (tensor.local, tensor.memory) if place is not None)

    def strides(self, value: SSAValue) -> tuple[int, ...]:
        """Bytes along each axis of an input or output of the program, in main memory."""
        if value in self._strides:
            return self._strides[value]
        tensor = self.tensor(value)
        assert tensor.memory is not None
        shape = shape_of(value)
        return strides_of(_viewed(tensor.memory, shape).format, shape)

    # ---- Views.

    def _absorb_inputs(self) -> set[Operation]:
        """Inputs that are given in the form in which the first kernel wants them."""
        found: set[Operation] = set()
        for value in self.part.inputs:
            moves = [op for op in moves_behind(value) if op in self.part.ops]
            if not moves or moves[-1].results[0] in self.part.outputs:
                continue
            result = moves[-1].results[0]
            shape = shape_of(result)
            strides = strides_before(strides_of(given_format(self.array, shape), shape), moves)
            if strides is not None:
                found.update(moves)
                self._aliases |= dict.fromkeys((value, *(op.results[0] for op in moves[:-1])), result)
                self._strides[value] = strides
        return found

    def _absorb_outputs(self) -> set[Operation]:
        """Outputs that are returned in the form in which the last kernel makes them."""
        found: set[Operation] = set()
        for value in self.part.outputs:
            moves = moves_before(value)
            if not moves or any(use.operation in self.part.ops for use in value.uses):
                continue
            source = moves[0].operands[0]
            if source.owner not in self.part.ops or source.owner in found or isinstance(source.owner, MOVES):
                continue
            shape = shape_of(source)
            strides = strides_behind(strides_of(stored_format(self.array, shape), shape), moves)
            if strides is not None:
                found.update(moves)
                self._aliases |= dict.fromkeys((op.results[0] for op in moves), source)
                self._strides[value] = strides
        return found

    def _is_view(self, op: qnn.ReshapeOp) -> bool:
        """Whether a reshape leaves every byte where it is."""
        root = self.root(op.input)
        if root not in self._tensors:  # an input that is read for the first time takes any shape
            is_returned = op.result in self.part.outputs
            return root in self.part.inputs and len(list(root.uses)) == 1 and not is_returned
        source = Activation(name="", format=self._tensors[root].format, space=MAIN, address=0)
        try:
            format_ = _viewed(source, shape_of(op.result)).format
        except PassError:
            return False
        # Loads of rows begin at a beat.
        return format_.images * format_.height == 1 or format_.row_bytes % self.array.bus_bytes == 0

    # ---- Tensors.

    def _touch(self, op: Operation, idx: int) -> None:
        for operand in activations_of(op):
            tensor = self._made(operand, idx)
            tensor.last = max(tensor.last, idx)
            tensor.reads += tensor.first < idx or tensor.is_input
            self._readers.setdefault(self.root(operand), []).append(op)
        self._made(op.results[0], idx)

    def _made(self, value: SSAValue, idx: int) -> Tensor:
        root = self.root(value)
        if root not in self._tensors:
            given = [known for known in self.part.inputs if self.root(known) is root]
            is_constant = isinstance(root.owner, ConstantOp)
            form = given_format if given or is_constant else stored_format
            self._tensors[root] = Tensor(
                name=self._unique(_name(given[0] if given else root)),
                format=form(self.array, shape_of(value if given or is_constant else root)), first=idx, last=idx, is_input=bool(given) or is_constant,
            )  # fmt: skip
        return self._tensors[root]

    def _place_constant(self, root: SSAValue, tensor: Tensor) -> None:
        """A constant that is read as an activation: its bytes stand in main memory from the beginning."""
        assert isinstance(root.owner, ConstantOp)
        format_ = tensor.format
        content = np.zeros((format_.images * format_.height, format_.row_bytes), dtype=np.uint8)
        rows = root.owner.array(self.store).reshape(len(content), -1)
        content[:, : rows.shape[1]] = np.ascontiguousarray(rows).view(np.uint8)
        address = self.target.memory_bytes
        self.target.constant(tensor.name, content.reshape(-1), "weight", is_shared=False)
        tensor.memory = Activation(name=tensor.name, format=format_, space=MAIN, address=address)

    def _place_in_memory(self, tensor: Tensor) -> None:
        tensor.memory = Activation(
            name=tensor.name, format=tensor.format, space=MAIN, address=self.target.memory_bytes
        )  # fmt: skip
        self.target.memory_bytes += aligned(tensor.format.num_bytes, self.array.bus_bytes)
        role = "input" if tensor.is_input else "output" if tensor.is_output else "activation"
        self.target.buffers.of(tensor.memory, role)

    def _unique(self, name: str) -> str:
        self._names[name] = self._names.get(name, 0) + 1
        return name if self._names[name] == 1 else f"{name}#{self._names[name]}"


def activations_of(op: Operation) -> list[SSAValue]:
    """The operands of an op that are activations: neither weights of their own nor parameters."""
    if isinstance(op, qnn.ConcatOp):
        return list(op.inputs)
    named = [getattr(op, name, None) for name in ("input", "first", "second")]
    found = [value for value in named if value is not None]
    if isinstance(op, qnn.MatMulOp):
        is_one = math.prod(shape_of(op.weights)[:-2]) == 1
        if not is_one or not isinstance(op.weights.owner, ConstantOp):
            found.append(op.weights)
    return found


def _viewed(activation: Activation, shape: Sequence[int]) -> Activation:
    """An activation under another shape: that of a view of it."""
    images, height, width, channels = axes_of(shape)
    format_ = activation.format
    if (images, height, width, channels) == (format_.images, format_.height, format_.width, format_.channels):
        return activation
    if format_.has_gaps:
        raise PassError(f"{activation.name}: rows have gaps, so that it has no other shape")
    if channels == format_.channels:
        pixel = format_.pixel_bytes
    elif format_.pixel_bytes == format_.channels:
        pixel = channels
    else:
        raise PassError(f"{activation.name}: pixels have gaps, so that its channels cannot be merged or split")
    row = width * pixel
    return activation.view(
        Format(images=images, height=height, width=width, channels=channels, pixel_bytes=pixel, row_bytes=row)
    )


def _name(value: SSAValue) -> str:
    owner = value.owner
    if isinstance(owner, InputOp):
        return owner.input_name.data
    assert isinstance(owner, Operation)
    names = nodes_of(owner)
    return names[-1] if names else owner.name
