"""`tileloom estimate`: its numbers can be recomputed, its errors name the place, its files repeat."""

from __future__ import annotations

import csv
import json
import math
import shlex
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

from tileloom.archdsl import VectorOp, Workload, load_arch
from tileloom.compiler import load_workload
from tileloom.sweeps.cli import ExitCode, main
from tileloom.sweeps.commands.estimate import ConventionName, app
from tileloom.sweeps.document import EstimateDocument, OpDocument
from tileloom.sweeps.estimation import EstimateOptions, estimate_workload, merge_equal_ops

GEMM = "gemm:M=512,N=512,K=512,bits=8"
# The weight-stationary mapping of the reference GEMM; docs/mapping_file.md explains its lines.
WEIGHT_STATIONARY = """\
schema_version: 1
mapping:
  - {keep: [A, W, Z], level: main_memory}
  - {for: M, tile: 128}
  - {keep: [A], level: scratchpad}
  - {for: N, tile: 64}
  - {keep: [W, Z], level: scratchpad}
  - {for: K, tile: 16}
  - {for: N, tile: 16}
  - {spatial: K, axis: pe_array.rows, tile: 1}
  - {spatial: N, axis: pe_array.cols, tile: 1}
  - {keep: [W], level: register}
  - {for: M, tile: 1}
"""


@pytest.fixture
def mapping(tmp_path: Path) -> Path:
    path = tmp_path / "ws.yaml"
    path.write_text(WEIGHT_STATIONARY, encoding="utf-8")
    return path


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """Two equal products, a sum and an op that nobody knows."""
    nodes = [
        helper.make_node("Gemm", ["x", "w1"], ["a"], name="fc1"),
        helper.make_node("Gemm", ["a", "w2"], ["b"], name="fc2"),
        helper.make_node("Add", ["a", "b"], ["c"], name="add"),
        helper.make_node("Mystery", ["c"], ["y"], name="odd", domain="org.example"),
    ]
    weights = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [64, 64]) for n in ("w1", "w2")]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 64]), *weights],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 64])],
    )
    path = tmp_path / "tiny.onnx"
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("org.example", 1)]
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())
    return path


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Any:
    assert main(["estimate", *map(str, arguments), "--json"]) == ExitCode.DONE
    return json.loads(capsys.readouterr().out)


def recomputed_pj(op: OpDocument, document: EstimateDocument) -> float:
    """Energy of one run of an op from its actions and the energy table alone."""
    table = document["energy_table"]
    moved = [
        action["read"] * table["levels"][level]["read_pj_per_byte"]
        + action["write"] * table["levels"][level]["write_pj_per_byte"]
        for level, tensors in op["actions"].items()
        for action in tensors.values()
    ]
    macs = op["macs"] * table["pj_per_mac"].get(op["datatype"], 0.0)
    vector = op["vector_operations"] * table["pj_per_vector_operation"].get(op["datatype"], 0.0)
    return math.fsum([*moved, macs, vector])


def assert_adds_up(document: EstimateDocument) -> None:
    """Every total follows from the parts, as the document's description says."""
    ops, total = document["ops"], document["total"]
    for op in ops:
        assert recomputed_pj(op, document) == pytest.approx(op["energy_pj"], rel=1e-12)
        assert math.fsum(op["energy_parts_pj"].values()) == pytest.approx(op["energy_pj"], rel=1e-12)
    assert total["energy_pj"] == pytest.approx(math.fsum(op["energy_pj"] * op["count"] for op in ops), rel=1e-12)
    assert total["latency_cycles"] == pytest.approx(sum(op["latency_cycles"] * op["count"] for op in ops))
    assert total["latency_s"] == pytest.approx(total["latency_cycles"] / document["clock_hz"])
    assert total["macs"] == sum(op["macs"] * op["count"] for op in ops)
    assert total["area_mm2"] == pytest.approx(math.fsum(document["area_parts_mm2"].values()))
    memory = document["roofline"]["main_memory"]
    moved = sum(
        a["read"] + a["write"] for op in ops for a in op["actions"][memory].values() for _ in range(op["count"])
    )
    assert total["main_memory_bytes"] == moved


