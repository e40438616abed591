"""Load a sweep: its specification, the base architecture and the workloads, with every fault at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ..archdsl import (
    Arch,
    ArchError,
    DescriptionTree,
    Diagnostic,
    Document,
    SpatialArch,
    SweepError,
    ToolkitError,
    Workload,
    YamlList,
    YamlMap,
    YamlScalar,
    YamlTree,
    arch_from_tree,
    find,
    load_tree,
    locate,
    nearest_hint,
    read_yaml,
    validate_tree,
)
from .constraints import Constraint, ConstraintError, parse_constraint
from .objectives import METRIC_NAMES
from .space import Axis, Space, read_space
from .spec import SweepSpec, WorkloadEntry
from .store import InputValue
from .terms import arch_paths, arch_term, has_path, named_path

ARCH_SUFFIXES = (".yaml", ".yml")
ONNX_SUFFIX = ".onnx"
LoadWorkload = Callable[[str, Mapping[str, int]], Workload]
"""Loads a workload from a path, notation or preset, with sizes for its dynamic dims."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A checked sweep, ready to run.

    Attributes:
        spec: What its file says.
        spec_text: The file's text.
        tree: The base architecture's description, to which each point's values are applied.
        base_arch: The base architecture.
        space: The swept fields and their values.
        constraints: The parsed constraints.
        workloads: The workloads, in the specification's order and under its names.
    """

    spec: SweepSpec
    spec_text: str
    tree: DescriptionTree
    base_arch: Arch
    space: Space
    constraints: tuple[Constraint, ...]
    workloads: tuple[Workload, ...]


def load_sweep(path: Path, load_workload: LoadWorkload) -> Sweep:
    """Load and check a sweep specification.

    Args:
        path: The YAML file; the base and the workloads' files are relative to it.
        load_workload: Loads a workload.

    Raises:
        SweepError: With every fault of the file, of the base and of the workloads in its diagnostics.
    """
    document = read_yaml(path, SweepError)
    faults: list[Diagnostic] = []
    spec, spec_faults = validate_tree(document.root, SweepSpec)
    faults += spec_faults
    space, space_faults = read_space(find(document.root, ("space",)))
    faults += space_faults
    checker = _Checker(document, path.parent, faults)
    base = checker.load_base()
    constraints = checker.parse_constraints()
    if base is not None:
        checker.check_space(space, *base)
        checker.check_constraints(constraints, space, base[1])
    workloads = checker.load_workloads(load_workload)
    if faults or spec is None or base is None:
        raise SweepError("", sorted(faults, key=lambda d: (d.file != document.source.name, d.file, d.line, d.column)))
    return Sweep(
        spec=spec,
        spec_text="\n".join(document.source.lines) + "\n",
        tree=base[0],
        base_arch=base[1],
        space=space,
        constraints=tuple(constraints.values()),
        workloads=tuple(replace(w, name=name) for w, name in zip(workloads, spec.workload_names, strict=True)),
    )


@dataclass(frozen=True, slots=True)
class _Checker:
    """Checks a specification against what it refers to, collecting faults."""

    document: Document
    folder: Path
    faults: list[Diagnostic]

    def load_base(self) -> tuple[DescriptionTree, Arch] | None:
        """The base architecture; None when it is missing or broken, which is reported."""
        node = find(self.document.root, ("base",))
        if not isinstance(node, YamlScalar) or not isinstance(node.value, str) or not node.value:
            return None
        is_path = node.value.endswith(ARCH_SUFFIXES) or "/" in node.value or "\\" in node.value
        try:
            tree = load_tree(self.folder / node.value if is_path else node.value)
            arch = arch_from_tree(tree)
        except ArchError as err:
            self.faults.extend(err.diagnostics)
            if not err.diagnostics:
                self.faults.append(node.place.diagnostic("base", str(err)))
            return None
        if not isinstance(arch, SpatialArch):
            message = f"'{node.value}' is of kind {arch.kind}; only spatial architectures can be swept"
            self.faults.append(node.place.diagnostic("base", message))
            return None
        return tree, arch

    def parse_constraints(self) -> dict[int, Constraint]:
        """The constraints that parse, by index."""
        parsed: dict[int, Constraint] = {}
        for idx in range(_num_items(self.document.root, "constraints")):
            node = find(self.document.root, ("constraints", idx))
            if not isinstance(node, YamlScalar) or not isinstance(node.value, str):
                continue  # validation has reported it
            try:
                parsed[idx] = parse_constraint(node.value)
            except ConstraintError as err:
                self._constraint_fault(idx, err.offset, str(err))
        return parsed

    def check_constraints(self, constraints: Mapping[int, Constraint], space: Space, arch: Arch) -> None:
        """Report names that are neither a metric, nor swept, nor a number of the architecture."""
        swept = [axis.path for axis in space.axes]
        for idx, constraint in constraints.items():
            for name in constraint.paths:
                if name in swept or arch_term(arch, name) is not None:
                    continue
                hint = nearest_hint(name, (*METRIC_NAMES, *swept, *arch_paths(arch)))
                offset = max(0, constraint.text.find(name))
                self._constraint_fault(
                    idx, offset, f"'{name}' is neither a metric nor a number of the architecture{hint}"
                )

    def check_space(self, space: Space, tree: DescriptionTree, arch: Arch) -> None:
        """Report paths that lead nowhere and values that their field does not take."""
        first: dict[str, Axis] = {}
        for axis_idx, axis in enumerate(space.axes):
            same = first.setdefault(named_path(arch, axis.path), axis)
            if same is not axis:
                message = f"this is the field that '{same.path}' sweeps on line {same.key_place.line}"
                self.faults.append(axis.key_place.diagnostic(f"space.{axis.path}", message))
                continue
            for idx, (value, place) in enumerate(zip(axis.values, axis.places, strict=True)):
                found = _value_faults(tree, space, axis_idx, idx)
                if found and not has_path(arch, tree, axis.path):
                    self.faults.append(axis.key_place.diagnostic(f"space.{axis.path}", found[0].message))
                    break
                is_listed = place not in axis.places[:idx]
                for fault in found:
                    message = fault.message if is_listed else f"{value}: {fault.message}"
                    self.faults.append(place.diagnostic(f"space.{axis.path}", message))

    def load_workloads(self, load_workload: LoadWorkload) -> list[Workload]:
        """The workloads that load; entries that are themselves faulty have been reported."""
        workloads: list[Workload] = []
        for idx in range(_num_items(self.document.root, "workloads")):
            node = find(self.document.root, ("workloads", idx))
            entry = _entry(node)
            if node is None or entry is None:
                continue
            try:
                workloads.append(load_workload(self._workload_name(entry.workload), entry.shapes))
            except ToolkitError as err:
                place = locate(self.document.root, ("workloads", idx, "workload"))
                message = err.diagnostics[0].message if err.diagnostics else str(err).partition("\n")[0]
                self.faults.append(place.diagnostic(f"workloads.{idx}", f"{entry.workload}: {message}"))
        return workloads

    def _workload_name(self, text: str) -> str:
        """A workload's name, with the path of a file that lies relative to the specification made full."""
        stem, suffix, options = text.partition(ONNX_SUFFIX)
        return f"{self.folder / stem}{suffix}{options}" if suffix else text

    def _constraint_fault(self, idx: int, offset: int, message: str) -> None:
        node = find(self.document.root, ("constraints", idx))
        assert isinstance(node, YamlScalar)
        place = node.place
        column = place.column + node.indent + offset
        self.faults.append(type(place)(place.source, place.line, column).diagnostic(f"constraints.{idx}", message))


