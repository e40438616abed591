"""Small networks that compile in a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tileloom.archdsl import SpatialArch, load_arch
from tileloom.compiler.generators.arithmetic import Floats
from tileloom.compiler.generators.builder import GraphBuilder
from tileloom.compiler.generators.layers import dense
from tileloom.compiler.generators.quantisation import Scale

if TYPE_CHECKING:
    from onnx import ModelProto


def tpe_8x8(**overrides: object) -> SpatialArch:
    """The preset, with other parameters."""
    found = load_arch("tpe_8x8", {f"parameters.{name}": value for name, value in overrides.items()})
    assert isinstance(found, SpatialArch)
    return found


def with_int4_weights(model: ModelProto) -> ModelProto:
    """A network whose convolutions and products have ONNX INT4 weights: the upper four bits of those that it had."""
    from onnx import ModelProto, TensorProto, helper, numpy_helper

    found = ModelProto()
    found.CopyFrom(model)
    tensors = {tensor.name: tensor for tensor in found.graph.initializer}
    for node in found.graph.node:
        if node.op_type != "DequantizeLinear" or not node.input[0].startswith("weights"):
            continue
        weights, scale, zero = (tensors[name] for name in node.input)
        integers = numpy_helper.to_array(weights).astype(np.int64) // 16
        nibbles = helper.make_tensor(weights.name, TensorProto.INT4, weights.dims, integers.reshape(-1).tolist())
        zeros = helper.make_tensor(zero.name, TensorProto.INT4, zero.dims, [0] * max(1, int(np.prod(zero.dims))))
        wide = numpy_helper.from_array((numpy_helper.to_array(scale) * 16).astype(np.float32), scale.name)
        for old, new in ((weights, nibbles), (zero, zeros), (scale, wide)):
            old.CopyFrom(new)
    del found.opset_import[:]
    found.opset_import.append(helper.make_opsetid("", 21))
    found.ir_version = 10
    return found


def _running_sum(array: Floats) -> Floats:
    return np.cumsum(array, axis=1)


def two_programs() -> ModelProto:
    """Two matrix products of uint8 with a running sum between them, which only the host can do."""
    builder = GraphBuilder(1, name="two", dtype="uint8")
    tensor = dense(builder, builder.add_input((2, 24), Scale(scale=0.5, zero_point=3)), 16)
    axis = builder.add_constant(np.asarray(1, np.int64), "axis")
    sums = builder.apply("CumSum", [builder.dequantise(tensor)], _running_sum, [axis])
    return builder.finish([dense(builder, builder.quantise(sums), 8)])