@pytest.mark.parametrize(("convention", "energy_uj"), [("accelforge", 205.8355), ("zigzag", 193.0428)])
def test_reference_mapping_gives_the_published_tools_energy(
    capsys: pytest.CaptureFixture[str], mapping: Path, convention: str, energy_uj: float
) -> None:
    found = run_json(capsys, GEMM, "--arch", "ref16", "--mapping", mapping, "--convention", convention)
    assert found["total"]["energy_pj"] / 1e6 == pytest.approx(energy_uj, rel=1e-6)
    assert found["total"]["latency_cycles"] == 524288


@pytest.mark.parametrize("fidelity", ["throughput", "detailed"])
def test_totals_follow_from_actions_and_table(
    capsys: pytest.CaptureFixture[str], mapping: Path, network: Path, fidelity: str
) -> None:
    assert_adds_up(run_json(capsys, GEMM, "--arch", "ref16", "--mapping", mapping, "--fidelity", fidelity))
    assert_adds_up(run_json(capsys, f"{network}:datatype=int8", "--arch", "tpe_16x16", "--fidelity", fidelity))


def test_json_has_the_fields_that_are_promised(capsys: pytest.CaptureFixture[str], mapping: Path) -> None:
    found = run_json(capsys, GEMM, "--arch", "ref16", "--mapping", mapping)
    assert {"schema_version", "arch", "workload", "convention", "fidelity", "unmodelled", "ops", "total"} <= set(found)
    assert (found["schema_version"], found["arch"], found["workload"]) == (1, "ref16", GEMM)
    (op,) = found["ops"]
    promised = {"name", "count", "latency_cycles", "energy_pj", "macs", "utilization", "bottleneck", "proved_optimal"}
    assert promised | {"mapping", "actions"} <= set(op)
    assert {"latency_cycles", "latency_s", "energy_pj", "area_mm2"} <= set(found["total"])
    assert op["actions"]["scratchpad"]["W"] == {"read": 1048576, "write": 1048576}
    assert op["mapping"][0] == {"keep": ["A", "W", "Z"], "level": "main_memory"}
    assert op["proved_optimal"] is None
    assert found["objective"] is None
    assert "leakage and idle power" in found["left_out"]
    assert found["sources"]["scratchpad.read_pj_per_byte"].startswith("given: ")


