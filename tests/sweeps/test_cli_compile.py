"""`tileloom compile` and `tileloom run` without a simulator: what they write and print, exit codes, and bad input."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tileloom.compiler import load_network
from tileloom.compiler.generators import quantised_tiny
from tileloom.models import FunctionalSimulator
from tileloom.sweeps.cli import ExitCode, main
from tileloom.sweeps.network_runs import stored_layers

from ..compiler.tiny_networks import two_programs

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "networks" / "tiny_int8.onnx"
MODEL = str(EXAMPLE)
COMPILE = ["compile", MODEL, "--arch", "tpe_8x8", "-o"]


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands write below the working directory."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("compiled") / "tiny")
    assert main([*COMPILE, folder, "-q"]) == ExitCode.DONE
    return folder


def run_json(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    assert main([*argv, "--json"]) == ExitCode.DONE, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def examples_of(capsys: pytest.CaptureFixture[str], verb: str) -> list[list[str]]:
    """The command lines at the end of a verb's help, in words."""
    assert main([verb, "--help"]) == ExitCode.DONE
    lines = capsys.readouterr().out.rpartition("Examples:\n")[2].splitlines()
    return [shlex.split(line) for line in lines if line.strip()]


def test_example_is_what_the_generator_makes() -> None:
    # Scales come from sums of floats, whose last bit depends on the machine.
    stored, made = onnx.ModelProto.FromString(EXAMPLE.read_bytes()), quantised_tiny(0)
    assert [str(node) for node in stored.graph.node] == [str(node) for node in made.graph.node]
    for old, new in zip(stored.graph.initializer, made.graph.initializer, strict=True):
        assert old.name == new.name
        np.testing.assert_allclose(onnx.numpy_helper.to_array(old), onnx.numpy_helper.to_array(new), rtol=1e-6)


def test_compile_prints_layers_and_writes_the_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main([*COMPILE, "out"]) == ExitCode.DONE
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0].split()[:5] == ["#", "layer", "kind", "dims", "MACs"]
    assert lines[1].split()[:4] == ["1", "Conv_1", "conv2d", "B=1,K=8,OY=8,OX=8,C=4,FY=3,FX=3"]
    assert lines[7].split()[0] == "total"
    assert "\ntiny_int8 for tpe_8x8\n" in captured.out
    assert "host, after  DequantizeLinear, Softmax, QuantizeLinear (72 B)" in captured.out
    assert re.fullmatch(r"compiled in \d+\.\d\d s; wrote out\n", captured.err)
    assert (tmp_path / "out" / "network.json").is_file()
    assert not (tmp_path / "out" / "dumps").exists()


def test_compile_json_sums_up(capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(capsys, *COMPILE, "out", "--report")
    assert found["schema_version"] == 1
    layers, total = found["layers"], found["total"]
    assert [layer["number"] for layer in layers] == list(range(1, 7))
    for key in ("macs", "replay_cycles", "bound_cycles", "read_bytes", "written_bytes"):
        assert sum(layer[key] for layer in layers) == total[key]
    assert found["passes"][-1]["name"] == "convert-tile-to-pe"
    assert found["network"]["options"]["keeps_layers"] is False
    assert run_json(capsys, *COMPILE, "out")["passes"] is None


def test_dumps_stop_and_resume(capsys: pytest.CaptureFixture[str], tmp_path: Path, tiny: str) -> None:
    assert main([*COMPILE, "out", "--stop-after=convert-qnn-to-tile", "--print-after=fold-constants"]) == ExitCode.DONE
    captured = capsys.readouterr()
    dumps = sorted(path.name for path in (tmp_path / "out" / "dumps").glob("*.mlir"))
    assert captured.out == f"stopped after convert-qnn-to-tile: out/dumps/{dumps[-1]}\n"
    assert len(dumps) == 4
    assert captured.err.count("wrote out/dumps/") == len(dumps)
    assert not (tmp_path / "out" / "network.json").exists()
    assert main([*COMPILE, "resumed", f"--resume-from=out/dumps/{dumps[-1]}"]) == ExitCode.DONE
    for path in Path(tiny).iterdir():
        assert path.read_bytes() == (tmp_path / "resumed" / path.name).read_bytes(), path.name


def test_stopping_prints_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(capsys, *COMPILE, "out", "--stop-after=fold-batch-norm")
    assert found["stopped_after"] == "fold-batch-norm"
    assert found["passes"][-1]["dump"].endswith("-fold-batch-norm.mlir")


def test_what_does_not_fit_exits_with_4_and_says_what_would(capsys: pytest.CaptureFixture[str]) -> None:
    small = [*COMPILE, "out", "--set", "parameters.scratchpad=256 B"]
    assert main(small) == ExitCode.INFEASIBLE
    captured = capsys.readouterr()
    assert captured.out.startswith("infeasible: Conv_1, Relu_1, QuantizeLinear_1: scratchpad capacity: needs")
    assert "would fit: a scratchpad of" in captured.out
    assert captured.err == ""
    assert main([*small, "--json"]) == ExitCode.INFEASIBLE
    assert json.loads(capsys.readouterr().out)["infeasible"]["unit"] == "bytes"


def test_examples_of_the_help_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE.parent, tmp_path / "docs" / "examples" / "networks")
    for verb in ("compile", "run", "explain"):
        for example in examples_of(capsys, verb):
            if "rtl" not in example:  # those run in tests/rtl
                assert main(example[1:]) == ExitCode.DONE, example


