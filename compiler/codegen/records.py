"""What `network.json` says of a compiled network."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ...archdsl import Scaling, Spec
from ..host import Place

Count = Annotated[int, Field(ge=1, strict=True)]
Amount = Annotated[int, Field(ge=0, strict=True)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class TensorRecord(Spec):
    """What enters or leaves the network."""

    name: str = Field(min_length=1, description="Its name in the network's file.")
    shape: tuple[Amount, ...] = Field(description="Elements along each axis.")
    dtype: str = Field(min_length=1, description="Type of its elements.")
    scaling: Scaling | None = Field(default=None, description="What its integers stand for, where that is known.")
    num_choices: Amount | None = Field(default=None, description="Of indices: how many elements they choose among.")


class ProgramRecord(Spec):
    """A program of the network."""

    name: str = Field(min_length=1, description="Unique in the network.")
    folder: str = Field(min_length=1, description="Where its image stands, relative to this file.")
    manifest: Sha256 = Field(description="SHA-256 of its manifest.json.")
    num_ops: Amount = Field(description="Ops that it computes.")
    num_instructions: Count = Field(description="Its instructions.")
    macs: Amount = Field(description="Multiply-accumulates of its ops.")


class HostRecord(Spec):
    """An op that runs on the host."""

    nodes: tuple[str, ...] = Field(description="Nodes of the network's file that it stands for.")
    kind: str = Field(min_length=1, description="Its operator.")
    place: Place = Field(description="Before all that the array does with its results, after it, between, or apart.")
    reason: str | None = Field(default=None, description="Why the array does not run it, where that is known.")
    read_bytes: Amount = Field(description="Bytes of its operands, but for constants.")
    written_bytes: Amount = Field(description="Bytes of its results.")


class OptionsRecord(Spec):
    """Choices of the compilation."""

    fallback: bool = Field(description="Whether any op may run on the host.")
    keeps_layers: bool = Field(description="Whether every op's result is stored in main memory too.")
    keeps_on_chip: bool = Field(description="Whether results may stand in the scratchpad until they are used.")
    is_depth_first: bool = Field(description="Whether ops may be cut together into bands of rows.")
    staging_bytes: Amount | None = Field(default=None, description="Scratchpad for what is staged; None: chosen.")
    loads_ahead: Amount = Field(description="How many loads may stand in front of what needs them.")


class NetworkRecord(Spec):
    """A compiled network."""

    schema_version: Literal[1] = Field(description="Version of this format.")
    name: str = Field(min_length=1, description="Name of the network.")
    arch: str = Field(min_length=1, description="Name of the architecture that it is for.")
    inputs: tuple[TensorRecord, ...] = Field(description="What it is given.")
    outputs: tuple[TensorRecord, ...] = Field(description="What it returns.")
    programs: tuple[ProgramRecord, ...] = Field(min_length=1, description="Its programs, in the order of their runs.")
    host: tuple[HostRecord, ...] = Field(default=(), description="What runs on the host, in its order.")
    options: OptionsRecord = Field(description="Choices of the compilation.")
    checksums: dict[str, Sha256] = Field(description="SHA-256 of the files beside this one.")

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all programs."""
        return sum(program.macs for program in self.programs)
