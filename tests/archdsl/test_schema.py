"""The JSON Schema for editors accepts what loads and refuses plain slips, in the YAML's spelling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tileloom.archdsl import (
    arch_json_schema,
    dump_arch,
    dump_system,
    list_presets,
    load_arch,
    load_system,
    parse_yaml,
    system_json_schema,
    to_plain,
)
from tileloom.archdsl.loading import read_tree

jsonschema: Any = pytest.importorskip("jsonschema", reason="checks the exported JSON Schema")


def faults(schema: dict[str, Any], text: str) -> list[Any]:
    validator = jsonschema.Draft202012Validator(schema)
    return list(validator.iter_errors(to_plain(parse_yaml(text).root)))


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return arch_json_schema()


def test_schema_is_a_schema(schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator.check_schema(system_json_schema())


@pytest.mark.parametrize("name", list_presets())
def test_preset_and_its_dump_conform(name: str, schema: dict[str, Any]) -> None:
    file = read_tree(name).root.place.source.file
    assert file is not None
    assert faults(schema, file.read_text(encoding="utf-8")) == []
    assert faults(schema, dump_arch(load_arch(name))) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("256 KiB", "262144"),
        ("256 KiB", "256 KB"),
        ("capacity: 256", "capacity_bytes: 256"),
        ("class: scratchpad", "class: buffer"),
        ("size: 16", "size: 0"),
        ("size: 16", "size: many"),
        ("kind: fanout", "kind: fan"),
        ("clock: 1 GHz\n", ""),
        ("name: mac\n", "name: mac\n    speed: 3\n"),
    ],
)
def test_slips_are_refused(old: str, new: str, schema: dict[str, Any]) -> None:
    text = dump_arch(load_arch("ref16"))
    assert old in text
    assert faults(schema, text.replace(old, new, 1)) != []


def test_file_that_extends_may_leave_fields_out(schema: dict[str, Any]) -> None:
    child = "extends: ref16\nname: child\ntechnology: {node: 7 nm}\nparameters: {rows: 4}\noverride: {clock: 2 GHz}\n"
    assert faults(schema, child) == []
    assert faults(schema, child.replace("node: 7 nm", "node: 7")) != []
    assert faults(schema, child.replace("extends: ref16\n", "")) != []


def test_expressions_may_stand_for_any_value(schema: dict[str, Any]) -> None:
    text = dump_arch(load_arch("ref16"))
    for old, new in [
        ("size: 16", "size: ${rows}"),
        ("256 KiB", "${kib} KiB"),
        ("class: scratchpad", "class: ${class}"),
    ]:
        text = text.replace(old, new, 1)
    assert faults(schema, text) == []


def test_every_field_is_described(schema: dict[str, Any]) -> None:
    for name, model in schema["$defs"].items():
        for field, about in model.get("properties", {}).items():
            target = schema["$defs"].get(str(about.get("$ref")).rpartition("/")[2], {})
            assert "description" in about or "description" in target, f"{name}.{field}"


def test_system_names_or_writes_out_its_architectures(tmp_path: Path) -> None:
    text = "schema_version: 1\nkind: system\nname: one\nchips: [{name: gpu, count: 2, arch: h100_sxm}]\n"
    path = tmp_path / "system.yaml"
    path.write_text(text)
    assert faults(system_json_schema(), text) == []
    assert faults(system_json_schema(), dump_system(load_system(path))) == []
    assert faults(system_json_schema(), text.replace("count: 2", "count: 0")) != []