def test_open_dims_take_their_sizes_from_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = quantised_tiny(0)
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    (tmp_path / "open.onnx").write_bytes(model.SerializeToString(deterministic=True))
    found = run_json(capsys, "compile", "open.onnx", "--arch", "tpe_8x8", "-o", "open", "--shape", "batch=2")
    assert found["network"]["inputs"][0]["shape"] == [2, 8, 8, 4]


def test_the_host_takes_over_only_when_asked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "two.onnx").write_bytes(two_programs().SerializeToString(deterministic=True))
    compile_two = ["compile", "two.onnx", "--arch", "tpe_8x8", "-o", "two"]
    assert main(compile_two) == ExitCode.BAD_INPUT
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "CumSum_1: CumSum (operator set 13) has no form on the array" in captured.err
    assert "or run them on the host with --fallback" in captured.err
    assert main([*compile_two, "--fallback"]) == ExitCode.DONE
    out = capsys.readouterr().out
    assert "program1:\n" in out
    assert "host, between  DequantizeLinear, CumSum, QuantizeLinear (" in out
    found = run_json(capsys, "run", "two", "--on", "replay")
    assert [program["name"] for program in found["programs"]] == ["program0", "program1"]
    assert main(["explain", "two", "-o", "figures", "-q"]) == ExitCode.DONE
    assert (tmp_path / "figures" / "program1_layers.png").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compile", "nothing.onnx", "--arch", "tpe_8x8", "-o", "x"], "nothing.onnx: no such file"),
        (
            ["compile", MODEL, "--arch", "h100_sxm", "-o", "x"],
            "h100_sxm is of kind gpu; networks are compiled for kind",
        ),
        (["compile", MODEL, "--arch", "ref16", "-o", "x"], "ref16 is no tensor PE array"),
        ([*COMPILE, "x", "--stop-after=fold-constant"], "did you mean 'fold-constants'"),
        ([*COMPILE, "x", "--print-after=nothing"], "--print-after=nothing: there is no pass of that name"),
        ([*COMPILE, "x", "--resume-from=no.mlir"], "no.mlir: cannot be read"),
        ([*COMPILE, "x", "--shape", "batch"], "'batch' is not NAME=VALUE"),
        (["run", "nothing", "--on", "functional"], "nothing: no such folder; tileloom compile makes one"),
        (["run", "nothing", "--on", "gpu"], "'gpu' is not one of 'functional', 'replay', 'rtl'"),
        (["run", "nothing", "--on", "functional", "-o", "x.bin"], "'x.bin' must end in .npz"),
        (["run", "nothing", "--on", "replay", "-o", "x.npz"], "a replay knows no values"),
        (["run", "nothing", "--on", "replay", "--layers"], "use --on rtl"),
        (["explain", "nothing"], "nothing: no such folder"),
    ],
)
def test_bad_input_exits_with_2_and_an_empty_answer(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(arguments) == ExitCode.BAD_INPUT
    captured = capsys.readouterr()
    assert message in " ".join(captured.err.replace("│", " ").split())
    assert captured.out == ""


def test_run_gives_outputs_of_a_seed(capsys: pytest.CaptureFixture[str], tiny: str) -> None:
    assert main(["run", tiny, "--on", "functional", "--seed", "3", "-o", "a.npz"]) == ExitCode.DONE
    captured = capsys.readouterr()
    assert captured.err == "random inputs of seed 3\nwrote a.npz\n"
    assert captured.out.startswith("output QuantizeLinear_7: 1 x 4, int8, from ")
    saved = load_network(tiny)
    given = np.random.default_rng(3).integers(-128, 127, (1, 8, 8, 4), dtype=np.int8, endpoint=True)
    np.savez("given.npz", allow_pickle=False, input=given)
    assert main(["run", tiny, "--on", "functional", "--input", "given.npz", "-o", "b.npz"]) == ExitCode.DONE
    assert capsys.readouterr().err == "wrote b.npz\n"
    expected = saved.network.run(
        {"input": given}, lambda _, image, memory: FunctionalSimulator(image.array).run(image.program, memory)
    )
    for name in ("a.npz", "b.npz"):
        with np.load(name) as found:
            assert (found["QuantizeLinear_7"] == expected["QuantizeLinear_7"]).all()


def test_run_json_has_the_fields_of_rtl_run(capsys: pytest.CaptureFixture[str], tiny: str) -> None:
    found = run_json(capsys, "run", tiny, "--on", "replay")
    assert found["on"] == "replay"
    assert found["seed"] is None
    assert found["rtl_cycles"] is None
    assert found["replay_cycles"] == sum(program["replay_cycles"] for program in found["programs"])
    assert found["stall_cycles"]["load"]["token"] >= 0
    assert set(found["busy_cycles"]) == {"load", "preload", "compute", "store"}
    assert 0 < found["utilization"] < 1
    functional = run_json(capsys, "run", tiny, "--on", "functional")
    assert functional["arrays"] == {"QuantizeLinear_7": {"shape": [1, 4], "dtype": "int8"}}
    assert functional["seed"] == 0
    assert functional["stall_cycles"] is None
    assert set(functional) == set(found)


def test_slower_memory_takes_longer(capsys: pytest.CaptureFixture[str], tiny: str) -> None:
    fast = run_json(capsys, "run", tiny, "--on", "replay", "--latency", "1")
    slow = run_json(capsys, "run", tiny, "--on", "replay", "--latency", "400")
    assert fast["replay_cycles"] < slow["replay_cycles"]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"inptu": np.zeros((1, 8, 8, 4), np.int8)}, "'inptu' is no input of the network; did you mean 'input'"),
        (
            {"input": np.zeros((1, 8, 8, 3), np.int8)},
            "input 'input' is int8 [1, 8, 8, 3]; it must be int8 [1, 8, 8, 4]",
        ),
        ({"input": np.zeros((1, 8, 8, 4), np.float32)}, "input 'input' is float32 [1, 8, 8, 4]; it must be int8"),
    ],
)
def test_inputs_are_checked(
    capsys: pytest.CaptureFixture[str], tiny: str, arrays: dict[str, Any], message: str
) -> None:
    np.savez("given.npz", allow_pickle=False, **arrays)
    assert main(["run", tiny, "--on", "functional", "--input", "given.npz"]) == ExitCode.BAD_INPUT
    assert message in capsys.readouterr().err


