"""The reference page of the instruction set."""

from __future__ import annotations

from .definition import InstructionField, InstructionSet, tensor_pe_array_isa


def isa_markdown() -> str:
    """The page, from what the instruction set's file says."""
    isa = tensor_pe_array_isa()
    lines = [
        "# Instructions of the tensor PE array",
        "",
        "Generated from `archdsl/isa/tensor_pe_array.yaml` by `isa_markdown`. Bits are counted from the least significant.",
        "",
        f"Every instruction has {isa.instruction_bits} bits and begins with the header; bits that it does not use are 0.",
        "What instructions do to numbers, and when, is in [the PE array's page](tensor_pe_array.md).",
        "",
        "## Queues",
        "",
        "| queue | instructions do |",
        "|---|---|",
        *(f"| `{queue.name}` | {queue.description} |" for queue in isa.queues),
        "",
        "## Header",
        "",
        *_table(isa, isa.header, isa.instruction_bits),
    ]
    for kind in isa.instructions:
        queue = "waits in dispatch" if kind.is_barrier else f"{kind.queue} queue"
        lines += ["", f"## {kind.name}", "", f"Opcode {kind.opcode}, {queue}. {kind.description}"]
        if kind.fields:
            lines += ["", *_table(isa, kind.fields, isa.instruction_bits - isa.header_bits)]
    return "\n".join(lines) + "\n"


def _table(isa: InstructionSet, fields: tuple[InstructionField, ...], top: int) -> list[str]:
    rows = ["| bits | field | values | meaning |", "|---|---|---|---|"]
    for field in fields:
        low = top - field.bits
        place = f"{top - 1}" if field.bits == 1 else f"{top - 1}:{low}"
        values = (
            ", ".join(f"{idx} `{name}`" for idx, name in enumerate(field.choices)) or f"{field.least} to {field.most:,}"
        )
        rows.append(f"| {place} | `{field.name}` | {values} | {field.description} |")
        top = low
    return rows
