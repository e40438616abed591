"""All dialects of the IR, in one place."""

from __future__ import annotations

from typing import Final

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, traits_def
from xdsl.traits import IsTerminator

from .data import Data
from .graph import Graph
from .pe import Pe
from .qnn import Qnn
from .tile import Tile


@irdl_op_definition
class EndOp(IRDLOperation):
    """Ends a block in texts; xDSL's own dialect of that name takes half a second to import."""

    name = "omp.terminator"
    traits = traits_def(IsTerminator())


OWN_DIALECTS: Final[tuple[Dialect, ...]] = (Data, Graph, Qnn, Tile, Pe)
"""Dialects that are defined here, by level; a new one is a line here."""
BORROWED_DIALECTS: Final[tuple[Dialect, ...]] = (Builtin, Dialect("omp", [EndOp]))
"""Dialects of MLIR that modules use too."""


def context() -> Context:
    """A context in which modules of every level can be parsed."""
    known = Context()
    for dialect in (*BORROWED_DIALECTS, *OWN_DIALECTS):
        known.load_dialect(dialect)
    return known
