"""The base of everything that users write, and what its annotations say about the YAML."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, Self, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError
from typing_extensions import TypeIs

from .yamltree import Path

YAML_CONTEXT = {"yaml": True}
"""Validation context that says that the values come from YAML."""

SpecT = TypeVar("SpecT", bound="Spec")


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault between fields: `path` is relative to the model, in YAML spelling."""

    path: Path
    message: str


class Spec(BaseModel):
    """Base of everything that users write: frozen, no unknown fields, quantities with units.

    In YAML a field has its alias; Python code uses the field's name and base units.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True, defer_build=True
    )

    def faults(self) -> Iterator[Fault]:
        """Faults between fields; each field by itself is valid."""
        yield from ()

    def checks(self) -> tuple[Iterator[Fault], ...]:
        """Checks that do not depend on one another; a faulty field silences only those that read it."""
        return (self.faults(),)

    @model_validator(mode="after")
    def _check_faults(self) -> Self:
        faults = tuple(fault for check in self.checks() for fault in check)
        if faults:
            reason = "; ".join(fault.message for fault in faults)
            raise PydanticCustomError("faults", "{reason}", {"reason": reason, "faults": faults})
        return self


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was most likely meant, or None."""
    names = [str(name) for name in known]
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if not near:
        near = [name for name in names if name.lower() == word.lower()]
    return near[0] if near else None


def nearest_hint(word: str, known: Iterable[str], show: int = 12) -> str:
    """`; did you mean 'x'?` for the nearest known word, else the first `show` of the known ones."""
    names = [str(name) for name in known]
    near = nearest(word, names)
    if near is not None:
        return f"; did you mean '{near}'?"
    if not names or not show:
        return ""
    listed = ", ".join(names[:show]) + (", ..." if len(names) > show else "")
    return f"; known are {listed}"


def shown(value: object) -> str:
    """A value as messages show it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a map"
    return "a list" if isinstance(value, list) else repr(value)


def field_names(model: type[Spec]) -> dict[str, str]:
    """Python name of every field, per YAML name."""
    return {str(field.validation_alias or name): name for name, field in model.model_fields.items()}


def misspelt_fields(given: Iterable[str], model: type[Spec]) -> frozenset[str]:
    """YAML names of the fields that unknown names among `given` most likely mean."""
    names = field_names(model)
    return frozenset(near for name in given if name not in names and (near := nearest(name, names)))


def is_spec(annotation: object) -> TypeIs[type[Spec]]:
    """Whether an annotation is a model of ours."""
    return isinstance(annotation, type) and issubclass(annotation, Spec)


def strip(annotation: object) -> object:
    """An annotation without `Annotated`, `| None` and type aliases."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
            continue
        if get_origin(annotation) in (Union, types.UnionType):
            members = [arg for arg in get_args(annotation) if arg is not type(None)]
            if len(members) == 1:
                annotation = members[0]
                continue
        return annotation


def members_by_kind(annotation: object) -> dict[str, type[Spec]]:
    """Members of a union of models, per `kind`."""
    annotation = strip(annotation)
    if get_origin(annotation) not in (Union, types.UnionType):
        return {}
    found: dict[str, type[Spec]] = {}
    for member in get_args(annotation):
        if is_spec(member) and "kind" in member.model_fields:
            tag = member.model_fields["kind"].annotation
            found |= {str(name): member for name in get_args(tag) if get_origin(tag) is Literal}
    return found


def step_into(annotation: object, step: str | int) -> object:
    """Annotation of an element: a field by YAML name, or a list's or dict's element; None where it is not known."""
    annotation = strip(annotation)
    if is_spec(annotation):
        python_name = field_names(annotation).get(str(step))
        return strip(annotation.model_fields[python_name].annotation) if python_name else None
    if get_origin(annotation) in (tuple, list):
        return strip(get_args(annotation)[0])
    if get_origin(annotation) is dict:
        return strip(get_args(annotation)[1])
    return None
