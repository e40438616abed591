"""Workloads: networks as ops over named dims, tensors and affine projections.

An `Op` is one loop nest of multiply-accumulates in the extended-Einsum sense: a rectangular
iteration space and, per tensor, one affine projection from the dims to each tensor axis. Work that
is not multiply-accumulate (element-wise, norms, pooling) is a `VectorOp`: bytes moved and elements
computed.

Source: the problem description follows Parashar et al., "Timeloop: A Systematic Approach to DNN
Accelerator Evaluation", ISPASS 2019, section IV.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class TensorRole(StrEnum):
    """What a tensor is to its op; memory levels say which roles they keep.

    In a product of two activations the second factor takes the `weight` role: it is the factor
    that a weight-stationary array holds.
    """

    INPUT = "input"
    WEIGHT = "weight"
    OUTPUT = "output"


class DimClass(StrEnum):
    """Which tensors a dim indexes; it decides what a spatial loop over it may share."""

    REDUCTION = "reduction"
    OUTPUT_CHANNEL = "output_channel"
    PIXEL = "pixel"
    GROUP = "group"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorAxis:
    """One axis of a tensor as an affine function of dims: `sum(coefficient * dim)`.

    A convolution's input row is `stride * OY + dilation * FY`. Constant offsets (padding) do not
    change how many elements a tile touches and are left out: padding is counted as if stored.
    """

    terms: tuple[tuple[str, int], ...]

    @property
    def is_sliding(self) -> bool:
        """Whether tiles of this axis can overlap."""
        return len(self.terms) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One value of an op.

    Attributes:
        name: Name within the op (`A`, `W`, `Z` of a matrix product; `I`, `W`, `O` of a convolution).
        role: Input, weight or output.
        bits: Width of one element as stored and moved. Outputs that are not finished are wider where the architecture
            states the width of its accumulators.
        axes: Projection of every axis.
    """

    name: str
    role: TensorRole
    bits: int
    axes: tuple[TensorAxis, ...]

    @property
    def dims(self) -> frozenset[str]:
        """Names of the dims that index this tensor."""
        return frozenset(dim for axis in self.axes for dim, _ in axis.terms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One loop nest of multiply-accumulates.

    Attributes:
        name: Unique within its workload; an ONNX node's name where there is one.
        kind: `gemm`, `conv`, `einsum`, ...: for reports only, nothing branches on it.
        dims: Dim names and sizes, in the notation's order.
        tensors: Inputs and weights first, the one output last.
        datatype: Datatype of the multiplication (`int8`, `bf16`, ...), selecting the compute unit.
        count: How many times the workload runs this op with the same shape.
        nodes: Names of the network's nodes that this op stands for.
    """

    name: str
    kind: str
    dims: tuple[tuple[str, int], ...]
    tensors: tuple[Tensor, ...]
    datatype: str
    count: int = 1
    nodes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        sizes = dict(self.dims)
        if len(sizes) != len(self.dims):
            raise ValueError(f"op {self.name}: a dim is named twice in {[d for d, _ in self.dims]}")
        for dim, size in self.dims:
            if size < 1:
                raise ValueError(f"op {self.name}: dim {dim} has size {size}; sizes are at least 1")
        outputs = [t for t in self.tensors if t.role is TensorRole.OUTPUT]
        if len(outputs) != 1 or self.tensors[-1] is not outputs[0]:
            raise ValueError(f"op {self.name}: exactly one output tensor is needed, as the last one")
        for tensor in self.tensors:
            self._check_tensor(tensor, sizes)

    def _check_tensor(self, tensor: Tensor, sizes: Mapping[str, int]) -> None:
        seen: set[str] = set()
        for axis in tensor.axes:
            if not 1 <= len(axis.terms) <= 2:
                raise ValueError(f"op {self.name}: tensor {tensor.name}: an axis takes one or two dims")
            for dim, coefficient in axis.terms:
                if dim not in sizes:
                    raise ValueError(f"op {self.name}: tensor {tensor.name}: unknown dim {dim}")
                if coefficient < 1:
                    raise ValueError(f"op {self.name}: tensor {tensor.name}: coefficient of {dim} must be positive")
                if dim in seen:
                    raise ValueError(f"op {self.name}: tensor {tensor.name}: dim {dim} indexes two axes")
                seen.add(dim)

    @property
    def sizes(self) -> dict[str, int]:
        """Size of every dim."""
        return dict(self.dims)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one run: the product of all dims."""
        return math.prod(size for _, size in self.dims)

    @property
    def output(self) -> Tensor:
        """The output tensor."""
        return self.tensors[-1]

    def tensor(self, name: str) -> Tensor:
        """The tensor of that name.

        Raises:
            KeyError: No tensor has that name.
        """
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        raise KeyError(f"op {self.name} has no tensor {name!r}; it has {[t.name for t in self.tensors]}")

    def dim_class(self, dim: str) -> DimClass:
        """Class of a dim by the tensors that it indexes."""
        if dim not in self.output.dims:
            return DimClass.REDUCTION
        roles = {t.role for t in self.tensors if dim in t.dims}
        if TensorRole.INPUT in roles and TensorRole.WEIGHT in roles:
            return DimClass.GROUP
        return DimClass.OUTPUT_CHANNEL if TensorRole.WEIGHT in roles else DimClass.PIXEL

    def elements(self, tensor: Tensor, extents: Mapping[str, int] | None = None) -> int:
        """Distinct elements of `tensor` that a box of the iteration space touches.

        Args:
            tensor: One of this op's tensors.
            extents: Extent of the box per dim; the whole op when left out.
        """
        sizes = self.sizes if extents is None else extents
        return math.prod(touched([(c, sizes[d]) for d, c in axis.terms]) for axis in tensor.axes)

    def tensor_bytes(self, tensor: Tensor) -> int:
        """Bytes of the whole tensor, rounded up to a whole byte."""
        return ceil_div(self.elements(tensor) * tensor.bits, 8)


def touched(terms: list[tuple[int, int]]) -> int:
    """Distinct values of `sum(c_i * x_i)` for `0 <= x_i < n_i`, for one or two terms.

    For `s*a + d*b` two pairs collide when one is the other moved by `(d/g, -s/g)` with
    `g = gcd(s, d)`, so that `n_a*n_b - max(0, n_a - d/g) * max(0, n_b - s/g)` values are distinct.

    Args:
        terms: Coefficient and extent of each dim.
    """
    if len(terms) == 1:
        return terms[0][1]
    (s, a), (d, b) = terms
    g = math.gcd(s, d)
    return a * b - max(0, a - d // g) * max(0, b - s // g)


def ceil_div(a: int, b: int) -> int:
    """Quotient rounded up: the one place where counts and sizes are rounded."""
    return -(-a // b)


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorOp:
    """Work other than multiply-accumulate, priced as memory traffic and vector-unit time.

    Attributes:
        name: Unique within its workload.
        kind: `add`, `softmax`, `maxpool`, ...
        elements: Elements computed, the larger of inputs and outputs.
        passes: Vector operations per element (a softmax takes several).
        read_bytes: Compulsory bytes read from main memory per tensor name.
        write_bytes: Compulsory bytes written per tensor name.
        datatype: Datatype of the elements.
        count: How many times the workload runs this op with the same shape.
        nodes: Names of the network's nodes that this op stands for.
    """

    name: str
    kind: str
    elements: int
    passes: int = 1
    read_bytes: tuple[tuple[str, int], ...] = ()
    write_bytes: tuple[tuple[str, int], ...] = ()
    datatype: str = "int8"
    count: int = 1
    nodes: tuple[str, ...] = ()

    @property
    def macs(self) -> int:
        """Always 0: vector work has no multiply-accumulates."""
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmodelled:
    """A node that the model leaves out, with what leaving it out hides.

    Attributes:
        name: The network node's name.
        kind: Its operator.
        reason: Why it cannot be modelled.
        macs: Multiply-accumulates known to be in it; 0 when it has none or they are unknown.
        bytes: Bytes of its inputs and outputs.
    """

    name: str
    kind: str
    reason: str
    macs: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A network as the model sees it.

    Attributes:
        name: For reports.
        ops: Multiply-accumulate and vector ops in execution order; equal ones are not merged here.
        unmodelled: What was left out.
        notices: Choices made for the user (batch taken as 1, ...), one sentence each.
        source: File or notation that it came from.
    """

    name: str
    ops: tuple[Op | VectorOp, ...]
    unmodelled: tuple[Unmodelled, ...] = ()
    notices: tuple[str, ...] = field(default=())
    source: str = ""

    def mac_ops(self) -> Iterator[Op]:
        """The multiply-accumulate ops in order."""
        return (op for op in self.ops if isinstance(op, Op))

    def vector_ops(self) -> Iterator[VectorOp]:
        """The vector ops in order."""
        return (op for op in self.ops if isinstance(op, VectorOp))

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the whole network."""
        return sum(op.macs * op.count for op in self.mac_ops())
