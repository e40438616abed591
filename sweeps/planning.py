"""From a combination of values to a design point that can run: its id, its group, whether it may run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from ..archdsl import (
    Description,
    ToolkitError,
)
from .designs import Design, DesignError
from .evaluation import PointResult, Pricer, failed_result
from .loading import Sweep
from .points import PointHasher
from .samplers import Inputs
from .terms import bandwidth_unit, design_term, input_term
from .writer import PointRow

PRICE_FIELDS = frozenset(
    {
        "name", "description", "source", "notes", "clock", "technology", "capacity", "read_bandwidth",
        "write_bandwidth", "read_energy", "write_energy", "area", "latency", "width", "banks", "ports",
        "energy", "hop_energy", "dram",
    }
)  # fmt: skip
"""Fields that decide what accesses cost or which mappings fit, and never how many accesses a mapping makes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPoint:
    """A design point before it runs.

    Attributes:
        row: What the store lists.
        group: Key of its group.
        is_excluded: Whether a constraint rules it out without running it.
        failure: Its result when its values make no valid design.
    """

    row: PointRow
    group: Hashable = field(repr=False)
    is_excluded: bool = False
    failure: PointResult | None = None


def structure_key(arch: Description) -> Hashable:
    """Group key from the architecture's structure: everything but prices and capacities."""
    tree = _structure(arch.model_dump(mode="json", by_alias=True))
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).digest()


def _structure(tree: Any) -> Any:
    if isinstance(tree, dict):
        entries = cast("dict[str, Any]", tree)
        return {key: _structure(value) for key, value in entries.items() if key not in PRICE_FIELDS}
    if isinstance(tree, list):
        return [_structure(item) for item in cast("list[Any]", tree)]
    return tree


class Planner:
    """Plans the points of one sweep.

    Args:
        sweep: The sweep.
        version: Version of the model, part of every id.
        pricer: The model.
    """

    def __init__(self, sweep: Sweep, version: str, pricer: Pricer) -> None:
        self._sweep = sweep
        self._pricer = pricer
        self._hasher = PointHasher(sweep.workloads, sweep.spec.mapping, sweep.spec.constants, version)
        known = pricer.early_metrics(sweep.blueprint.base)
        self._early = tuple(c for c in sweep.constraints if set(c.metrics) <= known.keys())
        self._needs_metrics = any(constraint.metrics for constraint in self._early)
        self._paths = tuple(sorted({path for constraint in sweep.constraints for path in constraint.paths}))

    def plan(self, index: int, inputs: Inputs) -> PlannedPoint:
        """Plan one combination.

        Args:
            index: Its position in the sweep.
            inputs: Path and value per axis.
        """
        terms, design, error = self._resolve(inputs)
        is_excluded = self._is_excluded(terms)
        if design is None:
            point_id = self._hasher.inputs_id(inputs)
            row = PointRow(index=index, id=point_id, inputs=inputs, terms=terms)
            failure = None if error is None else failed_result(point_id, error)
            return PlannedPoint(row=row, group=None, is_excluded=is_excluded, failure=failure)
        row = PointRow(index=index, id=self._hasher.design_id(design), inputs=inputs, terms=terms)
        return PlannedPoint(row=row, group=self._pricer.group_key(design.arch), is_excluded=is_excluded)

    def is_allowed(self, inputs: Inputs) -> bool:
        """Whether a combination satisfies the constraints that can be decided before it runs."""
        return not self._early or not self._is_excluded(self._resolve(inputs)[0])

    def _is_excluded(self, terms: dict[str, float]) -> bool:
        return any(c.is_decided_by(terms) and not c.holds(terms) for c in self._early)

    def _resolve(self, inputs: Inputs) -> tuple[dict[str, float], Design | None, ToolkitError | None]:
        """Terms and design of a combination; no design when its values make no valid one."""
        terms = {path: term[0] for path, value in inputs if (term := input_term(value)) is not None}
        try:
            design = self._sweep.blueprint.design(dict(inputs))
        except DesignError as err:
            return terms, None, err
        for path in (*(path for path, _ in inputs), *self._paths):
            value = design_term(design, path)
            if value is not None:
                terms[path] = value
        if self._needs_metrics:
            terms |= self._pricer.early_metrics(design.arch)
        return terms, design, None


def axis_units(sweep: Sweep) -> Sequence[str]:
    """Canonical unit per axis; empty where values have none."""
    units: list[str] = []
    for axis in sweep.space.axes:
        found = {term[1] for value in axis.values if (term := input_term(value)) is not None}
        if axis.path.endswith("bandwidth"):
            found = {bandwidth_unit(sweep.blueprint.base)}
        units.append(found.pop() if len(found) == 1 else "")
    return units