def test_search_proves_its_mapping_and_says_what_it_minimised(capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(capsys, GEMM, "--arch", "ref16", "--objective", "energy", "--convention", "accelforge")
    assert found["ops"][0]["proved_optimal"] is True
    assert found["objective"] == "energy"
    assert found["total"]["energy_pj"] <= 164.7313e6 * (1 + 1e-6)
    assert_adds_up(found)


def test_same_input_gives_the_same_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    texts: set[str] = set()
    for _ in range(3):
        assert main(["estimate", "gemm:M=96,N=80,K=64,bits=8", "--arch", "ref16", "--json"]) == ExitCode.DONE
        texts.add(capsys.readouterr().out)
    assert len(texts) == 1


def test_saved_mappings_give_the_same_estimate_again(
    capsys: pytest.CaptureFixture[str], network: Path, tmp_path: Path
) -> None:
    saved = tmp_path / "found.yaml"
    workload = f"{network}:datatype=int8"
    first = run_json(capsys, workload, "--arch", "ref16", "--save-mapping", saved)
    again = run_json(capsys, workload, "--arch", "ref16", "--mapping", saved)
    assert first["total"] == again["total"]
    assert [op["mapping"] for op in first["ops"]] == [op["mapping"] for op in again["ops"]]


def test_equal_ops_are_joined_and_counted(capsys: pytest.CaptureFixture[str], network: Path) -> None:
    found = run_json(capsys, f"{network}:datatype=int8", "--arch", "ref16", "--shape", "batch=4")
    products = [op for op in found["ops"] if op["macs"]]
    assert [(op["count"], op["nodes"]) for op in products] == [(2, ["fc1", "fc2"])]
    assert found["total"]["macs"] == 2 * 4 * 64 * 64


def test_vector_work_is_joined_whatever_its_tensors_are_called() -> None:
    def relu(name: str, tensor: str, read: int) -> VectorOp:
        return VectorOp(name=name, kind="relu", elements=8, read_bytes=((tensor, read),), write_bytes=(("y", 8),))

    workload = Workload(name="w", ops=(relu("a", "x", 8), relu("b", "z", 8), relu("c", "x", 16)))
    assert [(op.name, op.count) for op in merge_equal_ops(workload)] == [("a", 2), ("c", 1)]


def test_joining_equal_ops_keeps_macs_of_a_real_network() -> None:
    network = load_workload("onnx:resnet50:datatype=int8")
    joined = merge_equal_ops(network)
    assert sum(op.macs * op.count for op in joined) == network.macs
    assert sum(op.count for op in joined) == sum(op.count for op in network.ops)
    assert len(joined) < len(network.ops) / 3


def test_table_names_units_totals_and_what_limits(capsys: pytest.CaptureFixture[str], mapping: Path) -> None:
    assert main(["estimate", GEMM, "--arch", "ref16", "--mapping", str(mapping)]) == ExitCode.DONE
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [
        *("op", "kind", "runs", "MACs", "cycles", "utilization", "bottleneck", "energy", "[uJ]", "optimal")
    ]
    assert lines[1].split() == ["gemm", "gemm", "1", "134,217,728", "524,288", "100.0%", "mac", "205.8", "given"]
    assert "  latency      524,288 cycles = 524.288 us at 1 GHz (throughput fidelity)" in lines
    assert any(line.startswith("  energy       205.8355 uJ: main_memory 48.9%") for line in lines)
    assert "  main memory  1.5 MiB" in lines


def test_unmodelled_share_is_told_on_stderr_and_in_json(capsys: pytest.CaptureFixture[str], network: Path) -> None:
    assert main(["estimate", f"{network}:datatype=int8", "--arch", "ref16", "--json"]) == ExitCode.DONE
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert [(node["name"], node["kind"]) for node in found["unmodelled"]] == [("odd", "Mystery")]
    assert 0 < found["unmodelled_share"]["bytes"] < 1
    assert "warning: 1 nodes are not modelled (Mystery): 0.00% of the MACs" in captured.err
    assert any("batch" in notice for notice in found["notices"])
    assert "note: " in captured.err


def test_quiet_leaves_the_answer_alone(capsys: pytest.CaptureFixture[str], network: Path) -> None:
    assert main(["estimate", f"{network}:datatype=int8", "--arch", "ref16", "-q"]) == ExitCode.DONE
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "energy" in captured.out


def test_strict_stops_at_what_cannot_be_modelled(capsys: pytest.CaptureFixture[str], network: Path) -> None:
    assert main(["estimate", f"{network}:datatype=int8", "--arch", "ref16", "--strict"]) == ExitCode.BAD_INPUT
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Mystery" in captured.err


def test_override_changes_the_architecture(capsys: pytest.CaptureFixture[str], mapping: Path) -> None:
    path = "hierarchy.main_memory.read_energy"
    found = run_json(capsys, GEMM, "--arch", "ref16", "--mapping", mapping, "--set", f"{path}=0 pJ/B")
    assert found["energy_table"]["levels"]["main_memory"]["read_pj_per_byte"] == 0


def test_infeasible_prints_its_answer_and_exits_with_4(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["estimate", GEMM, "--arch", "ref16", "--set", "hierarchy.register.must_keep=[input, weight, output]"]
    command += ["--set", "hierarchy.register.capacity=2 B"]
    assert main(command) == ExitCode.INFEASIBLE
    captured = capsys.readouterr()
    assert captured.out.startswith("infeasible: gemm: register")
    assert "would fit:" in captured.out
    assert main([*command, "--json"]) == ExitCode.INFEASIBLE
    answer = json.loads(capsys.readouterr().out)["infeasible"]
    assert answer["demand"] > answer["limit"] == 2
    assert answer["unit"] == "bytes"


def test_illegal_mapping_points_at_its_line(capsys: pytest.CaptureFixture[str], mapping: Path) -> None:
    text = mapping.read_text(encoding="utf-8").replace(
        "{spatial: K, axis: pe_array.rows, tile: 1}", "{spatial: K, axis: pe_array.rows, tile: 16}"
    )
    mapping.write_text(text, encoding="utf-8")
    assert main(["estimate", GEMM, "--arch", "ref16", "--mapping", str(mapping)]) == ExitCode.BAD_INPUT
    err = capsys.readouterr().err
    assert f"error: {mapping}:" in err
    assert "gemm on ref16:" in err and " K" in err


def test_mapping_of_an_unknown_op_names_the_nearest(capsys: pytest.CaptureFixture[str], mapping: Path) -> None:
    mapping.write_text(WEIGHT_STATIONARY.replace("mapping:\n", "mappings:\n  gem:\n"), encoding="utf-8")
    assert main(["estimate", GEMM, "--arch", "ref16", "--mapping", str(mapping)]) == ExitCode.BAD_INPUT
    assert "'gem'; did you mean 'gemm'?" in capsys.readouterr().err


def test_lacking_datatype_names_the_op(capsys: pytest.CaptureFixture[str], network: Path) -> None:
    assert main(["estimate", str(network), "--arch", "ref16"]) == ExitCode.BAD_INPUT
    assert "fc1 (gemm, fp32): compute 'mac' does not multiply fp32; its datatypes are int8" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([GEMM, "--arch", "ref17"], "unknown preset 'ref17'"),
        (["gemm:M=0,N=1,K=1", "--arch", "ref16"], "M"),
        (["nothing.onnx", "--arch", "ref16"], "nothing.onnx"),
        ([GEMM, "--arch", "ref16", "--objective", "speed"], "objective 'speed'"),
        ([GEMM, "--arch", "ref16", "--convention", "mine"], "'mine'"),
        ([GEMM, "--arch", "ref16", "--shape", "batch"], "'batch' is not NAME=VALUE"),
        ([GEMM, "--arch", "ref16", "--shape", "batch=0"], "whole number of at least 1"),
        ([GEMM, "--arch", "ref16", "--shape", "b=1", "--shape", "b=2"], "'b' is given twice"),
        ([GEMM, "--arch", "ref16", "--mapping", "no_such.yaml"], "no_such.yaml"),
        ([GEMM, "--arch", "ref16", "--set", "clock"], "'clock' is not PATH=VALUE"),
        ([GEMM, "--arch", "dgx_h100"], "estimate on one of its chips"),
        ([GEMM], "--arch"),
    ],
)
def test_bad_input_exits_with_2_and_an_empty_answer(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["estimate", *arguments]) == ExitCode.BAD_INPUT
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_workload_without_modelled_ops_is_refused() -> None:
    with pytest.raises(Exception, match="nothing in it can be modelled"):
        estimate_workload(Workload(name="empty", ops=()), load_spatial("ref16"), EstimateOptions())


