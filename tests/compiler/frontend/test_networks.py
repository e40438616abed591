"""Real networks: all of them import, nothing is left out unseen, and MACs agree with other counts."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, NodeProto, TensorProto
from onnx.reference import ReferenceEvaluator

from tileloom.archdsl import Workload
from tileloom.compiler import generate_network, load_workload, shipped_networks, summarize_workload

from .networks import DATA, load

FILES = [
    *(f"onnx/{name}" for name in ("bert_tiny", "bert_tiny_qdq_int8", "llama_tiny_decode", "llama_tiny_prefill")),
    *(f"onnx/{name}" for name in ("magika_v3_3", "resnet_tiny", "resnet_tiny_qdq_int8", "silero_vad_16k_sequence")),
    *(f"mlperf_tiny/{name}" for name in ("autoencoder_ad_int8", "dscnn_kws_int8")),
    *(f"mlperf_tiny/{name}" for name in ("mobilenet_v1_025_vww_int8", "resnet8_int8")),
]
SHAPES = {"onnx/silero_vad_16k_sequence": {"sequence_length": 16}}
SHIPPED = (
    "bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet", "vgg19",
    "zfnet512",
)  # fmt: skip


def data_file(name: str) -> Path:
    """A network of the reference data; skips where that data is not there."""
    path = DATA / f"{name}.onnx"
    if not path.exists():
        pytest.skip(f"reference data is absent: {path}")
    return path


def check_complete(workload: Workload) -> None:
    """Nothing is left out, and every op has a name of its own."""
    summary = summarize_workload(workload)
    assert workload.unmodelled == ()
    assert summary.unmodelled_macs_share == summary.unmodelled_bytes_share == 0
    names = [op.name for op in workload.ops]
    assert len(set(names)) == len(names)
    assert workload.macs > 0


@pytest.mark.parametrize("name", FILES)
def test_reference_network_imports_in_full(name: str) -> None:
    check_complete(load_workload(data_file(name), SHAPES.get(name, {}), strict=True))


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_network_imports_in_full(name: str) -> None:
    check_complete(load_workload(f"onnx:{name}", strict=True))


def test_every_shipped_network_is_tested() -> None:
    assert shipped_networks() == SHIPPED


# Source: pytorch/vision, torchvision/models/{resnet,vgg,densenet,squeezenet}.py, the weights' `_ops` (in 1e9
# multiply-accumulates at 224 x 224, three decimals); DenseNet and ResNet-50 in the layout of the shipped networks.
PUBLISHED_GMACS = {"resnet50": 4.089, "vgg19": 19.632, "densenet121": 2.834, "squeezenet": 0.349}


@pytest.mark.parametrize("name", sorted(PUBLISHED_GMACS))
def test_macs_equal_the_published_count(name: str) -> None:
    assert round(load_workload(f"onnx:{name}").macs / 1e9, 3) == PUBLISHED_GMACS[name]


def test_googlenet_macs_equal_the_published_count() -> None:
    # Source: Sze et al., "Efficient Processing of Deep Neural Networks: A Tutorial and Survey", Proceedings of the
    # IEEE 2017, table II: GoogLeNet v1, 1.43 G MACs.
    assert round(load_workload("onnx:inception_v1").macs / 1e9, 2) == 1.43


@dataclass
class MacCounter:
    """Multiply-accumulates of a network as it runs on real arrays in ONNX's reference evaluator."""

    network: ModelProto

    def count(self, sizes: dict[str, int]) -> int:
        evaluator: Any = ReferenceEvaluator(self.network)
        feeds = {v.name: self._feed(v, sizes) for v in self.network.graph.input if v.name not in self._weights()}
        results: dict[str, Any] = evaluator.run(None, feeds, intermediate=True)
        arrays = {**{t.name: onnx.numpy_helper.to_array(t) for t in self.network.graph.initializer}, **results, **feeds}
        return sum(self._macs(node, arrays) for node in self.network.graph.node)

    def _weights(self) -> set[str]:
        return {t.name for t in self.network.graph.initializer}

    def _feed(self, value: onnx.ValueInfoProto, sizes: dict[str, int]) -> Any:
        shape = [d.dim_value or sizes.get(d.dim_param, 1) for d in value.type.tensor_type.shape.dim]
        kind = value.type.tensor_type.elem_type
        return np.zeros(shape, dtype=onnx.helper.tensor_dtype_to_np_dtype(kind))

    def _macs(self, node: NodeProto, arrays: dict[str, Any]) -> int:
        """One multiply-accumulate per output element and element of its dot product."""
        if node.op_type == "Conv":  # a filter holds what one output element sums over
            return arrays[node.output[0]].size * arrays[node.input[1]][0].size
        if node.op_type == "MatMul":
            return arrays[node.output[0]].size * arrays[node.input[0]].shape[-1]
        if node.op_type == "Gemm":
            flipped = any(a.name == "transA" and a.i for a in node.attribute)
            return arrays[node.output[0]].size * arrays[node.input[0]].shape[0 if flipped else 1]
        if node.op_type == "LSTM":  # each step multiplies the input by one matrix and the state by another
            steps, batch, _ = arrays[node.input[0]].shape
            return steps * batch * (arrays[node.input[1]].size + arrays[node.input[2]].size)
        if node.op_type == "Einsum":
            pairs = zip(*(a.s.decode().partition("->")[0].split(",") for a in node.attribute), strict=False)
            terms = [term for pair in pairs for term in pair]
            sizes = {
                x: n
                for term, i in zip(terms, node.input, strict=True)
                for x, n in zip(term, arrays[i].shape, strict=True)
            }
            return int(np.prod(list(sizes.values())))
        return 0


