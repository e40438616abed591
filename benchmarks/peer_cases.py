"""The mappings that AccelForge, ZigZag and ours count, as our types and as plain data for the tools' runners."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tileloom.archdsl import (
    ANY_OP,
    Fanout,
    Mapping,
    Memory,
    Op,
    SpatialArch,
    dump_yaml,
    load_arch,
    parse_mapping,
    parse_notation,
)
from tileloom.models import ArchNumbers, resolve

DATA = Path(__file__).parents[1] / "tests/data/peers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One mapping of one op on `ref16` or a variant of it."""

    name: str
    op: Op
    arch: SpatialArch
    mapping: Mapping
    nodes: list[dict[str, Any]]


def load_cases() -> list[Case]:
    """The cases of `tests/data/peers/cases.yaml`."""
    cases: list[Case] = []
    for case in yaml.safe_load((DATA / "cases.yaml").read_text())["cases"]:
        text = dump_yaml({"schema_version": 1, "mapping": case["mapping"]})
        arch = load_arch("ref16", case.get("overrides"))
        assert isinstance(arch, SpatialArch)
        mapping = parse_mapping(text, case["name"])[ANY_OP]
        cases.append(
            Case(name=case["name"], op=parse_notation(case["op"]), arch=arch, mapping=mapping, nodes=case["mapping"])
        )
    return cases


def problem_of(name: str, op: Op, arch: SpatialArch, nodes: list[dict[str, Any]]) -> dict[str, Any]:
    """A case as plain data for the tools' runners; an unbounded rate or capacity is None."""
    tensors = [
        {
            "name": t.name,
            "role": str(t.role),
            "bits": t.bits,
            "axes": [[list(term) for term in a.terms] for a in t.axes],
        }
        for t in op.tensors
    ]
    return {
        "name": name,
        "arch": arch_data(arch, resolve(arch)),
        "op": {"dims": [list(dim) for dim in op.dims], "tensors": tensors},
        "mapping": nodes,
    }


def arch_data(arch: SpatialArch, numbers: ArchNumbers) -> dict[str, Any]:
    """An architecture as plain data, outermost first."""
    levels = {level.name: level for level in numbers.levels}
    nodes: list[dict[str, Any]] = []
    for node in arch.hierarchy:
        if isinstance(node, Memory):
            level = levels[node.name]
            nodes.append(
                {
                    "kind": "memory",
                    "name": node.name,
                    "is_outermost": not nodes,
                    "capacity_bytes": node.capacity_bytes,
                    "read_pj_per_byte": level.read_pj_per_byte,
                    "write_pj_per_byte": level.write_pj_per_byte,
                    "read_bytes_per_cycle": finite(level.read_bytes_per_cycle),
                    "write_bytes_per_cycle": finite(level.write_bytes_per_cycle),
                }
            )
        elif isinstance(node, Fanout):
            axes = [
                {"name": a.name, "size": a.size, "multicast": a.multicast, "reduction": a.reduction} for a in node.axes
            ]
            nodes.append({"kind": "fanout", "name": node.name, "axes": axes})
        else:
            nodes.append({"kind": "compute", "name": node.name, "pj_per_mac": numbers.mac_pj("int8")})
    return {"clock_hz": numbers.clock_hz, "nodes": nodes}


def finite(rate: float) -> float | None:
    """The rate, or None where there is no bound."""
    return None if math.isinf(rate) else rate
