"""GPUs and systems with other values of some fields: chips of their own, whose rates follow their SMs and clock."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass

from .description import DescriptionTree
from .gpu import GpuArch
from .loading import Description, description_from_tree
from .system import System

VARIANT_SUFFIX = "_variant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A description with other values of some fields.

    Attributes:
        description: It, checked.
        notes: What followed from the given values.
    """

    description: Description
    notes: tuple[str, ...] = ()


def variant_from_tree(
    tree: DescriptionTree, base: Description, overrides: AbstractMapping[str, object] | None = None
) -> Variant:
    """Check a tree with overrides, of which a GPU or system becomes a variant of its base.

    Data sheets give rates of whole chips. With another number of SMs or another boost clock they change in proportion, unless the
    overrides give rates themselves. A GPU or system that differs from its base is named after it (`h100_sxm_variant`), so that
    measured constants of the base, which it keeps, are told to be borrowed. Spatial architectures stay as they are given.

    Args:
        tree: What `load_tree` returned.
        base: The description without overrides.
        overrides: Values per dotted path.

    Raises:
        ArchError: With every fault in its diagnostics.
    """
    described = description_from_tree(tree, overrides)
    given = tuple(overrides or ())
    if isinstance(described, GpuArch) and isinstance(base, GpuArch):
        arch, notes = _gpu_variant(described, base, given)
        return Variant(description=arch, notes=notes)
    if isinstance(described, System) and isinstance(base, System) and described != base:
        return _system_variant(described, base, given)
    return Variant(description=described)


def _system_variant(system: System, base: System, given: Collection[str]) -> Variant:
    before = {group.name: group.arch for group in base.chips}
    groups, notes = list(system.chips), list[str]()
    for idx, group in enumerate(system.chips):
        own = before.get(group.name)
        if isinstance(group.arch, GpuArch) and isinstance(own, GpuArch):
            prefixes = (f"chips.{group.name}.arch.", f"chips.{idx}.arch.")
            inside = [path.removeprefix(prefix) for path in given for prefix in prefixes if path.startswith(prefix)]
            arch, told = _gpu_variant(group.arch, own, inside)
            groups[idx] = group.model_copy(update={"arch": arch})
            notes += told
    renamed = system.model_copy(update={"name": _named_after(system.name), "chips": tuple(groups)})
    return Variant(description=renamed, notes=tuple(dict.fromkeys(notes)))


def _gpu_variant(arch: GpuArch, base: GpuArch, given: Collection[str]) -> tuple[GpuArch, tuple[str, ...]]:
    if arch == base:
        return base, ()
    name = _named_after(arch.name)
    scale = arch.num_sms * arch.clocks.boost_hz / (base.num_sms * base.clocks.boost_hz)
    changed: dict[str, object] = {"name": name}
    if scale == 1.0:
        return arch.model_copy(update=changed), ()
    if not _is_given("tensor_cores", given):
        types = {
            datatype: kind.model_copy(update={"dense_ops_per_s": kind.dense_ops_per_s * scale})
            for datatype, kind in arch.tensor_cores.datatypes.items()
        }
        changed["tensor_cores"] = arch.tensor_cores.model_copy(update={"datatypes": types})
    if not _is_given("vector_units", given):
        rates = {datatype: rate * scale for datatype, rate in arch.vector_units.ops_per_s.items()}
        changed["vector_units"] = arch.vector_units.model_copy(update={"ops_per_s": rates})
    # One line for all scales, so that a sweep says it once.
    note = f"{name}: rates of {base.name} in proportion to SMs and boost clock; power limit and idle power as given"
    return arch.model_copy(update=changed), (note,) if len(changed) > 1 else ()


def _is_given(field: str, given: Collection[str]) -> bool:
    return any(path == field or path.startswith(f"{field}.") for path in given)


def _named_after(name: str) -> str:
    return name if name.endswith(VARIANT_SUFFIX) else f"{name}{VARIANT_SUFFIX}"
