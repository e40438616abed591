"""What the descriptions of all kinds of chips share: names, counts, datatypes, the process, the rule on sources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from .spec import Fault, Spec, nearest_hint
from .units import NodeSize, Voltage

DATATYPE_BITS = {
    "int2": 2, "int4": 4, "int8": 8, "int16": 16, "int32": 32,
    "fp4": 4, "fp6": 6, "fp8": 8, "bf16": 16, "fp16": 16, "tf32": 32, "fp32": 32, "fp64": 64,
}  # fmt: skip
"""Every datatype that an architecture may name, with the bits that one element takes in memory."""

DramTechnology = Literal["ddr3", "ddr4", "lpddr4", "lpddr5", "hbm2", "hbm2e", "hbm3", "hbm3e"]


def _check_datatype(name: str) -> str:
    if name not in DATATYPE_BITS:
        reason = f"unknown datatype '{name}'{nearest_hint(name, DATATYPE_BITS)}"
        raise PydanticCustomError("quantity", "{reason}", {"reason": reason})
    return name


ValueT = TypeVar("ValueT")


def in_order(values: dict[str, ValueT]) -> dict[str, ValueT]:
    """By datatype in the order of `DATATYPE_BITS`, so that equal descriptions are written out alike."""
    return {name: values[name] for name in DATATYPE_BITS if name in values}


Name = Annotated[str, Field(strict=True, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
ArchName = Annotated[str, Field(strict=True, pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$")]
MAX_COUNT = 10**9
Count = Annotated[int, Field(strict=True, ge=1, le=MAX_COUNT)]
NumOrZero = Annotated[int, Field(strict=True, ge=0, le=MAX_COUNT)]
Flag = Annotated[bool, Field(strict=True)]
DatatypeName = Annotated[str, AfterValidator(_check_datatype)]
SourceText = Annotated[str, Field(strict=True, min_length=1)]


class Technology(Spec):
    """The process that a chip is made in."""

    node_nm: NodeSize = Field(validation_alias="node", serialization_alias="node", description="Technology node [nm].")
    voltage_v: Voltage | None = Field(
        default=None, validation_alias="voltage", serialization_alias="voltage", description="Supply voltage [V]."
    )
    source: SourceText = Field(description="Where node and voltage come from.")


class Intrinsic(Spec):
    """The matrix product that one compute unit does at once: [m, k] x [k, n]."""

    m: Count = Field(default=1, description="Rows of the result.")
    n: Count = Field(default=1, description="Columns of the result.")
    k: Count = Field(default=1, description="Length of the reduction.")

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one product."""
        return self.m * self.n * self.k


def missing_source(given: list[str], source: str) -> Iterator[Fault]:
    """A fault when constants are given and no source."""
    if given and not source.strip():
        message = (
            f"missing field 'source' for {', '.join(given)}; name a paper, table or data sheet, or 'assumption: ...'"
        )
        yield Fault(("source",), message)


def name_faults(names: list[str], path: tuple[str, ...], what: str) -> Iterator[Fault]:
    """A fault for every name that an earlier element has already."""
    for name_idx, name in enumerate(names):
        if name in names[:name_idx]:
            message = f"{what} name '{name}' is taken by element {names.index(name)}; names must differ"
            yield Fault((*path, name_idx, "name"), message)


def repeat_faults(spec: Spec, name: str) -> Iterator[Fault]:
    """A fault for every value that stands in a list twice."""
    values: tuple[str, ...] = getattr(spec, name)
    for value_idx, value in enumerate(values):
        if value in values[:value_idx]:
            yaml_name = str(type(spec).model_fields[name].validation_alias or name)
            yield Fault((yaml_name, value_idx), f"{value} is given twice")
