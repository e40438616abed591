"""Small quantised networks for tests, and their comparison with onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp

from tileloom.compiler.interpreters.modules import interpret
from tileloom.compiler.ir.attributes import dtype_of, shape_of
from tileloom.compiler.ir.data import InputOp
from tileloom.compiler.ir.graph import GraphOp
from tileloom.compiler.pipeline import lower_network

from .reference import run_onnx

Array = npt.NDArray[Any]
KERNEL_SCALE = 0.0103
QUANTISERS = ("DequantizeLinear", "QuantizeLinear")


@dataclass(slots=True)
class Network:
    """A network that grows by one node at a time; every method returns the name of what the node makes.

    Attributes:
        opset: Version of the operator set.
        seed: Of random weights.
    """

    opset: int = 17
    seed: int = 0
    nodes: list[NodeProto] = field(default_factory=list[NodeProto])
    weights: list[TensorProto] = field(default_factory=list[TensorProto])
    inputs: list[ValueInfoProto] = field(default_factory=list[ValueInfoProto])
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def name(self, kind: str) -> str:
        return f"{kind}{len(self.nodes) + len(self.weights) + len(self.inputs)}"

    def input(self, shape: Sequence[int], dtype: str = "int8") -> str:
        name = self.name("x")
        element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.inputs.append(helper.make_tensor_value_info(name, element, shape))
        return name

    def constant(self, array: npt.ArrayLike, dtype: str = "float32") -> str:
        name = self.name("c")
        self.weights.append(numpy_helper.from_array(np.asarray(array, dtype=dtype), name))
        return name

    def node(self, op_type: str, inputs: Sequence[str], *, outputs: int = 1, **attributes: Any) -> str:
        names = [self.name(f"y_{idx}_") for idx in range(outputs)]
        node = helper.make_node(op_type, inputs, names, name=f"{op_type}_{len(self.nodes)}", **attributes)
        self.nodes.append(node)
        return names[0]

    def dequantize(self, value: str, scale: float, zero: int = 0, dtype: str = "int8") -> str:
        return self.node("DequantizeLinear", [value, self.constant(scale), self.constant(zero, dtype)])

    def quantize(self, value: str, scale: float, zero: int = 0, dtype: str = "int8") -> str:
        return self.node("QuantizeLinear", [value, self.constant(scale), self.constant(zero, dtype)])

    def requantize(self, value: str, scale: float, zero: int = 0, dtype: str = "int8") -> str:
        """Quantised and dequantised."""
        return self.dequantize(self.quantize(value, scale, zero, dtype), scale, zero, dtype)

    def real_input(self, shape: Sequence[int], scale: float = 0.0497, zero: int = 3, dtype: str = "int8") -> str:
        """An integer input, dequantised."""
        return self.dequantize(self.input(shape, dtype), scale, zero, dtype)

    def kernel(self, shape: Sequence[int], *, axis: int | None = None, zero: int = 0, dtype: str = "int8") -> str:
        """Random quantised weights; one scale per index of an axis where one is given."""
        limits = np.iinfo(dtype)
        integers = self.rng.integers(limits.min, limits.max + 1, shape)
        if axis is None:
            return self.dequantize(self.constant(integers, dtype), KERNEL_SCALE, zero, dtype)
        scale = self.constant(self.rng.uniform(0.002, 0.02, shape[axis]))
        zeros = self.constant(np.full(shape[axis], zero), dtype)
        return self.node("DequantizeLinear", [self.constant(integers, dtype), scale, zeros], axis=axis)

    def bias(self, size: int, scale: float = 0.0005) -> str:
        integers = self.constant(self.rng.integers(-3000, 3000, size), "int32")
        return self.node("DequantizeLinear", [integers, self.constant(scale)])

    def model(self, *outputs: str) -> ModelProto:
        results = [helper.make_empty_tensor_value_info(name) for name in outputs]
        graph = helper.make_graph(self.nodes, "net", self.inputs, results, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)


def random_inputs(module: ModuleOp, rng: np.random.Generator) -> dict[str, Array]:
    """Random elements for every input of a module."""
    found: dict[str, Array] = {}
    for op in module.body.block.ops:
        if isinstance(op, InputOp):
            dtype, shape = dtype_of(op.result), shape_of(op.result)
            if dtype.kind == "f":
                found[op.input_name.data] = rng.normal(size=shape).astype(dtype)
            else:
                low, high = (0, 256) if dtype != np.int8 else (-128, 128)
                found[op.input_name.data] = rng.integers(low, high, shape).astype(dtype)
    return found


def check_against_onnxruntime(
    model: ModelProto, *, runs: int = 4, equal: float = 0.99, host: Sequence[str] = ()
) -> ModuleOp:
    """Lowers a network and compares its integer outputs with onnxruntime's: at most one step apart.

    Args:
        model: A network with integer outputs.
        runs: Number of random inputs.
        equal: Least share of elements that are equal.
        host: Operators that may stay on the host.
    """
    module, store = lower_network(model)
    left = [op.op_type for op in module.body.block.ops if isinstance(op, GraphOp) and op.op_type not in QUANTISERS]
    assert left == list(host)
    num_different = num_elements = 0
    rng = np.random.default_rng(0)
    for _ in range(runs):
        inputs = random_inputs(module, rng)
        found = interpret(module, store, inputs)
        for mine, expected in zip(found.values(), run_onnx(model, inputs), strict=True):
            assert mine.shape == expected.shape
            assert mine.dtype == expected.dtype
            distance = np.abs(mine.astype(np.int64) - expected.astype(np.int64))
            assert distance.max(initial=0) <= 1
            num_different += int(np.count_nonzero(distance))
            num_elements += distance.size
    assert num_different <= (1 - equal) * num_elements, f"{num_different} of {num_elements} elements differ"
    return module
