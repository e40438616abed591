"""Rates of a GPU that extends another with other SMs or another clock, where its file gives none.

Data sheets give rates of whole chips. A file that changes `sms` or `clocks.boost` and leaves out a rate means that of its
base in proportion, as overrides and sweeps have it (`variants`).
"""

from __future__ import annotations

from collections.abc import Iterator

from . import units
from .yamltree import Path, YamlMap, YamlScalar, YamlTree

RATES_FROM = "rates_from"


def in_proportion(base: YamlMap, changed: YamlMap) -> YamlMap:
    """The base with its rates in proportion to the SMs and boost clock that a file over it has.

    Where either's SMs or clock is an expression, or the base is no GPU, it stays as it is.

    Args:
        base: What the file extends.
        changed: The file over it.
    """
    before, after = _cycles_per_s(base), _cycles_per_s(changed)
    if before is None or after is None or before == after:
        return base
    for path in _rate_paths(base):
        found = _at(base, path)
        if isinstance(found, YamlScalar) and isinstance(found.value, str):
            try:
                rate = float(units.RATE.parse(found.value))
            except ValueError:
                continue  # told where the rate is checked, if the file keeps it
            written = units.RATE.format(rate * after / before)
            base = _with(base, path, YamlScalar(written, found.place))
    return base


def with_origin(changed: YamlMap, scaled: YamlMap) -> YamlMap:
    """The file with the name of the chip whose rates it keeps in proportion, where it keeps any.

    Args:
        changed: The file over its base.
        scaled: The base after `in_proportion`.
    """
    kept = [path for path in _rate_paths(scaled) if _at(changed, path) is _at(scaled, path)]
    name = scaled.entries.get("name")
    if not kept or not isinstance(name, YamlScalar):
        return changed
    origin = scaled.entries.get(RATES_FROM, name)
    return changed.with_entry(RATES_FROM, origin, name.place)


def _cycles_per_s(tree: YamlMap) -> float | None:
    """Cycles of all SMs per second; None for what is no GPU, or no number yet."""
    kind, sms, clock = (_at(tree, path) for path in (("kind",), ("sms",), ("clocks", "boost")))
    if not (isinstance(kind, YamlScalar) and kind.value == "gpu" and isinstance(sms, YamlScalar)):
        return None
    if not (isinstance(sms.value, int) and isinstance(clock, YamlScalar) and isinstance(clock.value, str)):
        return None
    try:
        return sms.value * float(units.CLOCK.parse(clock.value)) or None
    except ValueError:
        return None


def _rate_paths(tree: YamlMap) -> Iterator[Path]:
    """Where rates of the whole chip stand."""
    datatypes, vectors = _at(tree, ("tensor_cores", "datatypes")), _at(tree, ("vector_units", "dense"))
    if isinstance(datatypes, YamlMap):
        yield from (("tensor_cores", "datatypes", name, "dense") for name in datatypes.entries)
    if isinstance(vectors, YamlMap):
        yield from (("vector_units", "dense", name) for name in vectors.entries)


def _at(tree: YamlTree, path: Path) -> YamlTree | None:
    for step in path:
        if not isinstance(tree, YamlMap) or str(step) not in tree.entries:
            return None
        tree = tree.entries[str(step)]
    return tree


def _with(tree: YamlMap, path: Path, value: YamlTree) -> YamlMap:
    """The tree with another value at a path that it has."""
    first, rest = str(path[0]), path[1:]
    if not rest:
        return tree.with_entry(first, value)
    below = tree.entries[first]
    assert isinstance(below, YamlMap)
    return tree.with_entry(first, _with(below, rest, value))
