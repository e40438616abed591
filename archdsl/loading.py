"""Architectures and systems from YAML: parameters, overrides, validation.

`load_arch` does all of it. A sweep calls `load_tree` once and `arch_from_tree` for every design point.
"""

from __future__ import annotations

from collections.abc import Mapping as AbstractMapping
from pathlib import Path as FilePath

from .description import DescriptionTree, chip_archs, read_chip_archs, read_tree, with_chip_archs
from .errors import ArchError, Diagnostic
from .expressions import Resolver
from .gpu import GpuArch
from .overrides import apply_overrides, overrides_from_python
from .spatial import SpatialArch
from .spec import SpecT, nearest_hint
from .system import System
from .validation import sorted_faults, validate_tree
from .yamltree import Path, YamlMap, YamlScalar, YamlTree

Arch = SpatialArch | GpuArch
Description = Arch | System
ARCH_KINDS: dict[str, type[SpatialArch | GpuArch]] = {"spatial": SpatialArch, "gpu": GpuArch}


def load_arch(path_or_preset: str | FilePath, overrides: AbstractMapping[str, object] | None = None) -> Arch:
    """Load and check one architecture.

    Args:
        path_or_preset: A YAML file, or the name of a preset.
        overrides: Values per dotted path, e.g. `{"hierarchy.scratchpad.capacity": "64 KiB", "parameters.rows": 8}`.

    Raises:
        ArchError: With every fault of the file and the overrides in its diagnostics.
    """
    return arch_from_tree(read_tree(path_or_preset), overrides)


def load_tree(path_or_preset: str | FilePath) -> DescriptionTree:
    """Read a description and what it extends; nothing is checked against a model yet.

    Args:
        path_or_preset: A YAML file, or the name of a preset.

    Raises:
        ArchError: A file is missing or is no YAML, or an `override` leads nowhere.
    """
    tree = read_tree(path_or_preset)
    if tree.faults:
        raise ArchError("", tree.faults)
    return tree


def arch_from_tree(tree: DescriptionTree, overrides: AbstractMapping[str, object] | None = None) -> Arch:
    """Check a tree as an architecture.

    Args:
        tree: What `load_tree` returned; it is not changed.
        overrides: As for `load_arch`.

    Raises:
        ArchError: With every fault in its diagnostics.
    """
    kind = tree.root.entries.get("kind")
    if isinstance(kind, YamlScalar) and kind.value in ARCH_KINDS:
        return spec_from_tree(tree, ARCH_KINDS[str(kind.value)], overrides)
    if kind is None:
        fault = tree.root.place.diagnostic(("kind",), f"missing field 'kind'; known are {', '.join(ARCH_KINDS)}")
    else:
        word = str(kind.value) if isinstance(kind, YamlScalar) else "a list or map"
        fault = kind.place.diagnostic(("kind",), f"unknown kind '{word}'{nearest_hint(word, ARCH_KINDS)}")
    faults = [*tree.faults, fault]
    if "hierarchy" not in tree.root.entries:
        raise ArchError("", faults)
    # Only a spatial architecture has a hierarchy, so its other faults can be found as well.
    root = _overridden(tree.root, overrides, faults)
    broken: set[Path] = {("kind",)}
    return _checked(_resolved(root, (), faults, broken), SpatialArch, faults, broken)


def load_description(
    path_or_preset: str | FilePath, overrides: AbstractMapping[str, object] | None = None
) -> Description:
    """Load and check an architecture or a system, whichever the file's `kind` says.

    Raises:
        ArchError: With every fault of the file and the overrides in its diagnostics.
    """
    return description_from_tree(read_tree(path_or_preset), overrides)


def description_from_tree(tree: DescriptionTree, overrides: AbstractMapping[str, object] | None = None) -> Description:
    """Check a tree as an architecture or a system, whichever its `kind` says.

    Raises:
        ArchError: With every fault in its diagnostics.
    """
    kind = tree.root.entries.get("kind")
    is_system = isinstance(kind, YamlScalar) and kind.value == "system"
    return system_from_tree(tree, overrides) if is_system else arch_from_tree(tree, overrides)


def load_system(path: str | FilePath, overrides: AbstractMapping[str, object] | None = None) -> System:
    """Load and check one system with the architectures that it names.

    Args:
        path: A YAML file.
        overrides: Values per dotted path, e.g. `{"chips.gpu.count": 4, "chips.gpu.arch.power.limit": "500 W"}`.

    Raises:
        ArchError: With every fault of the files and the overrides in its diagnostics.
    """
    return system_from_tree(read_tree(path), overrides)


def system_from_tree(tree: DescriptionTree, overrides: AbstractMapping[str, object] | None = None) -> System:
    """Check a tree as a system.

    Raises:
        ArchError: With every fault in its diagnostics.
    """
    faults = [*tree.faults]
    broken: set[Path] = set()
    root = _overridden(tree.root, overrides, faults)
    # Each architecture sees its own parameters only.
    written_out = {chip_idx: arch for chip_idx, arch in chip_archs(root) if isinstance(arch, YamlMap)}
    root = with_chip_archs(root, dict.fromkeys(written_out, YamlScalar(None, root.place)))
    root = with_chip_archs(_resolved(root, (), faults, broken), written_out)
    root = read_chip_archs(root, faults, broken)
    resolved: dict[int, YamlTree] = {
        chip_idx: _resolved(arch, ("chips", chip_idx, "arch"), faults, broken)
        for chip_idx, arch in chip_archs(root)
        if isinstance(arch, YamlMap)
    }
    return _checked(with_chip_archs(root, resolved), System, faults, broken)


def spec_from_tree(
    tree: DescriptionTree, model: type[SpecT], overrides: AbstractMapping[str, object] | None = None
) -> SpecT:
    """Apply overrides, put parameters in and check the result against a model.

    Raises:
        ArchError: With every fault in its diagnostics.
    """
    faults = [*tree.faults]
    broken: set[Path] = set()
    root = _overridden(tree.root, overrides, faults)
    return _checked(_resolved(root, (), faults, broken), model, faults, broken)


def _overridden(root: YamlMap, overrides: AbstractMapping[str, object] | None, faults: list[Diagnostic]) -> YamlMap:
    return apply_overrides(root, overrides_from_python(overrides), (), faults) if overrides else root


def _resolved(root: YamlMap, path: Path, faults: list[Diagnostic], broken: set[Path]) -> YamlMap:
    """The map without `parameters`, and with their values put in."""
    resolver = Resolver(_parameters(root, faults), faults, path)
    resolver.resolve_parameters()
    resolved = resolver.resolve(root.without("parameters"))
    broken |= resolver.broken
    assert isinstance(resolved, YamlMap)
    return resolved


def _checked(root: YamlMap, model: type[SpecT], faults: list[Diagnostic], broken: set[Path]) -> SpecT:
    spec, more = validate_tree(root, model, broken=frozenset(broken))
    if spec is None or faults:
        raise ArchError("", sorted_faults([*faults, *more]))
    return spec


def _parameters(root: YamlMap, faults: list[Diagnostic]) -> AbstractMapping[str, YamlTree]:
    parameters = root.entries.get("parameters")
    if parameters is None or (isinstance(parameters, YamlScalar) and parameters.value is None):
        return {}
    if isinstance(parameters, YamlMap):
        return parameters.entries
    faults.append(parameters.place.diagnostic(("parameters",), "a map of names and values is needed here"))
    return {}
