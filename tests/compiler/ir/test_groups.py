"""Groups of operands and block ends: in texts for MLIR's sake, and nowhere else."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp
from xdsl.ir import Operation, SSAValue

from tileloom.archdsl import CompileError
from tileloom.compiler.ir import tile
from tileloom.compiler.ir.attributes import tensor_type
from tileloom.compiler.ir.data import InputOp, OutputOp
from tileloom.compiler.ir.graph import make_op
from tileloom.compiler.ir.groups import MOST_GROUPS, XDSL_SIZES, groups_of, text_attributes
from tileloom.compiler.ir.mlir_opt import check_with_mlir
from tileloom.compiler.ir.text import parse_module, print_module

from ..reference import needs_mlir


def value(*shape: int) -> SSAValue:
    return InputOp("x", tensor_type(shape, "float32")).result


def sizes(op: Operation, side: str = "operand") -> tuple[int, ...] | None:
    found = text_attributes(op).get(f"{side}_segment_sizes")
    return None if found is None else tuple(found.get_values()) if isinstance(found, DenseArrayBase) else ()


def concat(*operands: SSAValue) -> Operation:
    return make_op("Concat", operands, [tensor_type([9], "float32")], version=13, attributes={"axis": 0})


def test_single_operands_and_one_optional_one_need_no_sizes() -> None:
    kind = tensor_type([2, 3], "float32")
    assert sizes(make_op("Add", [value(2, 3), value(3)], [kind], version=13)) is None
    op = make_op("Conv", [value(1, 2, 3, 3), value(4, 2, 1, 1)], [tensor_type([1, 4, 3, 3], "float32")], version=13)
    assert sizes(op) is None
    assert [group.word for group in groups_of(type(op), "operand")] == ["single", "single", "optional"]


def test_several_optional_operands_have_sizes() -> None:
    op = make_op("Clip", [value(2, 3), None, value()], [tensor_type([2, 3], "float32")], version=13)
    assert sizes(op) == (1, 1, 0)
    assert "operand_segment_sizes" not in op.attributes


def test_neighbours_of_one_type_share_a_group() -> None:
    found = sizes(concat(value(1), value(2), value(2), value(2), value(1), value(1)))
    assert found is not None
    assert found[:4] == (1, 3, 2, 0) and len(found) == MOST_GROUPS + 1


def program(num_inputs: int) -> ModuleOp:
    """A loop in a kernel, in a program of many inputs of different types."""
    inputs = [InputOp(f"x{idx}", tensor_type([1, idx + 1], "int8")) for idx in range(num_inputs)]
    kernel = tile.KernelOp(
        "k", "none", [tile.ForOp(3)], nodes=["a", "b"], dims={"M": 1}, macs=0, bound_cycles=1.5,
        compulsory_bytes=0, staging=(0, 0),
    )  # fmt: skip
    joined = concat(*(op.result for op in inputs))
    return ModuleOp([*inputs, kernel, joined, OutputOp("y", joined.results[0])])


def test_blocks_end_in_texts_alone() -> None:
    module = program(3)
    text = print_module(module)
    assert text.count('"omp.terminator"() : () -> ()') == 2
    parsed = parse_module(text)
    assert parsed.is_structurally_equivalent(module)
    assert not [op for op in parsed.walk() if op.name == "omp.terminator"]


def test_nothing_may_stand_behind_the_end_of_a_block() -> None:
    text = print_module(program(3)).replace(
        '"omp.terminator"() : () -> ()', '"omp.terminator"() : () -> ()\n"pe.nop"() : () -> ()', 1
    )
    with pytest.raises(CompileError, match="nothing may stand behind the omp.terminator of a block"):
        parse_module(text)


def test_attributes_that_come_twice_are_refused() -> None:
    text = print_module(program(3)).replace("step = 1 : i64}", "step = 1 : i64, step = 2 : i64}")
    with pytest.raises(CompileError, match="Duplicate key 'step'"):
        parse_module(text)


def test_sizes_of_several_groups_have_the_name_that_each_side_knows() -> None:
    types = [tile.bytes_memref(4, 8, space) for space in (tile.ACCUMULATORS, tile.PARAMETERS, tile.SCRATCHPAD)]
    sums, parameters, target = (InputOp("x", tensor_type([1], "int8")).result for _ in types)
    op = tile.StoreOp.build(**tile.indexed([[sums], [parameters], [], [target]], {"sums_at": 0, "write_at": 0}))
    assert sizes(op) == (1, 1, 0, 1, 0)
    assert XDSL_SIZES in op.attributes and XDSL_SIZES not in text_attributes(op)


@needs_mlir
@pytest.mark.parametrize(("num_inputs", "num_faults"), [(1, 0), (2, 0), (MOST_GROUPS, 0), (MOST_GROUPS + 2, 1)])
def test_mlir_takes_lists_of_different_types_up_to_a_limit(num_inputs: int, num_faults: int) -> None:
    text = print_module(program(num_inputs))
    assert parse_module(text).is_structurally_equivalent(program(num_inputs))
    assert len(check_with_mlir({"list.mlir": text})) == num_faults