def test_layers_need_to_be_stored(capsys: pytest.CaptureFixture[str], tiny: str) -> None:
    assert main(["run", tiny, "--on", "rtl", "--layers"]) == ExitCode.BAD_INPUT
    assert "was compiled without --keep-layers" in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_stored_layers_name_the_one_that_differs() -> None:
    assert main([*COMPILE, "kept", "--keep-layers", "-q"]) == ExitCode.DONE
    image = load_network("kept").network.images["program"]
    memory = FunctionalSimulator(image.array).run(image.program, image.memory())
    layers = stored_layers(image, memory, memory)
    assert [layer.op for layer in layers] == [op.name for op in image.manifest.ops]
    assert not any(layer.num_different for layer in layers)
    region = next(r for r in image.manifest.memory.regions if r.name == layers[2].region)
    changed = memory.copy()
    changed[region.address + 5] ^= 1
    assert [layer.op for layer in stored_layers(image, changed, memory) if layer.num_different] == ["Conv_3"]


def test_run_refuses_arrays_without_names_and_cycles_of_a_simulator_without_any(
    tiny: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    np.save(tmp_path / "one.npy", np.zeros((1, 8, 8, 4), np.int8))
    assert main(["run", tiny, "--on", "functional", "--input", "one.npy"]) == ExitCode.BAD_INPUT
    assert "one.npy: no .npz file; write it with numpy.savez(path, input=array)" in capsys.readouterr().err
    assert main(["run", tiny, "--on", "functional", "--latency", "5"]) == ExitCode.BAD_INPUT
    assert "the functional simulator knows no cycles; use --on replay or --on rtl" in capsys.readouterr().err


def test_open_batch_dim_is_taken_as_one_and_said_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = quantised_tiny(0)
    batch = model.graph.input[0].type.tensor_type.shape.dim[0]
    batch.ClearField("dim_value")
    batch.dim_param = "N"
    path = tmp_path / "open.onnx"
    path.write_bytes(model.SerializeToString())
    assert main(["compile", str(path), "--arch", "tpe_8x8", "-o", "out"]) == ExitCode.DONE
    assert "batch: open dim 'N' is taken as 1\n" in capsys.readouterr().err
    found = run_json(capsys, "compile", str(path), "--arch", "tpe_8x8", "-o", "out")
    assert found["notices"] == ["batch: open dim 'N' is taken as 1"]
    given = run_json(capsys, "compile", str(path), "--arch", "tpe_8x8", "-o", "out", "--shape", "N=1")
    assert given["notices"] == []
