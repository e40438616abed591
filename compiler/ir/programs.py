"""What programs and kernels of the levels `tile` and `pe` have in common."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.irdl import IRDLOperation, attr_def, opt_attr_def, region_def, traits_def, var_operand_def, var_result_def
from xdsl.traits import NoTerminator

from .attributes import Float, Integer, Integers, Tensor, require


class AnyProgramOp(IRDLOperation):
    """What runs on the accelerator between two visits to the host: tensors in, tensors out.

    Attributes:
        program_name: Unique in the module.
        input_names, output_names: Buffers of the operands and of the results.
        input_strides, output_strides: Per tensor the bytes from one element to the next along each axis.
        live_bytes: The most bytes of activations that are in the scratchpad at the same time.
        local_names: Activations that stand in the scratchpad beyond one kernel.
        local_places: Of each its first byte, its bytes, and the first and the last kernel that touches it.
        input_scales, output_scales: Per tensor the real value of one step; 0 where unknown.
        input_zero_points, output_zero_points: The integer that stands for 0.
    """

    inputs = var_operand_def(Tensor)
    program_name = attr_def(StringAttr)
    input_names = attr_def(ArrayAttr[StringAttr])
    output_names = attr_def(ArrayAttr[StringAttr])
    input_strides = attr_def(ArrayAttr[Integers])
    output_strides = attr_def(ArrayAttr[Integers])
    live_bytes = attr_def(Integer)
    local_names = opt_attr_def(ArrayAttr[StringAttr])
    local_places = opt_attr_def(ArrayAttr[Integers])
    input_scales = opt_attr_def(ArrayAttr[Float])
    input_zero_points = opt_attr_def(Integers)
    output_scales = opt_attr_def(ArrayAttr[Float])
    output_zero_points = opt_attr_def(Integers)
    outputs = var_result_def(Tensor)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    def verify_(self) -> None:
        for what, names, strides, values in (
            ("inputs", self.input_names, self.input_strides, self.inputs),
            ("outputs", self.output_names, self.output_strides, self.outputs),
        ):
            require(
                self, len(names) == len(strides) == len(values), f"{what}, their names and strides differ in number"
            )


class AnyKernelOp(IRDLOperation):
    """What computes one op of the network.

    Attributes:
        kernel_name: Unique in the module.
        kind: The op that it computes.
        nodes: Names of the ONNX nodes.
        dims, sizes: Names and sizes of its dims.
        macs: Multiply-accumulates.
        bound_cycles, compulsory_bytes: What no program can do with much less of; see `tiling.bounds`.
        staging: First byte of the scratchpad for places, and first byte behind.
    """

    kernel_name = attr_def(StringAttr)
    kind = attr_def(StringAttr)
    nodes = attr_def(ArrayAttr[StringAttr])
    dims = attr_def(ArrayAttr[StringAttr])
    sizes = attr_def(ArrayAttr[Integer])
    macs = attr_def(Integer)
    bound_cycles = attr_def(Float)
    compulsory_bytes = attr_def(Integer)
    staging = attr_def(Integers)

    def verify_(self) -> None:
        begin, end = self.staging.get_values()
        require(self, 0 <= begin <= end, f"staging is from {begin} to {end}")
