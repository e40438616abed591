"""Mapping files: the documented example, several ops, and faults at their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileloom.archdsl import (
    ANY_OP,
    Keep,
    MappingError,
    Op,
    Spatial,
    SpatialArch,
    Temporal,
    Tensor,
    TensorAxis,
    TensorRole,
    dump_mapping,
    load_arch,
    load_mapping,
    load_mapping_file,
    parse_mapping,
)

EXAMPLE = """\
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


def gemm(name: str = "mm") -> Op:
    def tensor(letter: str, role: TensorRole, dims: str) -> Tensor:
        axes = tuple(TensorAxis(terms=((dim, 1),)) for dim in dims)
        return Tensor(name=letter, role=role, bits=8, axes=axes)

    return Op(
        name=name,
        kind="gemm",
        dims=(("M", 512), ("N", 512), ("K", 512)),
        tensors=(
            tensor("A", TensorRole.INPUT, "MK"),
            tensor("W", TensorRole.WEIGHT, "KN"),
            tensor("Z", TensorRole.OUTPUT, "MN"),
        ),
        datatype="int8",
    )


def ref16() -> SpatialArch:
    arch = load_arch("ref16")
    assert isinstance(arch, SpatialArch)
    return arch


def write(folder: Path, text: str) -> Path:
    path = folder / "mapping.yaml"
    path.write_text(text)
    return path


def test_example_is_read_and_written_as_documented() -> None:
    mapping = parse_mapping(EXAMPLE)[ANY_OP]
    assert mapping.nodes[0] == Keep(level="main_memory", tensors=("A", "W", "Z"))
    assert mapping.nodes[1] == Temporal(dim="M", tile=128)
    assert mapping.nodes[7] == Spatial(dim="K", tile=1, fanout="pe_array", axis="rows")
    assert dump_mapping(mapping) == EXAMPLE


def test_mappings_are_found_by_op_name(tmp_path: Path) -> None:
    body = EXAMPLE.partition("mapping:\n")[2].replace("  - ", "    - ")
    path = write(tmp_path, f"schema_version: 1\nmappings:\n  /layer/mm:\n{body}")
    assert set(load_mapping(path)) == {"/layer/mm"}
    file = load_mapping_file(path)
    assert file.mapping_for(gemm("/layer/mm"), ref16()) == parse_mapping(EXAMPLE)[ANY_OP]
    with pytest.raises(MappingError) as caught:
        file.mapping_for(gemm("/layer/nn"), ref16())
    head = f"{path}:2:1: mappings: no mapping of op '/layer/nn'; did you mean '/layer/mm'?"
    assert str(caught.value).splitlines()[0] == head


def test_illegal_mapping_is_reported_at_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, EXAMPLE.replace("{for: N, tile: 64}", "{for: N, tile: 1024}"))
    with pytest.raises(MappingError) as caught:
        load_mapping_file(path).mapping_for(gemm(), ref16())
    (fault, *_) = caught.value.diagnostics
    assert (fault.line, fault.column, fault.path) == (6, 5, "mapping.3")
    assert fault.source_line == "  - {for: N, tile: 1024}"


def test_legal_mapping_is_handed_out(tmp_path: Path) -> None:
    assert load_mapping_file(write(tmp_path, EXAMPLE)).mapping_for(gemm(), ref16()) == parse_mapping(EXAMPLE)[ANY_OP]
