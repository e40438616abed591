"""Forms of `tile` ops: operands and configuration of their instructions, and what cycles and waits depend on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Operation

from ...archdsl import PeArray, ceil_div
from ...models import LOAD_STEP, MATMUL_STEP, STORE_STEP, VECTOR_STEP
from ..ir import tile
from .steps import Config, Form

ELEMENT_FORMATS = {8: 0, 4: 1, 32: 2}
"""Codes of an element's bits."""
PARAMETERS_SPACE, TABLES_SPACE = 1, 2
"""Codes of an LD's spaces beside the scratchpad."""


def form_of(op: Operation, array: PeArray) -> Form:
    """The form of an op's steps; the op must be one of `FORMS`."""
    return FORMS[type(op)](op, array)


def _numbers(op: Operation) -> dict[str, int]:
    return {name: attr.value.data for name, attr in op.attributes.items() if isinstance(attr, IntegerAttr)}


def _copy(op: Operation, array: PeArray) -> Form:
    number = _numbers(op)
    rows, beats = number["rows"], ceil_div(number["row_bytes"], array.bus_bytes)
    num_bytes = beats * array.bus_bytes
    pitches = {"memory_row_bytes": number["read_pitch"], "local_row_bytes": number["write_pitch"]}
    return Form(
        name="LD",
        operands={"memory_address": 0, "local_address": 0, "rows": rows, "row_beats": beats},
        configs=(("CFG_LD", pitches),) if rows > 1 else (),
        facts={
            "kind": LOAD_STEP, "vectors": rows, "beats": beats,
            "read_bytes": (rows - 1) * number["read_pitch"] + num_bytes,
            "written_bytes": (rows - 1) * number["write_pitch"] + num_bytes,
        },
    )  # fmt: skip


def _slot_load(beats: int, space: int) -> Form:
    return Form(
        name="LD",
        operands={"memory_address": 0, "local_address": 0, "rows": 1, "row_beats": beats, "space": space},
        facts={"kind": LOAD_STEP, "space": space, "vectors": 1, "beats": beats},
    )


def _parameters(op: Operation, array: PeArray) -> Form:
    return _slot_load(array.slot_beats, PARAMETERS_SPACE)


def _table(op: Operation, array: PeArray) -> Form:
    return _slot_load(array.table_beats, TABLES_SPACE)


def _matmul(op: Operation, array: PeArray) -> Form:
    assert isinstance(op, tile.MatMulOp)
    number = _numbers(op)
    rows, pitch = number["rows"], number["weights_pitch"]
    weights_bytes = (rows - 1) * pitch + ceil_div(array.cols * number["weight_bits"], 8)
    operands, configs, facts = _walk(op, number, rows)
    return Form(
        name="COMPUTE",
        operands={**operands, "rows": rows, "swap": 1},
        configs=configs,
        preload={"address": 0, "row_bytes": pitch, "rows": rows},
        facts={**facts, "kind": MATMUL_STEP, "read_bytes": weights_bytes},
    )


def _vector(op: Operation, array: PeArray) -> Form:
    assert isinstance(op, tile.VectorOp)
    number = _numbers(op)
    text = {name: attr.data for name, attr in op.attributes.items() if isinstance(attr, StringAttr)}
    operands, configs, facts = _walk(op, number, ceil_div(number["columns"] * number["input_bits"], 8))
    is_sequence, has_values = text["operand"] == "sequence", text["operand"] != "scalar"
    num_values = facts["vectors"] if is_sequence else 1
    alu = {
        "scalar": number["scalar"], "address": 0, "step_bytes": number["values_step"] if is_sequence else 0,
        "shift": number["shift"],
    }  # fmt: skip
    return Form(
        name="ALU",
        operands={
            **operands,
            "columns": number["columns"],
            "operation": int(text["operation"] == "maximum"),
            "operand": ("scalar", "vector", "sequence").index(text["operand"]),
            "lanes": int(text["lanes"] == "combined"),
            "hold": number["hold"],
        },
        configs=(*configs, ("CFG_ALU", alu)),
        facts={
            **facts, "kind": VECTOR_STEP, "operands": num_values * has_values, "is_sequence": int(is_sequence),
            "num_sums": 1 if number["hold"] else facts["vectors"],
            "read_bytes": ((num_values - 1) * number["values_step"] + array.cols) * has_values,
        },
    )  # fmt: skip


def _walk(
    op: tile.MatMulOp | tile.VectorOp, number: Mapping[str, int], lane_bytes: int
) -> tuple[dict[str, int], tuple[Config, ...], dict[str, int]]:
    """Operands, configuration and facts of a walk."""
    rows, width = tile.size_of(op.input)
    pitch, y_count, x_count = tile.pitch_of(op.input), number["y_count"], number["x_count"]
    configs: tuple[Config, ...] = (
        ("CFG_TILE", {"address": 0, "row_bytes": pitch, "rows": rows, "width_bytes": width}),
        ("CFG_WALK", {
            "x_step_bytes": number["x_step"], "y_step_rows": number["y_step"], "padding": number["padding"],
            "input_bits": ELEMENT_FORMATS[number.get("input_bits", 8)],
            "weight_bits": int(number.get("weight_bits", 8) == 4),
        }),
    )  # fmt: skip
    facts = {
        "vectors": y_count * x_count, "num_sums": y_count * x_count, "rows": rows, "width": width, "pitch": pitch,
        "y_span": (y_count - 1) * number["y_step"], "x_span": (x_count - 1) * number["x_step"] + lane_bytes,
    }  # fmt: skip
    operands = {"y": 0, "x": 0, "destination": 0, "x_count": x_count, "y_count": y_count, "accumulate": 0}
    return operands, configs, facts


def _store(op: Operation, array: PeArray) -> Form:
    assert isinstance(op, tile.StoreOp)
    number = _numbers(op)
    y_count, x_count, columns = number["y_count"], number["x_count"], number["columns"]
    is_local = tile.space_of(op.target) == tile.SCRATCHPAD
    num_bytes = ceil_div(columns * number["bits"], 8)
    last = (y_count - 1) * number["y_pitch"] + (x_count - 1) * number["x_pitch"]
    return Form(
        name="ST",
        operands={
            "source": 0, "x_count": x_count, "y_count": y_count, "address": 0, "columns": columns, "slot": 0,
            "format": ELEMENT_FORMATS[number["bits"]], "space": int(is_local), "lookup": 0,
        },
        configs=(
            ("CFG_ST", {
                "x_bytes": number["x_pitch"], "y_bytes": number["y_pitch"], "zero_point": number["zero_point"],
                "low": number["low"], "high": number["high"],
            }),
        ),
        facts={
            "kind": STORE_STEP, "space": int(is_local), "vectors": y_count * x_count, "num_sums": y_count * x_count,
            "beats": 0 if is_local else ceil_div(num_bytes, array.bus_bytes), "written_bytes": last + num_bytes,
            "has_table": int(op.table is not None),
        },
    )  # fmt: skip


FORMS: Mapping[type[Operation], Callable[[Operation, PeArray], Form]] = {
    tile.CopyOp: _copy,
    tile.ParametersOp: _parameters,
    tile.TableOp: _table,
    tile.MatMulOp: _matmul,
    tile.VectorOp: _vector,
    tile.StoreOp: _store,
}
"""What makes forms, by op; no other op makes steps."""
