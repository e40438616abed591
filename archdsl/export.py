"""Write descriptions: canonical YAML, and the JSON Schema that editors complete and check with."""

from __future__ import annotations

from typing import Annotated, cast

from pydantic import Field, TypeAdapter

from .expressions import escape
from .loading import Arch
from .spec import Spec
from .yamlio import dump_yaml


def dump_arch(arch: Arch) -> str:
    """Canonical YAML of an architecture: fields in fixed order, defaults left out; loads back equal."""
    return dump_spec(arch)


def dump_spec(spec: Spec) -> str:
    """Canonical YAML of any description."""
    return dump_yaml(_escaped(spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)))


def arch_json_schema() -> dict[str, object]:
    """JSON Schema of an architecture file as users write it: YAML names, quantities as texts."""
    return TypeAdapter(Annotated[Arch, Field(discriminator="kind")]).json_schema(by_alias=True)


def _escaped(data: object) -> object:
    if isinstance(data, str):
        return escape(data)
    if isinstance(data, list):
        return [_escaped(item) for item in cast("list[object]", data)]
    if isinstance(data, dict):
        return {key: _escaped(value) for key, value in cast("dict[str, object]", data).items()}
    return data
