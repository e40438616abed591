"""Load a sweep: its specification, the base architecture and the workloads, with every fault at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ..archdsl import (
    ArchError,
    Description,
    DescriptionTree,
    Diagnostic,
    Document,
    GpuArch,
    SpatialArch,
    SweepError,
    System,
    ToolkitError,
    Workload,
    YamlList,
    YamlMap,
    YamlScalar,
    YamlTree,
    description_from_tree,
    find,
    load_language_model,
    load_tree,
    locate,
    nearest_hint,
    read_yaml,
    validate_tree,
)
from .constraints import Constraint, ConstraintError, parse_constraint
from .designs import WORKLOADS, Blueprint, Design, DesignError, ServedModel, is_workload_path
from .objectives import DEFAULT_OBJECTIVES, METRIC_NAMES, METRICS_OF, Objective, Pricing, objectives_of
from .space import Axis, Space, read_space
from .spec import SweepSpec, WorkloadEntry, default_name
from .store import InputValue
from .terms import design_term, has_path, named_path, term_paths

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
        pricing: What prices its designs.
        blueprint: The base and the language models that are served, to which each point's values are applied.
        space: The swept fields and their values.
        constraints: The parsed constraints.
        workloads: Networks of ops, in the specification's order and under its names; none where models are served.
    """

    spec: SweepSpec
    spec_text: str
    pricing: Pricing
    blueprint: Blueprint
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
    served, workloads = checker.load_served(), checker.load_workloads(load_workload)
    pricing = pricing_of(None if base is None else base[1], is_served=checker.num_with_serve() > 0)
    constraints = checker.parse_constraints(pricing)
    blueprint = None
    if base is not None:
        blueprint = Blueprint(tree=base[0], base=base[1], served=served, entries=checker.entries if served else None)
        checker.check_space(space, blueprint)
        checker.check_constraints(constraints, space, blueprint)
        checker.check_pricing(pricing, base[1])
    checker.check_objectives(pricing, constraints)
    if faults or spec is None or blueprint is None:
        raise SweepError("", sorted(faults, key=lambda d: (d.file != document.source.name, d.file, d.line, d.column)))
    if not spec.objectives:
        spec = spec.model_copy(update={"objectives": DEFAULT_OBJECTIVES[pricing]})
    return Sweep(
        spec=spec,
        spec_text="\n".join(document.source.lines) + "\n",
        pricing=pricing,
        blueprint=blueprint,
        space=space,
        constraints=tuple(constraints.values()),
        workloads=tuple(replace(w, name=name) for w, name in zip(workloads, spec.workload_names, strict=False)),
    )


def pricing_of(base: Description | None, *, is_served: bool) -> Pricing:
    """What prices the designs of a sweep around a base; of an unknown base, what would price a spatial one."""
    if is_served:
        return Pricing.SERVING
    return Pricing.KERNELS if isinstance(base, GpuArch) else Pricing.MAPPING


