"""Dialect `tile`: loops over tiles, memory spaces, asynchronous copies and intrinsics of the target's shape. Level 3 of the IR.

A `tile.program` stands among what runs on the host and holds buffers at fixed places, then one `tile.kernel` per op of the
network. Inside a kernel all sizes are those of the target: a `tile.matmul` streams vectors through one tile of weights of `rows` x `cols` PEs, a
`tile.vector` walks over vectors of `cols` lanes. Ops take effect in program order; when copies really happen is for the
next level to decide, as far as nobody can tell the difference. Places on chip that live for a while only (`tile.place`,
`tile.sums`, `tile.parameters`) have no address yet.

What depends on loops is an affine map over the op's `indices`, one result each, in bytes, rows or vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    IndexType,
    IntegerAttr,
    StringAttr,
)
from xdsl.ir import Attribute, Block, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    attr_def,
    irdl_op_definition,
    operand_def,
    opt_attr_def,
    opt_operand_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import NoTerminator

from .attributes import Integer, float_attr, int_attr, ints_attr, names_attr, require
from .programs import AnyKernelOp, AnyProgramOp
from .tile_values import (
    ACCUMULATORS,
    MAIN,
    PARAMETERS,
    SCRATCHPAD,
    TABLES,
    Buffer,
    Linear,
    bytes_memref,
    indexed,
    maps_of,
    pitch_of,
    size_of,
    space_of,
)

__all__ = [
    "ACCUMULATORS", "MAIN", "PARAMETERS", "SCRATCHPAD", "TABLES", "Buffer", "BufferOp", "CopyOp", "ForOp",
    "KernelOp", "Linear", "MatMulOp", "ParametersOp", "PlaceOp", "ProgramOp", "StoreOp", "SumsOp", "TableOp", "Tile",
    "VectorOp", "ViewOp", "bytes_memref", "indexed", "maps_of", "pitch_of", "size_of", "space_of",
]  # fmt: skip


@irdl_op_definition
class ProgramOp(AnyProgramOp):
    """A program: buffers at fixed places, then kernels. Attributes as of `AnyProgramOp`."""

    name = "tile.program"


@irdl_op_definition
class BufferOp(IRDLOperation):
    """Rows of bytes at a fixed place.

    Attributes:
        buffer_name: Unique in the program.
        address: Its first byte.
        role: `input`, `output`, `weight`, `parameter`, or `activation`.
        sha256: Of what stands there before the program, for constants.
    """

    name = "tile.buffer"
    buffer_name = attr_def(StringAttr)
    address = attr_def(Integer)
    role = attr_def(StringAttr)
    sha256 = opt_attr_def(StringAttr)
    result = result_def(Buffer)

    def __init__(self, name: str, type_: Buffer, *, address: int, role: str, sha256: str | None = None) -> None:
        attributes: dict[str, Attribute | None] = {
            "buffer_name": StringAttr(name), "address": int_attr(address), "role": StringAttr(role),
        }  # fmt: skip
        if sha256 is not None:
            attributes["sha256"] = StringAttr(sha256)
        super().__init__(attributes=attributes, result_types=[type_])

    def verify_(self) -> None:
        require(self, space_of(self.result) in (MAIN, SCRATCHPAD), f"a buffer cannot stand in {space_of(self.result)}")
        require(self, self.address.value.data >= 0, f"address is {self.address.value.data}")


@irdl_op_definition
class KernelOp(AnyKernelOp):
    """What computes one op of the network: loops, copies and intrinsics. Attributes as of `AnyKernelOp`."""

    name = "tile.kernel"
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    def __init__(
        self,
        name: str,
        kind: str,
        ops: Sequence[Operation],
        *,
        nodes: Sequence[str],
        dims: Mapping[str, int],
        macs: int,
        bound_cycles: float,
        compulsory_bytes: int,
        staging: tuple[int, int],
    ) -> None:
        super().__init__(
            attributes={
                "kernel_name": StringAttr(name), "kind": StringAttr(kind), "nodes": names_attr(nodes),
                "dims": names_attr(dims), "sizes": ArrayAttr([int_attr(size) for size in dims.values()]),
                "macs": int_attr(macs), "bound_cycles": float_attr(bound_cycles),
                "compulsory_bytes": int_attr(compulsory_bytes), "staging": ints_attr(staging),
            },
            regions=[Region(Block(ops))],
        )  # fmt: skip


@irdl_op_definition
class ForOp(IRDLOperation):
    """Runs its body with the index at 0, `step`, ... below `upper`."""

    name = "tile.for"
    upper = attr_def(Integer)
    step = attr_def(Integer)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    def __init__(self, upper: int, step: int = 1) -> None:
        super().__init__(
            attributes={"upper": int_attr(upper), "step": int_attr(step)},
            regions=[Region(Block(arg_types=[IndexType()]))],
        )

    @property
    def index(self) -> SSAValue:
        """Its index."""
        return self.body.block.args[0]

    def verify_(self) -> None:
        require(self, self.step.value.data > 0 and self.upper.value.data > 0, "step and upper must be positive")
        require(self, len(self.body.block.args) == 1, "the body takes the index")


def _verify_maps(op: Operation, indices: Sequence[SSAValue]) -> None:
    for name, attr in op.attributes.items():
        if isinstance(attr, AffineMapAttr):
            require(
                op, attr.data.num_dims == len(indices), f"{name} is over {attr.data.num_dims} of {len(indices)} indices"
            )
            require(op, len(attr.data.results) == 1, f"{name} must have one result")


def _verify_counts(op: Operation) -> None:
    """Checks that every number of rows, bytes or vectors is positive."""
    for name in ("rows", "row_bytes", "columns", "y_count", "x_count"):
        value = op.attributes.get(name)
        if isinstance(value, IntegerAttr):
            require(op, value.value.data > 0, f"{name} is {value.value.data}; it must be at least 1")


def _verify_space(op: Operation, what: str, value: SSAValue, *allowed: str) -> None:
    require(op, space_of(value) in allowed, f"{what} is in {space_of(value)}; it must be in {' or '.join(allowed)}")


@irdl_op_definition
class PlaceOp(IRDLOperation):
    """A place in the scratchpad from here to its last use in the enclosing block."""

    name = "tile.place"
    result = result_def(Buffer)

    def verify_(self) -> None:
        _verify_space(self, "the place", self.result, SCRATCHPAD)


@irdl_op_definition
class ViewOp(IRDLOperation):
    """The bytes of a buffer or place from `offset` on, as rows of other sizes."""

    name = "tile.view"
    source = operand_def(Buffer)
    offset = attr_def(Integer)
    result = result_def(Buffer)

    def __init__(self, source: SSAValue, offset: int, rows: int, row_bytes: int, pitch: int | None = None) -> None:
        super().__init__(
            operands=[source], attributes={"offset": int_attr(offset)},
            result_types=[bytes_memref(rows, row_bytes, space_of(source), pitch)],
        )  # fmt: skip

    def verify_(self) -> None:
        require(self, space_of(self.source) == space_of(self.result), "a view is in the space of its source")
        require(self, self.offset.value.data >= 0, f"offset is {self.offset.value.data}")


@irdl_op_definition
class CopyOp(IRDLOperation):
    """Copies rows of bytes from main memory to the scratchpad; whoever reads them waits for it.

    Attributes:
        read_at, write_at: First byte in source and target.
        rows, row_bytes: Rows, and bytes of each.
        read_pitch, write_pitch: Distance of two rows.
    """

    name = "tile.copy"
    source = operand_def(Buffer)
    target = operand_def(Buffer)
    indices = var_operand_def(IndexType)
    read_at = attr_def(AffineMapAttr)
    write_at = attr_def(AffineMapAttr)
    rows = attr_def(Integer)
    row_bytes = attr_def(Integer)
    read_pitch = attr_def(Integer)
    write_pitch = attr_def(Integer)

    def verify_(self) -> None:
        _verify_maps(self, self.indices)
        _verify_counts(self)
        _verify_space(self, "the source", self.source, MAIN)
        _verify_space(self, "the target", self.target, SCRATCHPAD)


@irdl_op_definition
class ParametersOp(IRDLOperation):
    """Bias, multiplier and shift of one tile of channels: a slot from here to its last use in the enclosing block."""

    name = "tile.parameters"
    source = operand_def(Buffer)
    indices = var_operand_def(IndexType)
    read_at = attr_def(AffineMapAttr)
    result = result_def(Buffer)

    def verify_(self) -> None:
        _verify_maps(self, self.indices)
        _verify_space(self, "the source", self.source, MAIN)
        _verify_space(self, "the slot", self.result, PARAMETERS)


@irdl_op_definition
class TableOp(IRDLOperation):
    """A table of 256 elements: a slot from here to its last use in the enclosing block."""

    name = "tile.table"
    source = operand_def(Buffer)
    result = result_def(Buffer)

    def verify_(self) -> None:
        _verify_space(self, "the source", self.source, MAIN)
        _verify_space(self, "the slot", self.result, TABLES)


@irdl_op_definition
class SumsOp(IRDLOperation):
    """Accumulators from here to their last use in the enclosing block."""

    name = "tile.sums"
    result = result_def(Buffer)

    def verify_(self) -> None:
        _verify_space(self, "sums", self.result, ACCUMULATORS)


@irdl_op_definition
class MatMulOp(IRDLOperation):
    """Streams `y_count` x `x_count` vectors of `rows` input bytes through a tile of weights, into as many sums.

    What lies outside the input buffer reads as `padding`.

    Attributes:
        y, x: Row of the input buffer and byte in the row of the first vector.
        y_step, x_step: From one vector to the next, in rows and bytes.
        weights_at, weights_pitch: First byte of the weights, and distance of their rows.
        sums_at: First vector of the sums.
        accumulate: Sums are replaced where this is 0, else added to.
    """

    name = "tile.matmul"
    input = operand_def(Buffer)
    weights = operand_def(Buffer)
    sums = operand_def(Buffer)
    indices = var_operand_def(IndexType)
    y = attr_def(AffineMapAttr)
    x = attr_def(AffineMapAttr)
    weights_at = attr_def(AffineMapAttr)
    sums_at = attr_def(AffineMapAttr)
    accumulate = attr_def(AffineMapAttr)
    rows = attr_def(Integer)
    y_count = attr_def(Integer)
    x_count = attr_def(Integer)
    y_step = attr_def(Integer)
    x_step = attr_def(Integer)
    weights_pitch = attr_def(Integer)
    padding = attr_def(Integer)
    weight_bits = attr_def(Integer)

    def verify_(self) -> None:
        _verify_maps(self, self.indices)
        _verify_counts(self)
        _verify_space(self, "the input", self.input, SCRATCHPAD)
        _verify_space(self, "weights", self.weights, SCRATCHPAD)
        _verify_space(self, "sums", self.sums, ACCUMULATORS)
        require(self, self.weight_bits.value.data in (4, 8), f"weight_bits are {self.weight_bits.value.data}")


@irdl_op_definition
class VectorOp(IRDLOperation):
    """Multiplies `y_count` x `x_count` vectors by a second operand, lane by lane, and combines them with as many sums.

    Attributes:
        operation: `add` or `maximum`.
        operand: `scalar`; `vector`: one value per lane from `values`; `sequence`: a vector of `values` per vector.
        scalar, shift: The scalar; products are divided by two to the shift, and rounded.
        values_at, values_step: First byte in `values`, and from one vector's to the next one's.
        y, x, y_step, x_step, sums_at, accumulate, padding: See `tile.matmul`.
        columns: Lanes.
        lanes: `separate`, or `combined`: all lanes get what the products of all of them combine to.
        hold: Whether all vectors are combined in the first of the sums.
        input_bits: Bits of an input element.
    """

    name = "tile.vector"
    input = operand_def(Buffer)
    values = opt_operand_def(Buffer)
    sums = operand_def(Buffer)
    indices = var_operand_def(IndexType)
    y = attr_def(AffineMapAttr)
    x = attr_def(AffineMapAttr)
    values_at = attr_def(AffineMapAttr)
    sums_at = attr_def(AffineMapAttr)
    accumulate = attr_def(AffineMapAttr)
    columns = attr_def(Integer)
    y_count = attr_def(Integer)
    x_count = attr_def(Integer)
    y_step = attr_def(Integer)
    x_step = attr_def(Integer)
    values_step = attr_def(Integer)
    padding = attr_def(Integer)
    operation = attr_def(StringAttr)
    operand = attr_def(StringAttr)
    scalar = attr_def(Integer)
    shift = attr_def(Integer)
    lanes = attr_def(StringAttr)
    hold = attr_def(Integer)
    input_bits = attr_def(Integer)
    irdl_options = (AttrSizedOperandSegments(),)

    def verify_(self) -> None:
        _verify_maps(self, self.indices)
        _verify_counts(self)
        _verify_space(self, "the input", self.input, SCRATCHPAD)
        _verify_space(self, "sums", self.sums, ACCUMULATORS)
        require(self, self.operation.data in ("add", "maximum"), f"operation is {self.operation.data}")
        require(self, self.operand.data in ("scalar", "vector", "sequence"), f"operand is {self.operand.data}")
        require(self, (self.values is None) == (self.operand.data == "scalar"), "values are for vector and sequence")
        require(self, self.input_bits.value.data in (4, 8, 32), f"input_bits are {self.input_bits.value.data}")
        require(self, self.lanes.data in ("separate", "combined"), f"lanes are {self.lanes.data}")


@irdl_op_definition
class StoreOp(IRDLOperation):
    """Requantises `y_count` x `x_count` vectors of sums, looks them up in a table if there is one, and stores them.

    Attributes:
        sums_at: First vector of the sums.
        write_at: First byte in the target.
        y_pitch, x_pitch: From one stored vector to the next.
        columns: Lanes that are stored.
        zero_point, low, high: Added after scaling; what is stored is clipped.
        bits: Of a stored element; 32 stores sums as they are.
    """

    name = "tile.store"
    sums = operand_def(Buffer)
    parameters = operand_def(Buffer)
    table = opt_operand_def(Buffer)
    target = operand_def(Buffer)
    indices = var_operand_def(IndexType)
    sums_at = attr_def(AffineMapAttr)
    write_at = attr_def(AffineMapAttr)
    y_count = attr_def(Integer)
    x_count = attr_def(Integer)
    y_pitch = attr_def(Integer)
    x_pitch = attr_def(Integer)
    columns = attr_def(Integer)
    zero_point = attr_def(Integer)
    low = attr_def(Integer)
    high = attr_def(Integer)
    bits = attr_def(Integer)
    irdl_options = (AttrSizedOperandSegments(),)

    def verify_(self) -> None:
        _verify_maps(self, self.indices)
        _verify_counts(self)
        _verify_space(self, "sums", self.sums, ACCUMULATORS)
        _verify_space(self, "parameters", self.parameters, PARAMETERS)
        _verify_space(self, "the target", self.target, MAIN, SCRATCHPAD)
        require(self, self.bits.value.data in (4, 8, 32), f"bits are {self.bits.value.data}")


Tile = Dialect(
    "tile",
    [
        ProgramOp, BufferOp, KernelOp, ForOp, PlaceOp, ViewOp, CopyOp, ParametersOp, TableOp, SumsOp, MatMulOp, VectorOp, StoreOp,
    ],
    [],
)  # fmt: skip
