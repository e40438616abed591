"""Generated networks are valid, of the published size, use the range of int8, and do not depend on rounding."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import ModelProto, helper, numpy_helper

from tileloom.compiler import load_workload
from tileloom.compiler.generators import (
    quantised_autoencoder,
    quantised_dscnn,
    quantised_mobilenet,
    quantised_resnet8,
    quantised_resnet50,
)

from ..reference import check_onnx, random_inputs, run_onnx

Generator = Callable[[int], ModelProto]
TINY: dict[str, tuple[Generator, str, tuple[int, ...], int]] = {
    "resnet8": (quantised_resnet8, "resnet8_int8", (1, 10), 12_501_632),
    "dscnn": (quantised_dscnn, "dscnn_kws_int8", (1, 12), 2_656_768),
    "mobilenet": (quantised_mobilenet, "mobilenet_v1_025_vww_int8", (1, 2), 7_489_664),
    "autoencoder": (quantised_autoencoder, "autoencoder_ad_int8", (1, 640), 264_192),
}
every_tiny = pytest.mark.parametrize("name", sorted(TINY))


@cache
def generated(name: str) -> ModelProto:
    """One network of each kind."""
    return TINY[name][0](3)


def activations(model: ModelProto, seed: int) -> list[npt.NDArray[Any]]:
    """What all activations hold for a random input."""
    stored = ModelProto()
    stored.CopyFrom(model)
    returned = {value.name for value in model.graph.output}
    element = model.graph.output[0].type.tensor_type.elem_type
    names = [node.output[0] for node in model.graph.node if node.op_type == "QuantizeLinear"]
    stored.graph.output.extend(
        helper.make_tensor_value_info(name, element, None) for name in names if name not in returned
    )
    return run_onnx(stored, random_inputs(model, seed))


@every_tiny
def test_tiny_network_is_valid_and_runs(name: str) -> None:
    model = generated(name)
    check_onnx(model)
    assert {opset.version for opset in model.opset_import} == {13}
    (output,) = run_onnx(model, random_inputs(model, 7))
    assert output.shape == TINY[name][2] and output.dtype == np.int8


@every_tiny
def test_tiny_network_has_the_multiplications_of_the_published_one(name: str, tmp_path: Any) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(generated(name).SerializeToString())
    assert sum(op.macs for op in load_workload(str(path)).mac_ops()) == TINY[name][3]


@every_tiny
def test_activations_use_the_range_of_int8(name: str) -> None:
    for array in activations(generated(name), 7):
        if array.size > 1000:  # means and logits of few elements may lie side by side
            assert int(array.max()) - int(array.min()) > 80
            assert float((array == 127).mean()) < 0.02


@every_tiny
def test_weights_use_the_range_of_int8_and_scales_differ_by_channel(name: str) -> None:
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in generated(name).graph.initializer}
    drawn = [array for key, array in weights.items() if key.startswith("weights")]
    assert all(array.dtype == np.int8 and np.abs(array).max() == 127 for array in drawn)
    per_channel = [node.attribute for node in generated(name).graph.node if node.op_type == "DequantizeLinear"]
    if name != "autoencoder":
        assert sum(bool(attributes) for attributes in per_channel) >= 2 * 9
    zeros = {int(array) for key, array in weights.items() if key.startswith("zero_point") and not array.ndim}
    assert -128 in zeros and len(zeros) >= 3


def test_seed_alone_decides() -> None:
    assert quantised_dscnn(5).SerializeToString() == quantised_dscnn(5).SerializeToString()
    assert quantised_dscnn(5).SerializeToString() != quantised_dscnn(6).SerializeToString()


@pytest.mark.parametrize("name", ["resnet8", "mobilenet"])
def test_one_step_of_one_pixel_changes_outputs_little(name: str) -> None:
    model = generated(name)
    inputs = random_inputs(model, 7)
    (before,) = run_onnx(model, inputs)
    image = inputs["input"]
    image[0, 15, 15, 1] ^= 1
    (after,) = run_onnx(model, inputs)
    assert np.abs(before.astype(int) - after).max() <= 3


def test_mobilenet_of_another_size() -> None:
    model = quantised_mobilenet(1, size=64, width=0.5)
    check_onnx(model)
    assert [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim] == [1, 64, 64, 3]


def test_sizes_out_of_range_are_told() -> None:
    with pytest.raises(ValueError, match="size 100 must be a multiple of 32"):
        quantised_mobilenet(1, size=100)
    with pytest.raises(ValueError, match="size 0 must be a multiple of 32"):
        quantised_resnet50(1, size=0)


def test_resnet50_is_valid_and_runs() -> None:
    model = quantised_resnet50(2, size=64)
    check_onnx(model)
    (output,) = run_onnx(model, random_inputs(model, 7))
    assert output.shape == (1, 1000)
    assert float((np.abs(output) < 127).mean()) > 0.9
    assert sum(node.op_type == "Conv" for node in model.graph.node) == 53
