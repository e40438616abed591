"""`tileloom explain`: parts add up to totals, layers are found by name, pictures are deterministic."""

from __future__ import annotations

import csv
import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tileloom.archdsl import CompileError, ProgramImage, load_image
from tileloom.compiler import load_network
from tileloom.models import Replay, replay
from tileloom.sweeps.cli import ExitCode, main
from tileloom.sweeps.layers import ACTIVITIES, find_layer, kernels_of, layers_of
from tileloom.sweeps.network_views import short_names

ROOT = Path(__file__).parents[2]
MODEL = str(ROOT / "docs" / "examples" / "networks" / "tiny_int8.onnx")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("compiled") / "tiny")
    assert main(["compile", MODEL, "--arch", "tpe_8x8", "-o", folder, "-q"]) == ExitCode.DONE
    return folder


@pytest.fixture(scope="module")
def image(tiny: str) -> ProgramImage:
    return load_network(tiny).network.images["program"]


@pytest.fixture(scope="module")
def replayed(image: ProgramImage) -> Replay:
    return replay(image.array, image.program)


def explain_json(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    assert main(["explain", *argv, "--json"]) == ExitCode.DONE, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_layers_add_up_to_the_replay(image: ProgramImage, replayed: Replay) -> None:
    layers = layers_of(image, replayed, "program")
    assert sum(layer.cycles for layer in layers) == replayed.cycles
    assert sum(layer.read_bytes for layer in layers) == replayed.read_bytes
    assert sum(layer.written_bytes for layer in layers) == replayed.write_bytes
    for before, layer in pairwise(layers):
        assert layer.first_cycle == before.last_cycle
    for layer in layers:
        assert sum(layer.activity_cycles.values()) == layer.cycles
        assert layer.bottleneck in ACTIVITIES
        assert 0 < layer.bottleneck_share <= 1
        assert layer.busy_cycles["waiting"] == layer.activity_cycles["waiting"]
        assert all(layer.activity_cycles[name] <= layer.busy_cycles[name] <= layer.cycles for name in ACTIVITIES)
        assert layer.energy.amount == pytest.approx(math.fsum(part.amount for part in layer.energy.parts))
    working = sum(layer.activity_cycles[name] for layer in layers for name in ("PE array", "vector unit"))
    assert working == replayed.busy_cycles["compute"]


def test_every_instruction_that_does_something_has_its_layer(image: ProgramImage) -> None:
    kernels = kernels_of(image)
    for insn, kernel in zip(image.program, kernels, strict=True):
        assert kernel >= 0 or insn.name in ("FENCE", "HALT")


def test_tiling_is_read_from_the_instructions(image: ProgramImage, replayed: Replay) -> None:
    conv, _, pointwise, add, *_, last = layers_of(image, replayed, "program")
    assert conv.tiling.input_bytes == 8 * 8 * 4
    assert conv.tiling.weight_passes == 1
    assert pointwise.tiling.input_bytes == 0
    assert add.tiling.weight_bytes == 0
    assert add.tiling.is_output_local
    assert last.tiling.is_output_stored
    assert str(pointwise.tiling).endswith("input on chip, output kept on chip")


def test_layers_are_found_by_number_name_and_node(image: ProgramImage, replayed: Replay) -> None:
    layers = layers_of(image, replayed, "program")
    assert find_layer(layers, "2") is layers[1]
    assert find_layer(layers, "Conv_3") is layers[2]
    assert find_layer(layers, "Relu_2") is layers[1]
    assert find_layer(layers, "AveragePool") is layers[4]
    with pytest.raises(CompileError, match="'Conv' stands for 3 ops; give one's number, from 1 to 6"):
        find_layer(layers, "Conv")
    with pytest.raises(CompileError, match="there is no op 'Convv_1'; did you mean 'Conv_1'"):
        find_layer(layers, "Convv_1")


def test_names_are_shortened_to_what_tells_them_apart() -> None:
    assert short_names(["model/a/Relu;model/x", "model/b/Add"]) == ("a/Relu", "b/Add")
    assert short_names(["MatMul_1", "MatMul_2"]) == ("MatMul_1", "MatMul_2")
    assert short_names([]) == ()
    assert all(len(name) <= 32 for name in short_names(["x" * 50, "y" * 50]))


def test_json_sums_up_and_says_what_is_left_out(capsys: pytest.CaptureFixture[str], tiny: str) -> None:
    found = explain_json(capsys, tiny)
    layers, total = found["layers"], found["total"]
    for key in ("macs", "replay_cycles", "bound_cycles", "read_bytes", "written_bytes"):
        assert sum(layer[key] for layer in layers) == total[key]
    assert total["energy_pj"] == pytest.approx(sum(layer["energy_pj"] for layer in layers))
    assert total["energy_pj"] == pytest.approx(sum(total["energy_parts_pj"].values()))
    assert sum(total["activity_cycles"].values()) == total["replay_cycles"]
    assert "leakage" in found["left_out"]
    assert found["rtl_cycles"] is None
    one = explain_json(capsys, tiny, "--layer", "Conv_2")
    assert [layer["number"] for layer in one["layers"]] == [2]
    assert one["total"] == total


def test_table_and_one_layer_in_words(capsys: pytest.CaptureFixture[str], tiny: str) -> None:
    assert main(["explain", tiny]) == ExitCode.DONE
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.splitlines()[0].split()[:3] == ["#", "layer", "kind"]
    assert "\ncycles  " in captured.out
    assert "\nenergy  " in captured.out
    assert main(["explain", tiny, "--layer", "1"]) == ExitCode.DONE
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Conv_1 (conv2d: B=1,K=8,OY=8,OX=8,C=4,FY=3,FX=3)"
    assert [line.split()[0] for line in lines[1:]] == [
        "nodes", "tiling", "cycles", "predicted", "bound", "MACs", "main", "energy"
    ]  # fmt: skip


def test_pictures_are_the_same_bytes_again(capsys: pytest.CaptureFixture[str], tiny: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert main(["explain", tiny, "-o", str(tmp_path / name)]) == ExitCode.DONE
    assert capsys.readouterr().err.count("wrote ") == 12
    names = ("layers.csv", "layers.png", "layers.svg", "memory.csv", "memory.png", "memory.svg")
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == list(names)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name
    rows: list[dict[str, str]] = list(csv.DictReader((tmp_path / "a" / "memory.csv").open(encoding="utf-8")))
    assert {row["kind"] for row in rows} == {"activation", "staging"}


def test_an_image_without_ops_cannot_be_explained(replayed: Replay) -> None:
    found = load_image(ROOT / "docs" / "examples" / "programs" / "conv_8x8")
    object.__setattr__(found, "manifest", found.manifest.model_copy(update={"ops": ()}))
    with pytest.raises(CompileError, match="its manifest names no ops"):
        layers_of(found, replayed, "conv")
