"""The SystemVerilog package of one tensor PE array: its sizes and the instruction set."""

from __future__ import annotations

import math

from ..archdsl import (
    E4M3,
    INDEX_BITS,
    OUT_DEPTH,
    TOKEN_BITS,
    InstructionField,
    InstructionKind,
    PeArray,
    tensor_pe_array_isa,
)


def package(array: PeArray) -> str:
    """The text of `tpe_pkg.sv`."""
    lines = ["// Generated from the architecture and the instruction set.", "package tpe_pkg;"]
    lines += [f"  localparam {kind} {name} = {value};" for kind, name, value in _parameters(array)]
    lines += ["", *_instructions(), "", *_errors(), "endpackage"]
    return "\n".join(lines) + "\n"


def _parameters(array: PeArray) -> list[tuple[str, str, int | str]]:
    isa = tensor_pe_array_isa()
    operands = {field.name: field.bits for kind in isa.instructions for field in kind.fields}
    # Functions on floating-point elements must have legal widths even where they are not used.
    floating = array.format if array.format.is_float else E4M3
    sizes = {
        "Rows": array.rows,
        "Cols": array.cols,
        "Lanes": max(array.rows, array.cols),
        "RowW": _bits(array.rows),
        "ElemW": array.element_bits,
        "AccW": array.accumulator_bits,
        "SumW": array.sum_bits,
        "ExpW": floating.exponent_bits,
        "ManW": floating.significand_bits,
        "WordBytes": array.word_bytes,
        "WordW": 8 * array.word_bytes,
        "WordShift": _bits(array.word_bytes),
        "NumBanks": array.scratchpad_banks,
        "BankW": _bits(array.scratchpad_banks),
        "BankWords": array.bank_words,
        "BankWordShift": _bits(array.bank_words),
        "AccDepth": array.accumulator_vectors,
        "AccBanks": array.accumulator_banks,
        "AccBankW": _bits(array.accumulator_banks),
        "PostLanes": array.post_lanes,
        "OutDepth": OUT_DEPTH,
        "BusBytes": array.bus_bytes,
        "BusW": 8 * array.bus_bytes,
        "BusShift": _bits(array.bus_bytes) if array.bus_bytes > 1 else 0,
        "QueueDepth": array.queue_depth,
        "LoadsInFlight": array.loads_in_flight,
        "RequestsInFlight": array.requests_in_flight,
        "ParamSlots": array.parameter_slots,
        "SlotW": _bits(array.parameter_slots),
        "ParamBeats": array.slot_beats,
        "ParamBeatW": _bits(array.slot_beats),
        "TableSlots": array.table_slots,
        "TableSlotW": _bits(array.table_slots),
        "TableBeats": array.table_beats,
        "TableBeatW": _bits(array.table_beats),
        "ShiftW": operands["shift"],
        "LookupW": operands["lookup"],
        "InsnW": isa.instruction_bits,
        "OpcodeW": isa.header[0].bits,
        "CycleW": next(field.bits for field in isa.header if field.name == "issue_cycle"),
        "HeaderRestW": isa.instruction_bits - isa.header_bits,
        "IndexW": INDEX_BITS,
        "TokenW": TOKEN_BITS,
        "MemAddrW": operands["memory_address"],
        "LocalAddrW": operands["local_address"],
        "AccAddrW": operands["destination"],
        "CountW": operands["x_count"],
        "LaneCountW": operands["columns"],
        "RowsW": next(field.bits for field in isa.by_name["LD"].fields if field.name == "rows"),
        "BeatsW": operands["row_beats"],
    }
    found: list[tuple[str, str, int | str]] = [("int unsigned", name, value) for name, value in sizes.items()]
    found.append(("bit", "ScratchpadSinglePort", f"1'b{int(array.is_single_port)}"))
    found.append(("bit", "IsFloat", f"1'b{int(array.format.is_float)}"))
    found.append(("bit", "HasInfinity", f"1'b{int(array.format.has_infinity)}"))
    found.append(("bit", "RoundHalfToEven", f"1'b{int(array.rounding == 'half_to_even')}"))
    return found