@dataclass(frozen=True, slots=True)
class _Checker:
    """Checks a specification against what it refers to, collecting faults."""

    document: Document
    folder: Path
    faults: list[Diagnostic]

    @property
    def entries(self) -> YamlMap:
        """The specification, whose `workloads` paths lead into."""
        assert isinstance(self.document.root, YamlMap)  # there are served models in it
        return self.document.root

    def load_base(self) -> tuple[DescriptionTree, Description] | None:
        """The base; None when it is missing or broken, which is reported."""
        node = find(self.document.root, ("base",))
        if not isinstance(node, YamlScalar) or not isinstance(node.value, str) or not node.value:
            return None
        is_path = node.value.endswith(ARCH_SUFFIXES) or "/" in node.value or "\\" in node.value
        try:
            tree = load_tree(self.folder / node.value if is_path else node.value)
            return tree, description_from_tree(tree)
        except ArchError as err:
            self.faults.extend(err.diagnostics)
            if not err.diagnostics:
                self.faults.append(node.place.diagnostic("base", str(err)))
            return None

    def num_with_serve(self) -> int:
        """Workloads that are language models to serve, sound or not."""
        items = (find(self.document.root, (WORKLOADS, i)) for i in range(_num_items(self.document.root, WORKLOADS)))
        return sum(isinstance(item, YamlMap) and "serve" in item.entries for item in items)

    def check_pricing(self, pricing: Pricing, base: Description) -> None:
        """Report a base that does not suit the workloads, and options that nothing reads."""
        if 0 < self.num_with_serve() < _num_items(self.document.root, WORKLOADS):
            message = (
                "some workloads have `serve` and some have not; language models and networks need sweeps of their own"
            )
            self._fault(WORKLOADS, message)
        if pricing is Pricing.SERVING and isinstance(base, SpatialArch):
            self._fault(
                "base", f"'{base.name}' is of kind {base.kind}; language models are served on GPUs and systems of them"
            )
        if pricing is not Pricing.SERVING and isinstance(base, System):
            message = (
                f"'{base.name}' is of kind system; networks of ops run on one chip: name it, or give workloads `serve`"
            )
            self._fault("base", message)
        unread = "constants" if pricing is Pricing.MAPPING else "mapping"
        if find(self.document.root, (unread,)) is not None:
            what = "GPUs and systems" if unread == "constants" else "networks on spatial architectures"
            self._fault(
                unread, f"`{unread}` is for {what}; designs priced by {pricing.value} do not read it: leave it out"
            )

    def check_objectives(self, pricing: Pricing, constraints: Mapping[int, Constraint]) -> None:
        """Report objectives and metrics that designs so priced do not have."""
        known = [objective.value for objective in objectives_of(pricing)]
        for idx in range(_num_items(self.document.root, "objectives")):
            node = find(self.document.root, ("objectives", idx))
            name = str(node.value) if isinstance(node, YamlScalar) else ""
            if node is not None and name in list(Objective) and name not in known:
                message = f"designs priced by {pricing.value} have no '{name}'; known are {', '.join(known)}"
                self.faults.append(node.place.diagnostic(f"objectives.{idx}", message))
        metrics = [metric.name for metric in METRICS_OF[pricing]]
        for idx, constraint in constraints.items():
            for name in constraint.metrics:
                if name not in metrics:
                    message = f"designs priced by {pricing.value} have no '{name}'; known are {', '.join(metrics)}"
                    self._constraint_fault(idx, max(0, constraint.text.find(name)), message)

    def parse_constraints(self, pricing: Pricing) -> dict[int, Constraint]:
        """The constraints that parse, by index."""
        parsed: dict[int, Constraint] = {}
        for idx in range(_num_items(self.document.root, "constraints")):
            node = find(self.document.root, ("constraints", idx))
            if not isinstance(node, YamlScalar) or not isinstance(node.value, str):
                continue  # validation has reported it
            try:
                parsed[idx] = parse_constraint(node.value, pricing.bandwidth_unit)
            except ConstraintError as err:
                self._constraint_fault(idx, err.offset, str(err))
        return parsed

    def check_constraints(self, constraints: Mapping[int, Constraint], space: Space, blueprint: Blueprint) -> None:
        """Report names that are neither a metric, nor swept, nor a number of the architecture."""
        swept = [axis.path for axis in space.axes]
        base = Design(arch=blueprint.base, served=blueprint.served)
        for idx, constraint in constraints.items():
            for name in constraint.paths:
                if name in swept or design_term(base, name) is not None:
                    continue
                hint = nearest_hint(name, (*METRIC_NAMES, *swept, *term_paths(base)))
                offset = max(0, constraint.text.find(name))
                self._constraint_fault(
                    idx, offset, f"'{name}' is neither a metric nor a number of the architecture{hint}"
                )

    def check_space(self, space: Space, blueprint: Blueprint) -> None:
        """Report paths that lead nowhere and values that their field does not take."""
        first: dict[str, Axis] = {}
        for axis_idx, axis in enumerate(space.axes):
            same = first.setdefault(_plain_path(blueprint, axis.path), axis)
            if same is not axis:
                message = f"this is the field that '{same.path}' sweeps on line {same.key_place.line}"
                self.faults.append(axis.key_place.diagnostic(f"space.{axis.path}", message))
                continue
            for idx, (value, place) in enumerate(zip(axis.values, axis.places, strict=True)):
                found = _value_faults(blueprint, space, axis_idx, idx)
                if found and not _is_path(blueprint, axis.path):
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
            if node is None or entry is None or entry.serve is not None:
                continue
            try:
                workloads.append(load_workload(self._workload_name(entry.workload), entry.shapes))
            except ToolkitError as err:
                self._workload_fault(idx, entry, err)
        return workloads

    def load_served(self) -> tuple[ServedModel, ...]:
        """The language models that load; entries that are themselves faulty have been reported."""
        found: list[ServedModel] = []
        for idx in range(_num_items(self.document.root, WORKLOADS)):
            entry = _entry(find(self.document.root, (WORKLOADS, idx)))
            if entry is None or entry.serve is None:
                continue
            try:
                model = load_language_model(self._model_name(entry.workload))
            except ToolkitError as err:
                self._workload_fault(idx, entry, err)
                continue
            name = entry.name or default_name(entry.workload)
            found.append(ServedModel(name=name, index=idx, model=model, terms=entry.serve))
        return tuple(found)

    def _workload_fault(self, idx: int, entry: WorkloadEntry, error: ToolkitError) -> None:
        place = locate(self.document.root, (WORKLOADS, idx, "workload"))
        message = error.diagnostics[0].message if error.diagnostics else str(error).partition("\n")[0]
        self.faults.append(place.diagnostic(f"{WORKLOADS}.{idx}", f"{entry.workload}: {message}"))

    def _model_name(self, text: str) -> str:
        """A language model's name, with the path of a file that lies relative to the specification made full."""
        is_path = text.endswith((*ARCH_SUFFIXES, ".json")) or "/" in text or "\\" in text
        return str(self.folder / text) if is_path else text

    def _fault(self, path: str, message: str) -> None:
        self.faults.append(locate(self.document.root, (path,)).diagnostic(path, message))

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


