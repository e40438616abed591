"""Identity of design points: what changes an id and what does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tileloom.archdsl import Workload, load_arch
from tileloom.sweeps.designs import Design
from tileloom.sweeps.planning import structure_key
from tileloom.sweeps.points import PointHasher, model_version
from tileloom.sweeps.spec import ConstantsOptions, MappingOptions, default_name

from .fake_evaluator import fake_load

WORKLOAD = fake_load("network", {})


def ref16_id(
    *,
    overrides: dict[str, object] | None = None,
    workload: Workload = WORKLOAD,
    mapping: MappingOptions | None = None,
    version: str = "v",
) -> str:
    hasher = PointHasher([workload], mapping or MappingOptions(), ConstantsOptions(), version)
    return hasher.design_id(Design(arch=load_arch("ref16", overrides or {})))


def test_id_is_16_hexadecimal_digits() -> None:
    assert len(ref16_id()) == 16
    assert set(ref16_id()) <= set("0123456789abcdef")


def test_id_is_of_what_a_point_resolves_to() -> None:
    assert ref16_id(overrides={"hierarchy.scratchpad.capacity": "0.25 MiB"}) == ref16_id()
    assert ref16_id(overrides={"description": "another", "notes": "other"}) == ref16_id()
    assert ref16_id(workload=replace(WORKLOAD, source="elsewhere", notices=("batch is 1",))) == ref16_id()
    assert ref16_id(mapping=MappingOptions(objective="energy")) == ref16_id()


@pytest.mark.parametrize(
    "other",
    [
        ref16_id(overrides={"hierarchy.scratchpad.capacity": "128 KiB"}),
        ref16_id(overrides={"clock": "2 GHz"}),
        ref16_id(workload=fake_load("network_b", {})),
        ref16_id(workload=fake_load("network", {"batch": 2})),
        ref16_id(mapping=MappingOptions(objective="latency")),
        ref16_id(mapping=MappingOptions(convention="zigzag")),
        ref16_id(mapping=MappingOptions(time_limit_s=3.0)),
        ref16_id(version="w"),
    ],
)
def test_everything_that_decides_a_result_changes_the_id(other: str) -> None:
    assert other != ref16_id()


def test_ids_do_not_change_between_runs_and_machines() -> None:
    assert ref16_id() == ref16_id()
    assert model_version() == model_version()


def test_model_version_covers_code_and_tables_of_the_model_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("models/a.py", "archdsl/b.py", "compiler/c/d.py", "models/t.csv", "sweeps/points.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name, encoding="utf-8")
    monkeypatch.setattr("tileloom.sweeps.points.__file__", str(tmp_path / "sweeps" / "points.py"))

    def version() -> str:
        model_version.cache_clear()
        return model_version()

    try:
        before = version()
        (tmp_path / "sweeps" / "plots.py").write_text("x", encoding="utf-8")
        (tmp_path / "models" / "README.md").write_text("x", encoding="utf-8")
        (tmp_path / "models" / "__pycache__").mkdir()
        (tmp_path / "models" / "__pycache__" / "a.py").write_text("x", encoding="utf-8")
        assert version() == before
        for name in ("models/a.py", "archdsl/b.py", "compiler/c/d.py", "models/t.csv"):
            (tmp_path / name).write_text("changed", encoding="utf-8")
            assert version() != before
            before = version()
    finally:
        model_version.cache_clear()


@pytest.mark.parametrize(
    "overrides",
    [
        {"hierarchy.scratchpad.capacity": "64 KiB"},
        {"hierarchy.scratchpad.read_bandwidth": "8 B/cycle"},
        {"hierarchy.main_memory.write_energy": "10 pJ/B"},
        {"clock": "2 GHz"},
    ],
)
def test_prices_and_capacities_stay_in_one_group(overrides: dict[str, object]) -> None:
    assert structure_key(load_arch("ref16", overrides)) == structure_key(load_arch("ref16"))


@pytest.mark.parametrize(
    "overrides",
    [
        {"hierarchy.pe_array.axes.rows.size": 8},
        {"hierarchy.scratchpad.keeps": ["input", "weight"]},
        {"hierarchy.pe_array.axes.cols.multicast": False},
    ],
)
def test_whatever_changes_counts_makes_another_group(overrides: dict[str, object]) -> None:
    assert structure_key(load_arch("ref16", overrides)) != structure_key(load_arch("ref16"))


@pytest.mark.parametrize(
    ("workload", "name"),
    [
        ("nets/resnet.onnx", "resnet"),
        ("onnx:resnet50", "resnet50"),
        ("preset:bert", "bert"),
        ("gemm:M=2,N=2,K=2,bits=8", "gemm:M=2,N=2,K=2,bits=8"),
        ("nets/resnet.onnx:batch=4", "resnet"),
        ("onnx:resnet50:datatype=int8,acc_bits=32", "resnet50"),
        ("transformer_block", "transformer_block"),
        ("transformer_block:hidden=768", "transformer_block"),
    ],
)
def test_default_name_of_a_workload(workload: str, name: str) -> None:
    assert default_name(workload) == name
