"""The reference of the YAML formats, written from the descriptions of their fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, cast, get_args

from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

from . import units
from .fields import DATATYPE_BITS, MAX_COUNT
from .gpu import GpuArch
from .mapping_io import MappingSpec
from .spatial import SpatialArch
from .spec import Spec
from .system import System
from .units import Dimension

Schema = dict[str, Any]

_DEFS: Final = "#/$defs/"

FORMATS: Final[tuple[tuple[str, type[Spec], str], ...]] = (
    ("Spatial architectures", SpatialArch, "A file with `kind: spatial`."),
    ("GPU architectures", GpuArch, "A file with `kind: gpu`."),
    ("Systems", System, "A file with `kind: system`."),
    ("Mappings", MappingSpec, "A file for `tileloom estimate --mapping`, as `--save-mapping` writes it."),
)
"""Title, root model and introduction of each format, in the order of the reference."""

DIMENSIONS: Final[tuple[Dimension, ...]] = (
    units.BYTES,
    units.BITS,
    units.CYCLES,
    units.CLOCK,
    units.PER_CYCLE,
    units.PER_SECOND,
    units.ENERGY_PER_BYTE,
    units.ENERGY,
    units.AREA,
    units.NODE,
    units.VOLTAGE,
    units.TIME,
    units.RATE,
    units.POWER,
)

HEAD: Final = """\
# Reference of the YAML formats

Written by `tileloom arch schema --markdown -o docs/arch_reference.md` from the descriptions of the fields; a test
fails when it is out of date. `archdsl/README.md` shows how the formats are used. A field without a default is required.

## In every architecture and system file

| field | meaning |
|---|---|
| `extends` | Preset, or file relative to this one, that this file changes. Maps merge, lists are replaced. |
| `parameters` | Named numbers and texts that `${...}` may use. |
| `override` | New values by dotted path; elements of lists by name, e.g. `hierarchy.scratchpad.capacity: 64 KiB`. |

Any scalar may hold `${...}`: arithmetic over parameters with `+ - * / // % **`, parentheses, `min max ceil floor log2`.

A quantity is a text with a unit. `KiB` is 1024 bytes, `kB` is 1000; 1 MAC is 2 ops.

