"""Descriptions from YAML: presets, `extends`, parameters, overrides, validation.

`load_arch` does all of it. A sweep calls `load_tree` once and `arch_from_tree` for every design point.
"""

from __future__ import annotations

from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass
from pathlib import Path as FilePath

from .errors import ArchError, Diagnostic
from .expressions import Resolver
from .gpu import GpuArch
from .overrides import apply_overrides, merge_base, overrides_from_python
from .spatial import SpatialArch
from .validation import SpecT, nearest_hint, validate_tree
from .yamlio import read_yaml
from .yamltree import YamlMap, YamlScalar, YamlTree

PRESET_FOLDER = FilePath(__file__).parent / "presets"
SUFFIXES = (".yaml", ".yml")

Arch = SpatialArch | GpuArch
ARCH_KINDS: dict[str, type[SpatialArch | GpuArch]] = {"spatial": SpatialArch, "gpu": GpuArch}


@dataclass(frozen=True, slots=True)
class DescriptionTree:
    """A description with `extends` and `override` resolved and its parameters still open.

    Attributes:
        root: The merged tree.
        name: File or preset that it was loaded from.
    """

    root: YamlMap
    name: str


def list_presets() -> tuple[str, ...]:
    """Names of the architectures that come with the package, sorted."""
    return tuple(sorted(path.stem for path in PRESET_FOLDER.glob("*.yaml") if not path.stem.startswith("_")))


def load_arch(path_or_preset: str | FilePath, overrides: AbstractMapping[str, object] | None = None) -> Arch:
    """Load and check one architecture.

    Args:
        path_or_preset: A YAML file, or the name of a preset.
        overrides: Values per dotted path, e.g. `{"hierarchy.scratchpad.capacity": "64 KiB", "parameters.rows": 8}`.

    Raises:
        ArchError: With every fault of the file and the overrides in its diagnostics.
    """
    return arch_from_tree(load_tree(path_or_preset), overrides)


def load_tree(path_or_preset: str | FilePath) -> DescriptionTree:
    """Read a description and what it extends; nothing is checked against a model yet.

    Args:
        path_or_preset: A YAML file, or the name of a preset.

    Raises:
        ArchError: A file is missing or is no YAML, or an `override` leads nowhere.
    """
    path, shown = find_description(path_or_preset)
    faults: list[Diagnostic] = []
    root = _merged(path, shown, (), faults)
    if faults:
        raise ArchError("", faults)
    return DescriptionTree(root, str(path_or_preset))


def arch_from_tree(tree: DescriptionTree, overrides: AbstractMapping[str, object] | None = None) -> Arch:
    """Check a tree as an architecture.

    Args:
        tree: What `load_tree` returned; it is not changed.
        overrides: As for `load_arch`.

    Raises:
        ArchError: With every fault in its diagnostics.
    """
    kind = tree.root.entries.get("kind")
    faults: list[Diagnostic] = []
    if not isinstance(kind, YamlScalar) or kind.value not in ARCH_KINDS:
        if kind is None:
            message = f"missing field 'kind'; known are {', '.join(ARCH_KINDS)}"
            faults.append(tree.root.place.diagnostic(("kind",), message))
        else:
            word = str(kind.value) if isinstance(kind, YamlScalar) else "?"
            faults.append(kind.place.diagnostic(("kind",), f"unknown kind '{word}'{nearest_hint(word, ARCH_KINDS)}"))
        raise ArchError("", faults)
    return spec_from_tree(tree, ARCH_KINDS[str(kind.value)], overrides)


def spec_from_tree(
    tree: DescriptionTree, model: type[SpecT], overrides: AbstractMapping[str, object] | None = None
) -> SpecT:
    """Apply overrides, put parameters in and check the result against a model.

    Raises:
        ArchError: With every fault in its diagnostics.
    """
    faults: list[Diagnostic] = []
    root = tree.root
    if overrides:
        root = apply_overrides(root, overrides_from_python(overrides), (), faults)
    resolver = Resolver(_parameters(root, faults), faults)
    resolver.resolve_parameters()
    resolved = resolver.resolve(root.without("parameters"))
    spec, more = validate_tree(resolved, model, broken=frozenset(resolver.broken))
    if spec is None or faults:
        raise ArchError("", [*faults, *more])
    return spec


def find_description(path_or_preset: str | FilePath, base: FilePath | None = None) -> tuple[FilePath, str]:
    """File of a description, and the name under which to report its faults.

    Args:
        path_or_preset: A YAML file, or the name of a preset.
        base: File that a relative path starts from; the working directory when left out.

    Raises:
        ArchError: Neither a file nor a preset.
    """
    text = str(path_or_preset)
    preset = PRESET_FOLDER / f"{text}.yaml"
    looks_like_path = isinstance(path_or_preset, FilePath) or text.endswith(SUFFIXES) or "/" in text or "\\" in text
    if not looks_like_path:
        if preset.is_file():
            return preset, f"preset:{text}"
        message = f"unknown preset '{text}'{nearest_hint(text, list_presets())} (a file's name ends in .yaml)"
        raise ArchError(message)
    path = FilePath(text) if base is None else base.parent / text
    if not path.is_file():
        raise ArchError(f"{path}: no such file")
    return path, str(path)


def _merged(path: FilePath, shown: str, chain: tuple[FilePath, ...], faults: list[Diagnostic]) -> YamlMap:
    """A file over the file that it extends, with its overrides applied."""
    document = read_yaml(path, ArchError, shown)
    root = document.root
    if not isinstance(root, YamlMap):
        raise ArchError("", [root.place.diagnostic("", "a description is a map of fields")])
    chain = (*chain, path.resolve())
    extends = root.entries.get("extends")
    own = root.without("extends", "override")
    if extends is not None:
        base = _base(extends, path, chain, faults)
        own = own if base is None else merge_base(base, own)
    override = root.entries.get("override")
    if isinstance(override, YamlMap):
        own = apply_overrides(own, override, ("override",), faults)
    elif override is not None:
        faults.append(override.place.diagnostic(("override",), "a map of dotted paths and values is needed here"))
    return own


def _base(extends: YamlTree, path: FilePath, chain: tuple[FilePath, ...], faults: list[Diagnostic]) -> YamlMap | None:
    if not isinstance(extends, YamlScalar) or not isinstance(extends.value, str):
        faults.append(extends.place.diagnostic(("extends",), "name a preset or a file, relative to this one"))
        return None
    try:
        base_path, shown = find_description(extends.value, path)
    except ArchError as err:
        faults.append(extends.place.diagnostic(("extends",), str(err)))
        return None
    if base_path.resolve() in chain:
        names = " -> ".join(link.name for link in [*chain, base_path])
        faults.append(extends.place.diagnostic(("extends",), f"files extend each other in a circle: {names}"))
        return None
    try:
        return _merged(base_path, shown, chain, faults)
    except ArchError as err:
        faults.extend(err.diagnostics)
        return None


def _parameters(root: YamlMap, faults: list[Diagnostic]) -> AbstractMapping[str, YamlTree]:
    parameters = root.entries.get("parameters")
    if parameters is None or (isinstance(parameters, YamlScalar) and parameters.value is None):
        return {}
    if isinstance(parameters, YamlMap):
        return parameters.entries
    faults.append(parameters.place.diagnostic(("parameters",), "a map of names and values is needed here"))
    return {}
