"""MLIR's own parser and verifier take what we print, and refuse what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.dialects.builtin import IndexType, MemRefType, StringAttr, UnitAttr
from xdsl.ir import Dialect, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    attr_def,
    eq,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_attr_def,
    opt_operand_def,
    opt_region_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)

from tileloom.archdsl import CompileError
from tileloom.compiler.ir.groups import MOST_GROUPS
from tileloom.compiler.ir.irdl import irdl_text
from tileloom.compiler.ir.mlir_opt import OVERRIDE, check_with_mlir, find_mlir_opt
from tileloom.compiler.ir.text import print_module

from ..reference import needs_mlir
from .modules import ModuleMaker


@irdl_attr_definition
class Token(ParametrizedAttribute, TypeAttribute):
    name = "wide.token"
    of: StringAttr


@irdl_op_definition
class Loop(IRDLOperation):
    name = "wide.loop"
    first = operand_def(IndexType)
    memory = operand_def(MemRefType)
    waits = var_operand_def(Token)
    kind = attr_def(eq(StringAttr("parallel")))
    is_last = opt_attr_def(UnitAttr)
    body = region_def()
    done = result_def(Token)


@irdl_op_definition
class TwoGroups(IRDLOperation):
    name = "wide.two_groups"
    first = opt_operand_def(IndexType)
    second = var_operand_def(IndexType)
    traits = traits_def()
    irdl_options = (AttrSizedOperandSegments(as_property=False),)


def sizes(num_waits: int) -> str:
    """How many operands each of MLIR's groups of a `wide.loop` has."""
    rest = [0] * (MOST_GROUPS - 1)
    return f"operand_segment_sizes = array<i32: {', '.join(map(str, [1, 1, num_waits, *rest]))}>"


WIDE = Dialect("wide", [Loop, TwoGroups], [Token])
LOOP = f"""
"builtin.module"() ({{
  %0, %1 = "builtin.unrealized_conversion_cast"() : () -> (index, memref<4xi8>)
  %2 = "wide.loop"(%0, %1) ({{
  ^bb0(%i: index):
    "omp.terminator"() : () -> ()
  }}) {{kind = "parallel", {sizes(0)}}} : (index, memref<4xi8>) -> !wide.token<"load">
  %3 = "wide.loop"(%0, %1, %2, %2) ({{
  }}) {{kind = "parallel", is_last, {sizes(2)}}}
    : (index, memref<4xi8>, !wide.token<"load">, !wide.token<"load">) -> !wide.token<"load">
  "wide.two_groups"(%0, %0) {{operand_segment_sizes = array<i32: 1, 1>}} : (index, index) -> ()
}}) {{wide.anything = 1 : i64, data.after = "01-x"}} : () -> ()
"""


@needs_mlir
def test_random_modules_pass() -> None:
    texts = {f"{seed}.mlir": print_module(ModuleMaker(seed).module(40)) for seed in range(3)}
    assert check_with_mlir(texts) == ()


@needs_mlir
@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("zero_point = -3 : i64, ", "", "'qnn.lookup' op attribute \"zero_point\" is expected but not provided"),
        ("scale = 1.000000e-01 : f64", "scale = 1 : i64", "expected base attribute 'builtin.float' but got 'builtin.integer'"),
        ("(tensor<1x9x8x3xi8>, tensor<256xi8>)", "(tensor<1x9x8x3xi8>)", "expects exactly 2 operands, but got 1"),
        ("-> tensor<1x9x8x3xi8> loc", "-> i8 loc", "expected base type 'builtin.tensor' but got 'builtin.integer'"),
    ],
)  # fmt: skip
def test_wrong_modules_fail_and_name_the_onnx_node(before: str, after: str, message: str) -> None:
    text = print_module(ModuleMaker(1).small_module()).replace('"data.output"(%2)', '"data.output"(%0)')
    assert before in text
    wrong = text.replace(before, after, 1)
    if before.startswith("(tensor"):
        wrong = wrong.replace("(%0, %1)", "(%0)")
    (fault,) = check_with_mlir({"fine.mlir": text, "net.mlir": wrong})
    assert fault.file == "net.mlir" and fault.path == '"relu"'
    assert message in fault.message


@needs_mlir
def test_faults_without_a_node_have_line_and_column() -> None:
    text = print_module(ModuleMaker(1).small_module()).replace('output_name = "output"', "")
    (fault,) = check_with_mlir({"net.mlir": text})
    assert (fault.line, fault.column) == (5, 3)
    assert str(fault).startswith("net.mlir:5:3: 'data.output' op attribute \"output_name\" is expected")


@needs_mlir
def test_dialects_with_regions_types_and_groups_pass() -> None:
    assert check_with_mlir({"loop.mlir": LOOP}, [WIDE]) == ()


@needs_mlir
@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('kind = "parallel"', 'kind = "serial"', "expected '\"parallel\"' but got '\"serial\"'"),
        ("(%0, %1, %2, %2) ({\n  })", "(%0, %1, %2, %2)", "expected 1 but got 0"),
        ("(%0, %1, %2, %2)", "(%0, %1, %0, %2)", "wide.token"),
    ],
)
def test_wrong_regions_types_and_values_fail(before: str, after: str, message: str) -> None:
    wrong = LOOP.replace(before, after, 1)
    if before == "(%0, %1, %2, %2)":
        wrong = wrong.replace('memref<4xi8>, !wide.token<"load">, !wide', "memref<4xi8>, index, !wide")
    faults = check_with_mlir({"loop.mlir": wrong}, [WIDE])
    assert faults and message in faults[0].message


def test_what_irdl_cannot_say_is_told() -> None:
    @irdl_op_definition
    class WithProperty(IRDLOperation):
        name = "wide.property"
        value = prop_def(StringAttr)

    @irdl_op_definition
    class WithOptionalRegion(IRDLOperation):
        name = "wide.region"
        body = opt_region_def()

    with pytest.raises(TypeError, match="wide.property: ops of IRDL dialects have no properties; use attr_def"):
        irdl_text([Dialect("wide", [WithProperty])])
    with pytest.raises(
        TypeError, match="wide.region: IRDL has no optional or variadic regions; make body a region_def"
    ):
        irdl_text([Dialect("wide", [WithOptionalRegion])])


def test_named_form_has_the_names() -> None:
    text = irdl_text([WIDE], is_named=True)
    assert "irdl.operands(first: %0, memory: %1, waits0: variadic %2, waits1: variadic %3" in text
    assert "irdl.regions(body: %19)" in text


def test_missing_program_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(OVERRIDE, raising=False)
    assert find_mlir_opt() is None
    with pytest.raises(CompileError, match="no mlir-opt on the PATH; install Debian's mlir-19-tools"):
        check_with_mlir({})
    monkeypatch.setenv(OVERRIDE, "/nowhere/mlir-opt")
    with pytest.raises(CompileError, match="TILELOOM_MLIR_OPT=/nowhere/mlir-opt: no such program; give the path"):
        find_mlir_opt()


def test_plain_name_wins_and_then_the_newest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(OVERRIDE, raising=False)
    for name, expected in (("mlir-opt-19", "mlir-opt-19"), ("mlir-opt-22", "mlir-opt-22"), ("mlir-opt", "mlir-opt")):
        (tmp_path / name).touch(mode=0o755)
        found = find_mlir_opt()
        assert found is not None and found.name == expected
