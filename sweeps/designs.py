"""From a combination of values to a design: a resolved architecture or system, and the language models that it serves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..archdsl import (
    ArchError,
    Description,
    DescriptionTree,
    LanguageModel,
    SweepError,
    YamlMap,
    apply_overrides,
    find,
    overrides_from_python,
    validate_tree,
    variant_from_tree,
)
from .spec import ServeTerms, WorkloadEntry
from .store import InputValue

WORKLOADS = "workloads"
"""First step of the paths that lead into the workloads; all others lead into the description."""

DesignError = (ArchError, SweepError)
"""What values raise that make no valid design."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """One language model that a sweep serves.

    Attributes:
        name: Name in results.
        index: Where it stands among the specification's workloads.
        model: The model.
        terms: Traffic, layout, datatypes and batching.
    """

    name: str
    index: int
    model: LanguageModel
    terms: ServeTerms


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """One resolved design.

    Attributes:
        arch: Architecture or system.
        served: Language models that it serves; none where workloads are networks of ops.
        notes: What followed from the values.
    """

    arch: Description
    served: tuple[ServedModel, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """What all designs of a sweep are made from.

    Attributes:
        tree: Description of the base, to which each design's values are applied.
        base: The base.
        served: Language models, as the specification has them.
        entries: The specification's `workloads`, below a map; None without served models.
    """

    tree: DescriptionTree
    base: Description
    served: tuple[ServedModel, ...] = ()
    entries: YamlMap | None = field(default=None, repr=False)

    def design(self, inputs: Mapping[str, InputValue]) -> Design:
        """The design with those values.

        Args:
            inputs: Value per dotted path.

        Raises:
            ArchError: They make no valid description; with every fault.
            SweepError: They make no valid terms of serving; with every fault.
        """
        fields = {path: value for path, value in inputs.items() if not is_workload_path(path)}
        terms = {path: value for path, value in inputs.items() if is_workload_path(path)}
        variant = variant_from_tree(self.tree, self.base, fields)
        served = self._served(terms) if terms else self.served
        return Design(arch=variant.description, served=served, notes=variant.notes)

    def _served(self, values: Mapping[str, InputValue]) -> tuple[ServedModel, ...]:
        overrides = overrides_from_python(values)
        faults = [
            overrides.key_places[path].diagnostic(
                path, "of a workload, fields of its `serve` can be swept, as workloads.NAME.serve.tp"
            )
            for path in values
            if self.entries is None or path.split(".")[2:3] != ["serve"]
        ]
        if self.entries is None or faults:
            raise SweepError("", faults)
        root = apply_overrides(self.entries, overrides, (), faults)
        found: list[ServedModel] = []
        for served in self.served:
            at = (WORKLOADS, served.index)
            node = find(root, at)
            assert node is not None  # overrides take no elements away
            entry, more = validate_tree(node, WorkloadEntry, at)
            faults += more
            if entry is not None and entry.serve is not None:
                found.append(replace(served, terms=entry.serve))
        if faults:
            raise SweepError("", faults)
        return tuple(found)


def is_workload_path(path: str) -> bool:
    """Whether a dotted path leads into the workloads, not into the description."""
    return path.partition(".")[0] == WORKLOADS