# ONNX's evaluator stops in magika: its GlobalMaxPool over one axis loses that axis, which a Squeeze then wants
RUNNABLE = [name for name in FILES if "magika" not in name]


@pytest.mark.parametrize("name", RUNNABLE)
def test_macs_equal_those_of_the_running_network(name: str) -> None:
    path = data_file(name)
    sizes = SHAPES.get(name, {})
    network = ModelProto.FromString(path.read_bytes())
    if any(node.op_type == "DequantizeLinear" for node in network.graph.node):
        # the evaluator knows quantisation from 19 on; the networks' other nodes mean the same in 21
        network.opset_import[0].version = 21
    assert load_workload(path, sizes).macs == MacCounter(network).count(sizes)


@pytest.mark.parametrize(
    "sizes",
    [
        {"hidden": "32", "heads": "4", "seq": "6", "dtype": "fp32"},
        {"hidden": "32", "heads": "4", "kv_heads": "2", "seq": "3", "past": "5", "ffn": "80", "batch": "2"},
    ],
)
def test_generated_block_macs_equal_those_of_the_running_network(sizes: dict[str, str]) -> None:
    network = generate_network("transformer_block", sizes)
    assert load(network, strict=True).macs == MacCounter(network).count({})


def test_resnet50_imports_in_well_under_a_second() -> None:
    load_workload("onnx:squeezenet")  # imports the onnx package, which this does not measure
    start = time.process_time()
    load_workload("onnx:resnet50")
    assert time.process_time() - start < 0.5


def test_import_is_deterministic() -> None:
    assert load_workload("onnx:resnet50") == load_workload("onnx:resnet50")
    assert repr(load_workload("transformer_block")) == repr(load_workload("transformer_block"))


def test_qdq_network_has_int8_ops_only() -> None:
    workload = load_workload(data_file("mlperf_tiny/mobilenet_v1_025_vww_int8"))
    assert {op.datatype for op in workload.mac_ops()} == {"int8"}
    assert {tensor.bits for op in workload.mac_ops() for tensor in op.tensors} == {8}


def test_quantised_network_has_the_shapes_of_its_float_original() -> None:
    quantised = load_workload(data_file("onnx/bert_tiny_qdq_int8"))
    original = load_workload(data_file("onnx/bert_tiny"))
    assert [op.dims for op in quantised.mac_ops()] == [op.dims for op in original.mac_ops()]


def test_weights_may_lie_in_a_missing_file(tmp_path: Path) -> None:
    network = generate_network("transformer_block", {"hidden": "32", "heads": "4", "seq": "6", "dtype": "fp32"})
    weight = TensorProto(name="weight", data_type=TensorProto.FLOAT, dims=[32, 8], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="missing.bin")
    network.graph.initializer.append(weight)
    network.graph.node.append(onnx.helper.make_node("MatMul", ["y", "weight"], ["z"], name="head"))
    network.graph.output.append(onnx.helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 6, 8]))
    path = tmp_path / "external.onnx"
    path.write_bytes(network.SerializeToString())
    head = next(op for op in load_workload(path).mac_ops() if op.name == "head")
    assert head.dims == (("M", 6), ("N", 8), ("K", 32))
