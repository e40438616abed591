"""Modules as text, in MLIR's generic form, and back. Text is for dumps and tests: parsing takes 1 ms an op.

Ops carry the names of the ONNX nodes that they stand for in `nodes`; the text repeats them as locations, so that whatever
reads it can say where something comes from: `loc("node")`, or `loc(fused["first", "second"])` for several.
"""

from __future__ import annotations

from io import StringIO
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, FusedLoc, ModuleOp, NameLoc, NoneAttr, StringAttr, UnknownLoc
from xdsl.ir import Attribute, Operation
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException

from ...archdsl import CompileError
from .registry import context


def nodes_of(op: Operation) -> tuple[str, ...]:
    """Names of the ONNX nodes that an op stands for; none where it does not say."""
    nodes = op.attributes.get("nodes")
    if not isinstance(nodes, ArrayAttr):
        return ()
    return tuple(name.data for name in cast("ArrayAttr[Attribute]", nodes) if isinstance(name, StringAttr))


def location_of(op: Operation) -> NameLoc | FusedLoc | UnknownLoc:
    """Those names as a location of MLIR."""
    names = [NameLoc(StringAttr(name), NoneAttr()) for name in nodes_of(op)]
    if not names:
        return UnknownLoc()
    return names[0] if len(names) == 1 else FusedLoc(tuple(names), NoneAttr())


class _LocatedPrinter(Printer):
    """Prints ops with the location that their `nodes` stand for."""

    def print_operation_type(self, op: Operation) -> None:
        self.print_function_type(op.operand_types, op.result_types)
        location = location_of(op)
        if not isinstance(location, UnknownLoc):
            self.print_string(" ")
            self.print_attribute(location)


class _TextParser(Parser):
    """Reads texts beyond ASCII back, whose bytes xDSL escapes and then takes for something else."""

    def parse_optional_str_literal(self) -> str | None:
        found = super().parse_optional_str_literal()
        if found is not None:
            return found
        escaped = self.parse_optional_bytes_literal()
        return None if escaped is None else escaped.decode()


def print_module(module: ModuleOp) -> str:
    """A module as text that `parse_module` and MLIR's `mlir-opt` read; the same module gives the same text."""
    stream = StringIO()
    printer = _LocatedPrinter(stream=stream, print_generic_format=True)
    printer.print_op(module)
    return stream.getvalue() + "\n"


def parse_module(text: str, name: str = "<string>") -> ModuleOp:
    """The module that a text stands for; equal to the one that was printed.

    Args:
        text: What `print_module` gave, perhaps changed by hand.
        name: Of the file, for messages.

    Raises:
        CompileError: The text is not a module, or uses a dialect or op that is not known.
    """
    try:
        return _TextParser(context(), text, name).parse_module()
    except ParseError as error:
        line = text.count("\n", 0, error.span.start) + 1
        column = error.span.start - (text.rfind("\n", 0, error.span.start) + 1) + 1
        found = text.split("\n")[line - 1]
        raise CompileError(
            f"{name}:{line}:{column}: not a module of the IR: {error.msg}; dump it again, or mend this line\n"
            f"    {found}\n    {' ' * (column - 1)}^"
        ) from None
    except (VerifyException, UnicodeDecodeError) as error:  # of attributes, which xDSL makes while it parses
        raise CompileError(f"{name}: not a module of the IR: {error}; dump it again, or mend it") from None
