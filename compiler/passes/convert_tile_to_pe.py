"""`tile` to `pe`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region

from ...archdsl import INDEX_BITS, Infeasible, InfeasibleError, PassError, PeArray, pe_array, tensor_pe_array_isa
from ...models import time_steps
from ..codegen.collecting import paused_collector
from ..codegen.expansion import expand
from ..codegen.instructions import instructions_of
from ..codegen.ordering import LOADS_AHEAD, with_loads_ahead
from ..codegen.timing import columns_of
from ..ir import pe, tile
from .base import PassContext

MOST_INSTRUCTIONS = 1 << INDEX_BITS


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertTileToPe:
    """Unrolls loops, finds places on chip, moves loads ahead and writes instructions with their tokens.

    Before:
        "tile.program"(%0) ({
          ...
          "tile.kernel"() ({ ... "tile.matmul"(%3, %8, %9) {rows = 8 : i64, ...} ... }) {kernel_name = "fc", ...}
        }) {...}
    After:
        "pe.program"(%0) ({
          ...
          "pe.ld"() {local_address = 49152 : i64, rows = 1 : i64, row_beats = 16 : i64, push_next}
          "pe.kernel"() {kernel_name = "fc", ...}
          "pe.preload"() {address = 49152 : i64, row_bytes = 8 : i64, rows = 8 : i64, pop_prev}
          "pe.compute"() {x_count = 4 : i64, y_count = 1 : i64, rows = 8 : i64, swap = 1 : i64, push_next}
          "pe.st"() {x_count = 4 : i64, y_count = 1 : i64, columns = 8 : i64, pop_prev}
          "pe.halt"()
        }) {...}

    Attributes:
        loads_ahead: How many loads may stand in front of what they were placed for.
    """

    name: ClassVar = "convert-tile-to-pe"
    loads_ahead: int = LOADS_AHEAD

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See `Pass`."""
        if ctx.arch is None:
            raise PassError(f"{self.name} needs an architecture")
        with paused_collector():
            return self._converted(module, pe_array(ctx.arch))

    def _converted(self, module: ModuleOp, array: PeArray) -> ModuleOp:
        made = module.clone()
        for op in list(made.body.block.ops):
            if not isinstance(op, tile.ProgramOp):
                continue
            steps = with_loads_ahead(expand(op, array), self.loads_ahead, array)
            instructions, kernels = instructions_of(steps)
            _require_short(op, len(instructions))
            ends = time_steps(array, columns_of(steps, array)).kernel_ends
            predicted = np.diff(ends, prepend=0).tolist()
            body: list[Operation] = [item.clone() for item in op.body.block.ops if isinstance(item, tile.BufferOp)]
            sources = [item for item in op.body.block.ops if isinstance(item, tile.KernelOp)]
            loads: list[list[int]] = [[] for _ in sources]
            in_load_queue = {
                kind.name: kind.queue == "load" and not kind.is_barrier for kind in tensor_pe_array_isa().instructions
            }
            for idx, (instruction, kernel) in enumerate(zip(instructions, kernels, strict=True)):
                if in_load_queue[instruction.name]:
                    loads[kernel].append(idx)
            marks = [
                pe.kernel_op(source, cycles, own) for source, cycles, own in zip(sources, predicted, loads, strict=True)
            ]
            current = -1
            for instruction, kernel in zip(instructions, kernels, strict=True):
                if kernel > current and instruction.queue != "load":
                    body += marks[current + 1 : kernel + 1]
                    current = kernel
                body.append(pe.instruction_op(instruction))
            program = pe.ProgramOp.create(
                operands=list(op.operands), attributes=op.attributes, result_types=[r.type for r in op.results],
                regions=[Region(Block(body))],
            )  # fmt: skip
            for old, new in zip(op.results, program.results, strict=True):
                old.replace_all_uses_with(new)
            made.body.block.insert_op_before(program, op)
            made.body.block.erase_op(op)
        return made


def _require_short(program: tile.ProgramOp, num_instructions: int) -> None:
    """Stops on a program that the program counter cannot count.

    Raises:
        InfeasibleError: It has too many instructions.
    """
    if num_instructions > MOST_INSTRUCTIONS:
        nodes = [op.kernel_name.data for op in program.body.block.ops if isinstance(op, tile.KernelOp)]
        raise InfeasibleError(
            Infeasible(
                resource="program counter", demand=num_instructions, limit=MOST_INSTRUCTIONS, unit="instructions",
                levers=("an array with more PEs or a larger scratchpad", "the network in two parts"),
                op=f"{program.program_name.data} ({nodes[0]} to {nodes[-1]})" if nodes else program.program_name.data,
            )
        )  # fmt: skip
