"""Modules as text and back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import FusedLoc, NameLoc, UnknownLoc

from tileloom.archdsl import CompileError
from tileloom.compiler.ir.text import location_of, nodes_of, parse_module, print_module

from .modules import MAKERS, ModuleMaker


@settings(max_examples=25)
@given(seed=st.integers(0, 1 << 32), num_ops=st.integers(0, 8))
def test_parsing_gives_back_what_was_printed(seed: int, num_ops: int) -> None:
    module = ModuleMaker(seed).module(num_ops)
    module.verify()
    text = print_module(module)
    parsed = parse_module(text)
    assert parsed.is_structurally_equivalent(module)
    assert [op.location for op in parsed.walk()] == [location_of(op) for op in module.walk()]
    assert print_module(parsed) == text


def test_every_quantised_op_is_among_the_random_ones() -> None:
    module = ModuleMaker(1).module(100)
    assert len({op.name for op in module.walk() if op.name.startswith("qnn.")}) == len(MAKERS)


def test_locations_name_the_onnx_nodes() -> None:
    text = print_module(ModuleMaker(4).module(20))
    ops = [op for op in parse_module(text).walk() if nodes_of(op)]
    assert {type(op.location) for op in ops} == {NameLoc, FusedLoc}
    assert isinstance(next(iter(parse_module(text).walk())).location, UnknownLoc)
    assert 'nodes = ["conv1"]' in text and 'loc("conv1")' in text


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("qnn.lookup", "qnn.look", "net.mlir:4:18: not a module of the IR: Operation qnn.look is not registered; dump it again"),
        ("scale =", "scale", "net.mlir:4:36: not a module of the IR: '}' expected; dump it again, or mend this line"),
        ("(%2)", "(%9)", "values used but not defined: [%9]; dump it again"),
        ("9x8x3xi8", "9x8", "Expected 'x' in shape delimiter"),
        ("tensor<256xi8>", "tensor<256xi0 >", "net.mlir"),
    ],
)  # fmt: skip
def test_faults_of_text_are_told_with_their_place(before: str, after: str, message: str) -> None:
    text = print_module(ModuleMaker(1).small_module())
    assert before in text
    with pytest.raises(CompileError) as caught:
        parse_module(text.replace(before, after, 1), "net.mlir")
    assert message in str(caught.value)