def _bits(num: int) -> int:
    """Bits that tell `num` things apart, at least one."""
    return max(1, math.ceil(math.log2(num)))


def _instructions() -> list[str]:
    isa = tensor_pe_array_isa()
    lines: list[str] = []
    opcode_bits = isa.header[0].bits
    for kind in isa.instructions:
        lines.append(f"  localparam logic [{opcode_bits - 1}:0] Op{_camel(kind.name)} = {opcode_bits}'d{kind.opcode};")
    for kind in isa.instructions:
        for field in kind.fields:
            for value, choice in enumerate(field.choices):
                name = f"{_camel(kind.name)}{_camel(field.name)}{_camel(choice)}"
                lines.append(f"  localparam logic [{field.bits - 1}:0] {name} = {field.bits}'d{value};")
    lines += ["", *_struct("header", isa.header, 0)]
    for kind in isa.instructions:
        if kind.fields:
            rest = isa.layout(kind)[-1][1]
            lines += _struct(kind.name.lower(), (*isa.header, *kind.fields), rest)
    return [*lines, "", *_queue_function(), "", *_immediate_function()]


def _struct(name: str, fields: tuple[InstructionField, ...], unused_bits: int) -> list[str]:
    lines = ["  typedef struct packed {"]
    lines += [
        f"    logic{' signed' if f.signed else ''} [{f.bits - 1}:0] {f.name};" if f.bits > 1 else f"    logic {f.name};"
        for f in fields
    ]
    if unused_bits:
        lines.append(f"    logic [{unused_bits - 1}:0] unused;")
    return [*lines, f"  }} {name}_t;"]


def _queue_function() -> list[str]:
    isa = tensor_pe_array_isa()
    lines = [
        "  // The queue of an instruction, one hot.",
        "  function automatic logic [2:0] queue_of(input logic [OpcodeW-1:0] opcode);",
        "    case (opcode)",
    ]
    for idx, queue in enumerate(isa.queues):
        names = [
            f"Op{_camel(kind.name)}" for kind in isa.instructions if kind.queue == queue.name and not kind.is_barrier
        ]
        lines.append(f"      {', '.join(names)}: queue_of = 3'b{1 << idx:03b};")
    return [*lines, "      default: queue_of = '0;", "    endcase", "  endfunction"]


def _immediate_function() -> list[str]:
    """Instructions that end with their issue, and those that occupy a unit."""
    isa = tensor_pe_array_isa()
    units = [kind for kind in isa.instructions if is_unit_instruction(kind)]
    tests = " || ".join(f"opcode == Op{_camel(kind.name)}" for kind in units)
    return [
        "  // Instructions that occupy a unit; all others end with their issue.",
        "  function automatic logic is_unit_op(input logic [OpcodeW-1:0] opcode);",
        f"    is_unit_op = {tests};",
        "  endfunction",
        "  function automatic logic is_immediate(input logic [OpcodeW-1:0] opcode);",
        "    is_immediate = !is_unit_op(opcode);",
        "  endfunction",
    ]


def is_unit_instruction(kind: InstructionKind) -> bool:
    """Whether an instruction occupies a unit for longer than its issue."""
    return kind.name in ("LD", "PRELOAD", "COMPUTE", "ALU", "ST")


def _errors() -> list[str]:
    return [
        "  localparam logic [1:0] ErrorMistimed = 2'd1;",
        "  localparam logic [1:0] ErrorConflict = 2'd2;",
        "  localparam logic [1:0] ErrorUndelivered = 2'd3;",
        "  typedef struct packed {",
        "    logic valid;",
        "    logic [1:0] cause;",
        "    logic [1:0] queue_idx;",
        "    logic [IndexW-1:0] index;",
        "  } error_t;",
    ]


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.lower().split("_"))