def load_spatial(name: str) -> Any:
    return load_arch(name)


def test_roofline_prints_a_table_and_draws_both_figures(
    capsys: pytest.CaptureFixture[str], mapping: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "figures"
    command = ["estimate", GEMM, "--arch", "ref16", "--mapping", str(mapping), "--roofline", str(folder)]
    assert main(command) == ExitCode.DONE
    captured = capsys.readouterr()
    assert "intensity [ops/B]" in captured.out
    assert sorted(path.name for path in folder.iterdir()) == [
        *("breakdown.csv", "breakdown.png", "breakdown.svg", "roofline.csv", "roofline.png", "roofline.svg")
    ]
    (row,) = csv.DictReader((folder / "roofline.csv").open(encoding="utf-8"))
    assert float(row["arithmetic_intensity_ops_per_byte"]) == pytest.approx(2 * 512**3 / 1572864)
    assert float(row["attained_ops_per_s"]) <= float(row["bound_ops_per_s"]) * (1 + 1e-9)
    assert row["limit"] == "compute"
    assert f"wrote {folder / 'roofline.png'}" in captured.err
    assert run_json(capsys, *command[1:])["roofline"]["peak_ops_per_s"] == {"int8": 512e9}


def test_conventions_of_the_help_are_those_of_the_model() -> None:
    from tileloom.models import CONVENTIONS

    assert {name.value for name in ConventionName} == set(CONVENTIONS)


def help_examples() -> list[str]:
    (command,) = app.registered_commands
    lines = [line.strip() for line in str(command.epilog).splitlines()]
    return [line for line in lines if line.startswith("tileloom ")]


@pytest.mark.parametrize("example", help_examples())
def test_examples_of_the_help_run(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    program, *arguments = shlex.split(example)
    assert program == "tileloom"
    assert main(arguments) == ExitCode.DONE
    assert capsys.readouterr().out
