"""What a model is validated on: a chip, or a system of chips."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, Self

from typing_extensions import TypeVar

from ..gpu.chip import Chip
from ..gpu.constants import Constant
from ..gpu.times import KernelTimes


class Target(Protocol):
    """Something with constants that kernels or collectives are priced on."""

    @property
    def constants(self) -> Mapping[str, float]:
        """Value of every constant."""
        ...

    @property
    def known_constants(self) -> Mapping[str, Constant]:
        """Constants that may be fitted."""
        ...

    @property
    def launch_s(self) -> float:
        """What the least kernel costs, by which small ones are told from large ones [s]."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What was borrowed or assumed."""
        ...

    def with_constants(self, constants: Mapping[str, float]) -> Self:
        """The same with other values of some constants."""
        ...


TargetT = TypeVar("TargetT", bound=Target, default=Chip)
TargetT_contra = TypeVar("TargetT_contra", bound=Target, default=Chip, contravariant=True)


class Measurable(Protocol[TargetT_contra]):
    """A batch of kernels or collectives of one kind; see `gpu.times.Kernels`."""

    def __len__(self) -> int: ...

    def label(self, idx: int) -> str:
        """One row's shape on one line; equal shapes have equal labels."""
        ...

    def times(self, chip: TargetT_contra, /) -> KernelTimes:
        """What each row costs."""
        ...
