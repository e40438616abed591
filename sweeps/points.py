"""Identity of design points: the hash of everything that decides a result.

A point's id covers the resolved architecture or system (not how it was written), the workloads' ops or what is served
and how, the mapping options, the constants and the model version. It does not cover the sweep's name, objectives or constraints, so that
these may change without a finished point running again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import cast

from ..archdsl import (
    Description,
    Op,
    Workload,
)
from .designs import Design
from .spec import ConstantsOptions, MappingOptions
from .store import InputValue

ID_DIGITS = 16
MODEL_FOLDERS = ("archdsl", "models", "compiler")
DOCUMENTATION_FIELDS = frozenset({"description", "notes", "source"})


@cache
def model_version() -> str:
    """Version of the model: a hash of the code and tables that turn a design point into numbers.

    It changes with any edit of those files, also with one that changes no number: a stored result is
    never wrong, at worst computed again.
    """
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for folder in MODEL_FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix in (".py", ".csv", ".json", ".yaml") and "__pycache__" not in name:
                digest.update(name.encode() + b"\0" + path.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return digest.hexdigest()[:ID_DIGITS]


class PointHasher:
    """Makes the ids of a sweep's points.

    Args:
        workloads: The sweep's workloads, under their names in results.
        mapping: How ops are mapped.
        constants: Which constants models of GPUs have.
        version: Version of the model.
    """

    def __init__(
        self,
        workloads: Sequence[Workload],
        mapping: MappingOptions,
        constants: ConstantsOptions,
        version: str,
    ) -> None:
        parts = {
            "workloads": [[workload.name, _workload_content(workload)] for workload in workloads],
            "mapping": mapping.model_dump(mode="json", by_alias=True),
            "constants": constants.model_dump(mode="json"),
            "version": version,
        }
        self._common = hashlib.sha256(_canonical(parts))

    def design_id(self, design: Design) -> str:
        """Id of a point by its resolved design, as 16 hexadecimal digits."""
        digest = self._common.copy()
        digest.update(_canonical(_arch_content(design.arch)))
        for served in design.served:
            content = [served.name, served.model.model_dump(mode="json"), served.terms.model_dump(mode="json")]
            digest.update(_canonical(_without_documentation(content)))
        return digest.hexdigest()[:ID_DIGITS]

    def inputs_id(self, inputs: Sequence[tuple[str, InputValue]]) -> str:
        """Id of a point whose inputs make no valid design."""
        digest = self._common.copy()
        digest.update(b"inputs" + _canonical(dict(inputs)))
        return digest.hexdigest()[:ID_DIGITS]


def _arch_content(arch: Description) -> object:
    return _without_documentation(arch.model_dump(mode="json", by_alias=True))


def _workload_content(workload: Workload) -> list[object]:
    """What the model reads of a workload: not where it came from and what was remarked on the way."""
    ops = [{"type": "op" if isinstance(op, Op) else "vector", **asdict(op)} for op in workload.ops]
    return [*ops, [asdict(node) for node in workload.unmodelled]]


def _without_documentation(tree: object) -> object:
    if isinstance(tree, dict):
        items = cast("dict[str, object]", tree).items()
        return {key: _without_documentation(value) for key, value in items if key not in DOCUMENTATION_FIELDS}
    if isinstance(tree, list):
        return [_without_documentation(item) for item in cast("list[object]", tree)]
    return tree


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