| quantity | units | example |
|---|---|---|
"""


@dataclass(slots=True)
class _Writer:
    """Writes models once each, and those that they refer to after them."""

    lines: list[str] = field(default_factory=list[str])
    done: set[str] = field(default_factory=set[str])
    waiting: list[str] = field(default_factory=list[str])
    defs: Schema = field(default_factory=Schema)

    def add_format(self, title: str, root: type[Spec], about: str) -> None:
        schema = TypeAdapter(root).json_schema(by_alias=True)
        self.defs = schema.pop("$defs", {})
        models = {model.__name__: model for model in _models_below(root)}
        self.lines += [f"## {title}", "", _sentence(root), about, ""]
        self._table(root, schema)
        while self.waiting:
            name = self.waiting.pop(0)
            if name not in self.done:
                self.done.add(name)
                self.lines += [f"### {_title(name)}", "", _sentence(models[name]), ""]
                self._table(models[name], self.defs[name])

    def _table(self, model: type[BaseModel], schema: Schema) -> None:
        self.lines += ["| field | value | default | meaning |", "|---|---|---|---|"]
        found: list[str] = []
        for info, (name, node) in zip(model.model_fields.values(), schema["properties"].items(), strict=True):
            value = self._value(node, found)
            cells = [f"`{name}`", value, _default(info), info.description or ""]
            self.lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        self.lines.append("")
        self.waiting = [*found, *self.waiting]

    def _value(self, node: Schema, found: list[str]) -> str:
        """What a field takes, in words; the models that it names are added to `found`."""
        if "$ref" in node:
            return self._named(str(node["$ref"]).removeprefix(_DEFS), found)
        for union in ("anyOf", "oneOf"):
            if union in node:
                return " or ".join(self._value(n, found) for n in node[union] if n.get("type") != "null")
        if node.get("examples"):
            return "quantity, e.g. " + ", ".join(f"`{example}`" for example in node["examples"])
        if "const" in node:
            return f"`{node['const']}`"
        if "enum" in node:
            return ", ".join(f"`{choice}`" for choice in node["enum"])
        return self._collection(node, found) if node["type"] in ("array", "object") else _scalar(node)

    def _collection(self, node: Schema, found: list[str]) -> str:
        if node["type"] == "array":
            return f"list of {self._value(node['items'], found)}"
        # Names with a pattern stand apart from free ones.
        by_pattern = cast("dict[str, Schema]", node.get("patternProperties", {}))
        inner = next(iter(by_pattern.values())) if by_pattern else cast("Schema", node["additionalProperties"])
        return f"map of name to {self._value(inner, found)}"

    def _named(self, name: str, found: list[str]) -> str:
        if "enum" in self.defs[name]:
            return self._value(self.defs[name], found)
        title = next((title for title, root, _ in FORMATS if root.__name__ == name), None)
        if title is None and name not in found:
            found.append(name)
        title = title or _title(name)
        return f"[{title}](#{title.lower().replace(' ', '-')})"


def reference_markdown() -> str:
    """The reference of architecture, system and mapping files as Markdown."""
    writer = _Writer()
    writer.lines += HEAD.rstrip().splitlines()
    writer.lines += [
        f"| {dimension.name} | {', '.join(f'`{unit}`' for unit in dimension.units)} | `{dimension.example}` |"
        for dimension in DIMENSIONS
    ]
    datatypes = ", ".join(f"`{name}`" for name in DATATYPE_BITS)
    writer.lines += ["", f"Bandwidths and capacities may be `{units.UNBOUNDED}`. Datatypes: {datatypes}.", ""]
    for title, root, about in FORMATS:
        writer.add_format(title, root, about)
    return "\n".join(writer.lines).rstrip("\n") + "\n"


def _models_below(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """A model and all that its fields may hold."""
    seen: set[type[BaseModel]] = set()
    waiting: list[Any] = [model]
    while waiting:
        annotation = waiting.pop(0)
        if not isinstance(annotation, type) or get_args(annotation):
            waiting += get_args(annotation)
        elif issubclass(annotation, BaseModel) and annotation not in seen:
            seen.add(annotation)
            yield annotation
            waiting += [info.annotation for info in annotation.model_fields.values()]


def _default(info: FieldInfo) -> str:
    """The default as it would be written; empty where a value must be given."""
    if info.is_required():
        return ""
    default = info.get_default(call_default_factory=True, validated_data={})
    if default is None or default in ("", (), {}):
        return "none"
    # The serialisers that write units are in the metadata.
    annotated: Any = cast("Any", Annotated)[(info.annotation, *info.metadata)] if info.metadata else info.annotation
    written = TypeAdapter[Any](annotated).dump_python(default, mode="json", by_alias=True)
    return f"`{_plain(written)}`"


def _plain(value: object) -> str:
    """A value as YAML on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(_plain(item) for item in cast("list[object]", value)) + "]"
    if isinstance(value, dict):
        items = cast("dict[str, object]", value).items()
        return "{" + ", ".join(f"{key}: {_plain(item)}" for key, item in items) + "}"
    return str(value)


def _scalar(node: Schema) -> str:
    if node["type"] == "boolean":
        return "`true`, `false`"
    if node["type"] == "string":
        return "name" if "pattern" in node else "text"
    text = "whole number" if node["type"] == "integer" else "number"
    if "exclusiveMinimum" in node:
        text += f" above {node['exclusiveMinimum']}"
    elif "minimum" in node:
        text += f" from {node['minimum']}"
    if node.get("maximum", MAX_COUNT) < MAX_COUNT:
        text += f" to {node['maximum']}"
    return text


def _title(name: str) -> str:
    """`GpuMainMemory` as `GPU main memory`."""
    words = re.findall(r"[A-Z][a-z0-9]*", name)
    return " ".join("GPU" if word == "Gpu" else word.lower() if at else word for at, word in enumerate(words))


def _sentence(model: type[BaseModel]) -> str:
    """The first paragraph of a model's description, on one line."""
    return " ".join((model.__doc__ or "").strip().split("\n\n")[0].split())
