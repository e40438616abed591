"""What a pass is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from xdsl.dialects.builtin import ModuleOp

from ...archdsl import SpatialArch
from ..ir.store import DataStore


@dataclass(frozen=True, slots=True, kw_only=True)
class PassContext:
    """What passes know besides the module.

    Attributes:
        store: The arrays of its constants; passes add to it.
        arch: The architecture that is compiled for; None at levels that do not depend on it.
    """

    store: DataStore
    arch: SpatialArch | None = None


class Pass(Protocol):
    """A frozen dataclass whose fields are its options; its docstring shows an example before and after.

    Attributes:
        name: Kebab-case verb and object.
    """

    name: ClassVar[str]

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """The module after the pass; the one before is left as it was.

        Raises:
            PassError: The module holds something that the pass cannot deal with.
        """
        ...
