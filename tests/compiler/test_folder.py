"""Compiled networks as folders: what is read back is what was written, and changes are found."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from onnx import TensorProto, helper, numpy_helper

from tileloom.archdsl import CompileError, ProgramImage, Scaling
from tileloom.compiler import CompiledNetwork, CompileOptions, compile_network, load_network, save_network
from tileloom.compiler.generators import quantised_tiny
from tileloom.models import FunctionalSimulator

from .tiny_networks import tpe_8x8, two_programs

FALLBACK = CompileOptions(fallback=True)
Bytes = npt.NDArray[np.uint8]


@pytest.fixture(scope="module")
def tiny() -> CompiledNetwork:
    network = compile_network(quantised_tiny(0), tpe_8x8()).network
    assert network is not None
    return network


@pytest.fixture(scope="module")
def two() -> CompiledNetwork:
    network = compile_network(two_programs(), tpe_8x8(), FALLBACK).network
    assert network is not None
    return network


@pytest.fixture
def folder(tiny: CompiledNetwork, tmp_path: Path) -> Path:
    save_network(tiny, tmp_path / "tiny", name="tiny", options=CompileOptions())
    return tmp_path / "tiny"


def simulate(_: str, image: ProgramImage, memory: Bytes) -> Bytes:
    return FunctionalSimulator(image.array).run(image.program, memory)


def files_of(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_one_program_stands_in_the_folder_itself(folder: Path) -> None:
    assert files_of(folder) == [
        "arch.yaml", "arrays.npz", "data.bin", "host.mlir", "manifest.json", "network.json", "program.bin"
    ]  # fmt: skip


def test_several_programs_have_folders_of_their_own(two: CompiledNetwork, tmp_path: Path) -> None:
    record = save_network(two, tmp_path, name="two", options=FALLBACK)
    assert [program.folder for program in record.programs] == ["program0", "program1"]
    assert {"program0/manifest.json", "program1/program.bin", "network.json"} <= set(files_of(tmp_path))
    assert [(op.kind, op.place) for op in record.host if op.nodes] == [
        ("DequantizeLinear", "between"), ("CumSum", "between"), ("QuantizeLinear", "between")
    ]  # fmt: skip
    assert next(op for op in record.host if op.kind == "CumSum").read_bytes == 2 * 16 * 4


@pytest.mark.parametrize("name", ["tiny", "two"])
def test_what_is_read_back_computes_the_same(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    network: CompiledNetwork = request.getfixturevalue(name)
    record = save_network(network, tmp_path, name=name, options=CompileOptions())
    saved = load_network(tmp_path)
    assert saved.record == record
    (tensor,) = record.inputs
    limits = np.iinfo(tensor.dtype)
    numbers = np.random.default_rng(1)
    given = {tensor.name: numbers.integers(limits.min, limits.max, tensor.shape, dtype=tensor.dtype, endpoint=True)}
    expected, found = network.run(given, simulate), saved.network.run(given, simulate)
    assert list(found) == [output.name for output in record.outputs]
    assert all((found[key] == expected[key]).all() for key in expected)


def test_the_same_network_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    again = compile_network(quantised_tiny(0), tpe_8x8()).network
    assert again is not None
    save_network(again, tmp_path / "again", name="tiny", options=CompileOptions())
    assert files_of(folder) == files_of(tmp_path / "again")
    for file in files_of(folder):
        assert (folder / file).read_bytes() == (tmp_path / "again" / file).read_bytes(), file


def test_scalings_of_what_enters_and_leaves_are_known(
    tiny: CompiledNetwork, two: CompiledNetwork, folder: Path
) -> None:
    (image,) = tiny.images.values()
    assert image.symbols("input")[0].scaling == Scaling(scale=1.0, zero_point=-128)
    assert image.symbols("output")[0].scaling is not None
    record = load_network(folder).record
    assert record.inputs[0].scaling == Scaling(scale=1.0, zero_point=-128)
    assert record.outputs[0].scaling is not None
    # uint8 inputs enter the array as int8, which means the same real numbers
    assert two.images["program0"].symbols("input")[0].scaling == Scaling(scale=0.5, zero_point=3 - 128)


def test_places_on_chip_and_loads_are_in_the_manifest(tiny: CompiledNetwork) -> None:
    (image,) = tiny.images.values()
    pad = image.manifest.scratchpad
    assert pad is not None
    assert 0 < pad.live_bytes <= pad.peak_bytes <= pad.size_bytes
    assert 0 <= pad.fragmentation < 1
    loads = [idx for idx, insn in enumerate(image.program) if insn.queue == "load" and not insn.kind.is_barrier]
    found = [part.first + at for op in image.manifest.ops for part in op.loads for at in range(part.num)]
    assert sorted(found) == loads


@pytest.mark.parametrize("file", ["host.mlir", "arrays.npz", "manifest.json", "program.bin"])
def test_a_changed_file_is_found(folder: Path, file: str) -> None:
    path = folder / file
    path.write_bytes(path.read_bytes().replace(b"a", b"b") + b"\n")
    with pytest.raises(CompileError, match=file):
        load_network(folder)


@pytest.mark.parametrize("file", ["host.mlir", "arrays.npz", "program.bin", "network.json"])
def test_a_missing_file_is_named(folder: Path, file: str) -> None:
    (folder / file).unlink()
    with pytest.raises(CompileError, match=f"{file}: missing"):
        load_network(folder)


def test_other_faults_are_told(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="nothing: no such folder"):
        load_network(tmp_path / "nothing")
    with pytest.raises(CompileError, match="was compiled for tpe_8x8, which differs from tpe_8x8; compile it for"):
        load_network(folder, arch=tpe_8x8(scratchpad="32 KiB"))
    record = json.loads((folder / "network.json").read_text(encoding="utf-8"))
    (folder / "network.json").write_text(json.dumps({**record, "schema_version": 2}), encoding="utf-8")
    with pytest.raises(CompileError, match="schema_version"):
        load_network(folder)
    shutil.copytree(Path(__file__).parents[2] / "docs/examples/programs/conv_8x8", tmp_path / "image")
    with pytest.raises(CompileError, match="it is a program image: see tileloom rtl run"):
        load_network(tmp_path / "image")


def test_importing_the_compiler_imports_no_xdsl() -> None:
    script = "import sys, tileloom.compiler; print(sorted({'xdsl', 'onnx'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    import tileloom.compiler

    with pytest.raises(AttributeError, match="has no attribute 'compile_netwrok'"):
        _ = tileloom.compiler.compile_netwrok  # pyright: ignore[reportAttributeAccessIssue]  the point of the test


def test_indices_are_told_from_other_integers(tmp_path: Path) -> None:
    """A table of 20 rows that the host looks up, and a product on the array."""
    rng = np.random.default_rng(0)
    constants = {
        "table": rng.normal(size=(20, 16)).astype(np.float32), "step": np.float32(0.03), "zero": np.int8(0),
        "weights": rng.integers(-128, 128, (16, 8)).astype(np.int8), "w_step": np.float32(0.01), "y_step": np.float32(0.1),
    }  # fmt: skip
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"], name="look_up"),
        helper.make_node("QuantizeLinear", ["rows", "step", "zero"], ["q"], name="quantise"),
        helper.make_node("DequantizeLinear", ["q", "step", "zero"], ["x"], name="x"),
        helper.make_node("DequantizeLinear", ["weights", "w_step", "zero"], ["w"], name="w"),
        helper.make_node("MatMul", ["x", "w"], ["sums"], name="product"),
        helper.make_node("QuantizeLinear", ["sums", "y_step", "zero"], ["y"], name="y"),
    ]
    graph = helper.make_graph(
        nodes, "lookup", [helper.make_tensor_value_info("ids", TensorProto.INT64, [5])],
        [helper.make_tensor_value_info("y", TensorProto.INT8, [5, 8])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    network = compile_network(model, tpe_8x8()).network
    assert network is not None
    record = save_network(network, tmp_path, name="lookup", options=CompileOptions())
    assert [tensor.num_choices for tensor in record.inputs] == [20]
    assert load_network(tmp_path).record == record