def _plain_path(blueprint: Blueprint, path: str) -> str:
    """A dotted path in the one spelling that all spellings of it have in common."""
    if not is_workload_path(path):
        return named_path(blueprint.base, path)
    section, name, *rest = path.split(".")
    names = {str(served.index): served.name for served in blueprint.served}
    return ".".join([section, names.get(name, name), *rest])


def _is_path(blueprint: Blueprint, path: str) -> bool:
    if is_workload_path(path):
        return design_term(Design(arch=blueprint.base, served=blueprint.served), path) is not None
    return has_path(blueprint.base, blueprint.tree, path)


def _value_faults(blueprint: Blueprint, space: Space, axis_idx: int, value_idx: int) -> tuple[Diagnostic, ...]:
    """Why a field does not take a value; empty when it does, also if only beside other swept values."""
    axis = space.axes[axis_idx]
    alone = _faults(blueprint, {axis.path: axis.values[value_idx]})
    if not alone or len(space.axes) == 1:
        return alone
    for others_idx in (0, -1, value_idx):
        others = {other.path: other.values[min(others_idx, len(other.values) - 1)] for other in space.axes}
        if not _faults(blueprint, {**others, axis.path: axis.values[value_idx]}):
            return ()
    return alone


def _faults(blueprint: Blueprint, inputs: Mapping[str, InputValue]) -> tuple[Diagnostic, ...]:
    try:
        blueprint.design(inputs)
    except DesignError as err:
        return err.diagnostics
    return ()
