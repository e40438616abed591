"""Faults of modules are told with op, ONNX nodes and cause."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tileloom.archdsl import PassError
from tileloom.compiler.ir.attributes import int_attr
from tileloom.compiler.ir.verification import verify_module

from .modules import ModuleMaker


def made() -> tuple[ModuleOp, Operation]:
    """A right module and its look-up."""
    module = ModuleMaker(1).small_module()
    return module, next(op for op in module.walk() if op.name == "qnn.lookup")


def message(module: ModuleOp) -> str:
    with pytest.raises(PassError) as caught:
        verify_module(module, "pass toy")
    return str(caught.value)


def test_right_module_passes() -> None:
    verify_module(made()[0], "pass toy")


def test_missing_attribute_is_told() -> None:
    module, lookup = made()
    del lookup.attributes["zero_point"]
    assert (
        message(module)
        == "pass toy: qnn.lookup for ONNX node 'relu': attribute 'zero_point' expected in operation 'qnn.lookup'"
    )


def test_broken_rule_of_a_dialect_is_told() -> None:
    module, lookup = made()
    lookup.operands[1] = lookup.operands[0]
    assert message(module) == "pass toy: qnn.lookup for ONNX node 'relu': the table is [1, 9, 8, 3]; it must be [256]"


def test_value_used_before_it_is_made_is_told() -> None:
    module, lookup = made()
    lookup.detach()
    module.body.block.add_op(lookup)
    assert (
        message(module)
        == "pass toy: data.output: operand 0 is used before qnn.lookup makes it, or is not in the module"
    )


def test_unknown_attributes_are_no_fault() -> None:
    module, lookup = made()
    lookup.attributes["note"] = int_attr(1)
    verify_module(module, "pass toy")
