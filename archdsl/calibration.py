"""Constants of a model that were fitted to measurements, kept with what they describe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from .fields import ArchName, Name, SourceText
from .spec import Fault, Spec

MAX_CONSTANTS = 12
"""Most constants of one calibration; a set with more is a table in disguise."""


class Calibration(Spec):
    """One named set of fitted constants.

    Constants are written by `tileloom calibrate` and carry their unit in their name, so unlike all other quantities they
    are bare numbers.
    """

    chip: ArchName = Field(description="Chip or system whose measurements they were fitted to.")
    constants: dict[Name, Annotated[float, Field(strict=False, allow_inf_nan=False)]] = Field(
        min_length=1, description="Value per constant; the model says which there are and what they mean."
    )
    files: dict[str, str] = Field(
        default_factory=dict[str, str],
        description="Digest per file of measurements (first 16 hexadecimal digits of SHA-256); of such a file only the "
        "rows that were held back count in a validation.",
    )
    data: SourceText = Field(description="Measurements fitted to: files, columns, rows and what was held back.")
    date: Annotated[str, Field(strict=True, pattern=r"^\d{4}-\d{2}-\d{2}$")] = Field(description="When it was fitted.")
    source: SourceText = Field(description="Where the measurements come from.")

    def __hash__(self) -> int:
        return hash((self.chip, self.data, self.date, tuple(sorted(self.constants.items()))))

    def faults(self) -> Iterator[Fault]:
        if len(self.constants) > MAX_CONSTANTS:
            message = f"{len(self.constants)} constants; a calibration has at most {MAX_CONSTANTS}"
            yield Fault(("constants",), message)
