"""Writes a quantised ONNX graph node by node, and computes beside it what every tensor holds.

Scales are calibrated on the way: what a tensor holds for a few random inputs is known when its scale is chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .arithmetic import Floats
from .quantisation import ActivationType, Samples, Scale, calibrate

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatTensor:
    """A tensor between `DequantizeLinear` and `QuantizeLinear`.

    Attributes:
        name: In the graph.
        samples: What it holds.
    """

    name: str
    samples: Samples

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        return self.samples[0].shape


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantisedTensor:
    """An activation of 8 bits.

    Attributes:
        name: In the graph.
        scale: What its integers stand for.
        samples: The real values that they stand for.
    """

    name: str
    scale: Scale
    samples: Samples

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        return self.samples[0].shape


class GraphBuilder:
    """A graph under construction.

    Attributes:
        rng: Where all its random numbers come from.
        opset: Version of the operators.
        dtype: Of activations.
    """

    def __init__(
        self, seed: int, *, opset: int = 13, dtype: ActivationType = "int8", num_samples: int = 8, name: str = "network"
    ) -> None:
        """Starts an empty graph.

        Args:
            num_samples: Random inputs that it is calibrated with.
            name: Of the graph.
        """
        self.rng = np.random.default_rng(seed)
        self.opset = opset
        self.dtype: ActivationType = dtype
        self._name = name
        self._num_samples = num_samples
        self._nodes: list[NodeProto] = []
        self._weights: list[TensorProto] = []
        self._inputs: list[ValueInfoProto] = []
        self._counts: Counter[str] = Counter()
        self._dequantised: dict[str, str] = {}

    def add_input(self, shape: Sequence[int], scale: Scale, name: str = "input") -> QuantisedTensor:
        """An input; calibration draws its integers from all that its type holds."""
        from onnx import helper

        limits = np.iinfo(self.dtype)
        drawn = [
            self.rng.integers(limits.min, limits.max + 1, tuple(shape)).astype(self.dtype)
            for _ in range(self._num_samples)
        ]
        element = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        self._inputs.append(helper.make_tensor_value_info(name, element, list(shape)))
        return QuantisedTensor(name=name, scale=scale, samples=tuple(map(scale.dequantise, drawn)))

    def add_constant(self, array: npt.NDArray[Any], role: str) -> str:
        """A constant of the graph; returns its name, which begins with its role."""
        from onnx import numpy_helper

        name = self._fresh(role)
        self._weights.append(numpy_helper.from_array(array, name))
        return name

    def add_node(self, op_type: str, inputs: Sequence[str], **attributes: Any) -> str:
        """A node with one output; returns the output's name, which is the node's."""
        from onnx import helper

        name = self._fresh(op_type)
        self._nodes.append(helper.make_node(op_type, inputs, [name], name=name, **attributes))
        return name

    def apply(
        self,
        op_type: str,
        inputs: Sequence[FloatTensor],
        function: Callable[..., Floats],
        constants: Sequence[str] = (),
        **attributes: Any,
    ) -> FloatTensor:
        """A node on floats.

        Args:
            function: What it computes of its inputs.
            constants: Names of further inputs, which the function knows.
        """
        name = self.add_node(op_type, [*(tensor.name for tensor in inputs), *constants], **attributes)
        samples = tuple(function(*arrays) for arrays in zip(*(tensor.samples for tensor in inputs), strict=True))
        return FloatTensor(name=name, samples=samples)

    def move(
        self,
        op_type: str,
        tensor: QuantisedTensor,
        function: Callable[[Floats], Floats],
        constants: Sequence[str] = (),
        **attributes: Any,
    ) -> QuantisedTensor:
        """A node on the integers themselves, which it moves and leaves as they are."""
        name = self.add_node(op_type, [tensor.name, *constants], **attributes)
        return replace(tensor, name=name, samples=tuple(map(function, tensor.samples)))

    def dequantise(self, tensor: QuantisedTensor) -> FloatTensor:
        """An activation as floats; asked twice, it is the same tensor."""
        if tensor.name not in self._dequantised:
            inputs = [tensor.name, *self.scale_inputs(tensor.scale)]
            self._dequantised[tensor.name] = self.add_node("DequantizeLinear", inputs)
        return FloatTensor(name=self._dequantised[tensor.name], samples=tensor.samples)

    def quantise(self, tensor: FloatTensor, scale: Scale | None = None) -> QuantisedTensor:
        """Floats as an activation, of a scale that fits its samples unless one is given."""
        scale = scale or calibrate(tensor.samples, self.dtype)
        name = self.add_node("QuantizeLinear", [tensor.name, *self.scale_inputs(scale)])
        return QuantisedTensor(name=name, scale=scale, samples=self.rounded(tensor.samples, scale))

    def rounded(self, samples: Samples, scale: Scale) -> Samples:
        """Real values after they were quantised."""
        return tuple(scale.dequantise(scale.quantise(array, self.dtype)) for array in samples)

    def scale_inputs(self, scale: Scale) -> list[str]:
        """Constants with an activation's scale and zero point."""
        return [
            self.add_constant(np.asarray(scale.scale, np.float32), "scale"),
            self.add_constant(np.asarray(scale.zero_point, self.dtype), "zero_point"),
        ]

    def dequantise_constant(self, array: npt.NDArray[Any], scales: Floats, axis: int, role: str) -> str:
        """Integers of a constant as floats, with one scale or one for each index along an axis."""
        zeros = np.zeros(scales.shape, array.dtype)
        inputs = [
            self.add_constant(array, role), self.add_constant(scales, "scale"), self.add_constant(zeros, "zero_point")
        ]  # fmt: skip
        return self.add_node("DequantizeLinear", inputs, **({"axis": axis} if scales.ndim else {}))

    def finish(self, outputs: Sequence[QuantisedTensor]) -> ModelProto:
        """The model."""
        from onnx import helper

        element = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        returned = [helper.make_tensor_value_info(tensor.name, element, list(tensor.shape)) for tensor in outputs]
        graph = helper.make_graph(self._nodes, self._name, self._inputs, returned, self._weights)
        opsets = [helper.make_opsetid("", self.opset)]
        version = helper.find_min_ir_version_for(opsets)
        return helper.make_model(graph, opset_imports=opsets, ir_version=version, producer_name="tileloom")

    def _fresh(self, stem: str) -> str:
        """A name that no tensor has yet."""
        self._counts[stem] += 1
        return f"{stem}_{self._counts[stem]}"