def _num_items(root: YamlTree, section: str) -> int:
    node = find(root, (section,))
    return len(node.items) if isinstance(node, YamlList) else 0


def _entry(node: YamlTree | None) -> WorkloadEntry | None:
    """A workload's entry when it is valid by itself."""
    if isinstance(node, YamlScalar) and isinstance(node.value, str) and node.value:
        return WorkloadEntry(workload=node.value)
    return validate_tree(node, WorkloadEntry)[0] if isinstance(node, YamlMap) else None


def _value_faults(tree: DescriptionTree, space: Space, axis_idx: int, value_idx: int) -> tuple[Diagnostic, ...]:
    """Why a field does not take a value; empty when it does, also if only beside other swept values."""
    axis = space.axes[axis_idx]
    alone = _faults(tree, {axis.path: axis.values[value_idx]})
    if not alone or len(space.axes) == 1:
        return alone
    for others_idx in (0, -1, value_idx):
        others = {other.path: other.values[min(others_idx, len(other.values) - 1)] for other in space.axes}
        if not _faults(tree, {**others, axis.path: axis.values[value_idx]}):
            return ()
    return alone


def _faults(tree: DescriptionTree, overrides: Mapping[str, InputValue]) -> tuple[Diagnostic, ...]:
    try:
        arch_from_tree(tree, overrides)
    except ArchError as err:
        return err.diagnostics
    return ()
