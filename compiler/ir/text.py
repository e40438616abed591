"""Modules as text, in MLIR's generic form, and back. Text is for dumps and tests: parsing takes up to half a millisecond an op.

MLIR wants a terminator at the end of every block, and takes no op of an IRDL dialect for one. The text therefore ends the
blocks of programs, kernels and loops with `omp.terminator`, which MLIR allows under any op; modules in memory do not have it.

Ops carry the names of the ONNX nodes that they stand for in `nodes`; the text repeats them as locations, so that whatever
reads it can say where something comes from: `loc("node")`, or `loc(fused["first", "second"])` for several.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from io import StringIO
from typing import Final, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, FusedLoc, ModuleOp, NameLoc, NoneAttr, StringAttr, UnitAttr, UnknownLoc
from xdsl.ir import Attribute, Block, Operation, TypeAttribute
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import ParseError, VerifyException

from ...archdsl import CompileError
from .attributes import int_attr
from .groups import take_sizes, text_attributes
from .registry import EndOp, context

_SHORT: Final = r"([A-Za-z_][\w$.]*)(?: = (-?\d{1,18}) : i64)?"
_SHORT_ENTRY: Final = re.compile(rf"{_SHORT}(?=[,}}])", re.ASCII)
"""An attribute that is a 64-bit integer or a flag, as it is printed."""
_SHORT_DICTIONARY: Final = re.compile(rf"{{{_SHORT}(?:, {_SHORT})*}}", re.ASCII)
"""Nothing but such attributes."""
_REPEATED: Final = re.compile(r"(?:tensor|memref|array|affine_map)<(?:->|[^<>#!\n]|<[^<>#!\n]*>)*>")
"""A type or attribute that may come again and again."""


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


class _TextPrinter(Printer):
    """Prints ops with the location that their `nodes` stand for, and ends every block."""

    def print_block(self, block: Block, print_block_args: bool = True, print_block_terminator: bool = True) -> None:
        super().print_block(block, print_block_args, print_block_terminator)
        parent = block.parent_op()
        if parent is not None and parent.has_trait(NoTerminator) and not isinstance(parent, ModuleOp):
            with self.indented():
                self._print_new_line()
                self.print_op(EndOp())

    def print_op_with_default_format(self, op: Operation) -> None:
        self.print_operands(op.operands)
        self.print_successors(op.successors)
        self._print_op_properties(op.properties)
        self.print_regions(op.regions)
        self.print_op_attributes(text_attributes(op))
        self.print_string(" : ")
        self.print_operation_type(op)

    def print_operation_type(self, op: Operation) -> None:
        self.print_function_type(op.operand_types, op.result_types)
        location = location_of(op)
        if not isinstance(location, UnknownLoc):
            self.print_string(" ")
            self.print_attribute(location)


class _TextParser(Parser):
    """Reads what `_TextPrinter` wrote.

    Texts beyond ASCII come back too, whose bytes xDSL escapes and then takes for something else. Integers and flags, of which
    instructions consist, are read at once, and types once each: token by token it takes three times as long.
    """

    def __init__(self, ctx: Context, text: str, name: str) -> None:
        super().__init__(ctx, text, name)
        self._repeated: dict[str, Attribute] = {}

    def parse_optional_type(self) -> TypeAttribute | None:
        return cast("TypeAttribute | None", self._once(super().parse_optional_type))

    def parse_optional_attribute(self) -> Attribute | None:
        return self._once(super().parse_optional_attribute)

    def _once(self, parse: Callable[[], Attribute | None]) -> Attribute | None:
        """What stands here; the same text was perhaps parsed before."""
        text = _REPEATED.match(self.lexer.input.content, self.pos)
        if text is None:
            return parse()
        known = self._repeated.get(text[0])
        if known is None:
            known = parse()
            if known is not None:
                self._repeated[text[0]] = known
        else:
            self._go_on(text.end())
        return known

    def _go_on(self, position: int) -> None:
        """Has read up to a position."""
        self.lexer.pos = position
        self._parser_state.current_token = self.lexer.lex()

    def parse_optional_dictionary_attr_dict(self) -> dict[str, Attribute]:
        content = self.lexer.input.content
        found = _SHORT_DICTIONARY.match(content, self.pos)
        if found is None:
            return super().parse_optional_dictionary_attr_dict()
        entries = [_short_entry(entry) for entry in _SHORT_ENTRY.finditer(content, self.pos, found.end())]
        attributes = dict(entries)
        if len(attributes) < len(entries):
            return super().parse_optional_dictionary_attr_dict()  # which says what came twice
        self._go_on(found.end())
        return attributes

    def _parse_block_body(self, block: Block) -> None:
        while (op := self.parse_optional_operation()) is not None:
            if not isinstance(op, EndOp):
                block.add_op(op)
            elif self._current_token.text.startswith(("}", "^")):
                return
            else:
                self.raise_error(f"nothing may stand behind the {EndOp.name} of a block")

    def _parse_generic_operation(self, op_type: type[Operation]) -> Operation:
        op = super()._parse_generic_operation(op_type)
        take_sizes(op)
        return op

    def _parse_attribute_entry(self) -> tuple[str, Attribute]:
        found = _SHORT_ENTRY.match(self.lexer.input.content, self.pos)
        if found is None:
            return super()._parse_attribute_entry()
        self._go_on(found.end())
        return _short_entry(found)

    def parse_optional_str_literal(self) -> str | None:
        found = super().parse_optional_str_literal()
        if found is not None:
            return found
        escaped = self.parse_optional_bytes_literal()
        return None if escaped is None else escaped.decode()


def _short_entry(found: re.Match[str]) -> tuple[str, Attribute]:
    return found[1], UnitAttr() if found[2] is None else int_attr(int(found[2]))


def print_module(module: ModuleOp) -> str:
    """A module as text that `parse_module` and MLIR's `mlir-opt` read; the same module gives the same text."""
    stream = StringIO()
    printer = _TextPrinter(stream=stream, print_generic_format=True)
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
