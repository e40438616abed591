"""Description files as trees: presets, `extends`, `override`, and the architectures that a system's chips name."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass
from pathlib import Path as FilePath

from .derived_rates import in_proportion, with_origin
from .errors import ArchError, Diagnostic
from .overrides import apply_overrides, merge_base
from .spec import nearest_hint
from .yamlio import read_yaml
from .yamltree import Path, YamlList, YamlMap, YamlScalar, YamlTree

PRESET_FOLDER = FilePath(__file__).parent / "presets"
SYSTEM_FOLDER = PRESET_FOLDER / "systems"
SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class DescriptionTree:
    """A description with `extends` and `override` resolved and its parameters still open.

    Attributes:
        root: The merged tree.
        name: File or preset that it was loaded from.
        faults: Overrides of the file that lead nowhere.
    """

    root: YamlMap
    name: str
    faults: tuple[Diagnostic, ...] = ()


def list_presets() -> tuple[str, ...]:
    """Names of the architectures that come with the package, sorted."""
    return tuple(sorted(path.stem for path in PRESET_FOLDER.glob("*.yaml") if not path.stem.startswith("_")))


def list_systems() -> tuple[str, ...]:
    """Names of the systems that come with the package, sorted."""
    return tuple(sorted(path.stem for path in SYSTEM_FOLDER.glob("*.yaml") if not path.stem.startswith("_")))


def read_tree(path_or_preset: str | FilePath) -> DescriptionTree:
    """Read a description and what it extends; its faulty overrides are kept in the tree.

    Raises:
        ArchError: A file is missing or is no YAML.
    """
    path, shown = find_description(path_or_preset)
    faults: list[Diagnostic] = []
    root = _merged(path, shown, (), faults)
    return DescriptionTree(root, str(path_or_preset), tuple(faults))


def find_description(path_or_preset: str | FilePath, base: FilePath | None = None) -> tuple[FilePath, str]:
    """File of a description, and the name under which to report its faults.

    Args:
        path_or_preset: A YAML file, or the name of a preset.
        base: File that a relative path starts from; the working directory when left out.

    Raises:
        ArchError: Neither a file nor a preset.
    """
    text = str(path_or_preset)
    looks_like_path = isinstance(path_or_preset, FilePath) or text.endswith(SUFFIXES) or "/" in text or "\\" in text
    if not looks_like_path:
        for folder in (PRESET_FOLDER, SYSTEM_FOLDER):
            if (preset := folder / f"{text}.yaml").is_file():
                return preset, f"preset:{text}"
        known = [*list_presets(), *list_systems()]
        message = f"unknown preset '{text}'{nearest_hint(text, known)} (a file's name ends in .yaml)"
        raise ArchError(message)
    path = FilePath(text) if base is None else base.parent / text
    if not path.is_file():
        raise ArchError("", [Diagnostic(file=text, line=0, column=0, path="", message="no such file")])
    return path, str(path)


def read_chip_archs(root: YamlMap, faults: list[Diagnostic], unread: set[Path]) -> YamlMap:
    """A system in which the architectures that its chips name stand written out.

    Args:
        root: The system.
        faults: Faults of the names and the files are added here.
        unread: Paths of architectures that could not be read are added here.
    """
    read: dict[int, YamlTree] = {}
    for chip_idx, arch in chip_archs(root):
        if not isinstance(arch, YamlScalar) or not isinstance(arch.value, str) or "${" in arch.value:
            continue  # written out, or not a name yet
        path: Path = ("chips", chip_idx, "arch")
        try:
            file, shown = find_description(arch.value, arch.place.source.file)
        except ArchError as err:
            faults.append(arch.place.diagnostic(path, str(err)))
            unread.add(path)
            continue
        try:
            read[chip_idx] = _merged(file, shown, (), faults)
        except ArchError as err:
            faults.extend(err.diagnostics)
            unread.add(path)
    return with_chip_archs(root, read)


def chip_archs(root: YamlMap) -> Iterator[tuple[int, YamlTree]]:
    """Index and `arch` of each of a system's chip groups that has one."""
    chips = root.entries.get("chips")
    for chip_idx, group in enumerate(chips.items if isinstance(chips, YamlList) else ()):
        if isinstance(group, YamlMap) and "arch" in group.entries:
            yield chip_idx, group.entries["arch"]


def with_chip_archs(root: YamlMap, archs: AbstractMapping[int, YamlTree]) -> YamlMap:
    """The system with other architectures, by index of the chip group."""
    chips = root.entries.get("chips")
    if not archs or not isinstance(chips, YamlList):
        return root
    groups = [
        group.with_entry("arch", archs[chip_idx]) if isinstance(group, YamlMap) and chip_idx in archs else group
        for chip_idx, group in enumerate(chips.items)
    ]
    return root.with_entry("chips", YamlList(tuple(groups), chips.place))


def _merged(path: FilePath, shown: str, chain: tuple[FilePath, ...], faults: list[Diagnostic]) -> YamlMap:
    """A file over the file that it extends, with its overrides applied."""
    root = read_yaml(path, ArchError, shown).root
    if not isinstance(root, YamlMap):
        raise ArchError("", [root.place.diagnostic("", "a description is a map of fields")])
    own = root.without("extends", "override")
    if "extends" not in root.entries:
        return _with_overrides(own, root, faults)
    base = _base(root.entries["extends"], path, (*chain, path.resolve()), faults)
    scaled = in_proportion(base, _with_overrides(merge_base(base, own), root, []))
    merged = _with_overrides(merge_base(scaled, own), root, faults)
    return merged if scaled is base else with_origin(merged, scaled)


def _with_overrides(own: YamlMap, root: YamlMap, faults: list[Diagnostic]) -> YamlMap:
    """A file's fields with its overrides applied."""
    # So that overrides reach into them. What cannot be read is reported when the system is checked.
    own = read_chip_archs(own, [], set())
    override = root.entries.get("override")
    if isinstance(override, YamlMap):
        return apply_overrides(own, override, ("override",), faults)
    if override is not None:
        faults.append(override.place.diagnostic(("override",), "a map of dotted paths and values is needed here"))
    return own


def _base(extends: YamlTree, path: FilePath, chain: tuple[FilePath, ...], faults: list[Diagnostic]) -> YamlMap:
    """The file that another extends.

    Raises:
        ArchError: It cannot be had, so that the rest cannot be checked.
    """
    if not isinstance(extends, YamlScalar) or not isinstance(extends.value, str):
        message = "name a preset or a file, relative to this one"
        raise ArchError("", [extends.place.diagnostic(("extends",), message)])
    try:
        base_path, shown = find_description(extends.value, path)
    except ArchError as err:
        raise ArchError("", [extends.place.diagnostic(("extends",), str(err))]) from err
    if base_path.resolve() in chain:
        names = " -> ".join(link.name for link in [*chain, base_path])
        message = f"files extend each other in a circle: {names}"
        raise ArchError("", [extends.place.diagnostic(("extends",), message)])
    return _merged(base_path, shown, chain, faults)
