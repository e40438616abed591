"""What the instructions of a program read, write and multiply, and what that takes in energy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ...archdsl import Instruction, ModelError, PeArray, SpatialArch, ceil_div
from ..components import resolve
from ..parts import Part, sum_of

if TYPE_CHECKING:
    from ..components import ArchNumbers, LevelNumbers

Amounts = npt.NDArray[np.int64]
INPUT_BITS, STORED_BITS = (8, 4, 32), (8, 4, 32)
"""What the choices of CFG_WALK's `input_bits` and ST's `format` stand for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accesses:
    """Amounts per instruction, [instructions], or per group of them.

    Attributes:
        array_macs: Multiply-accumulates of the array: all columns of the rows that take part, whether useful or not.
        vector_macs: Products of the ALU, each with its sum.
        memory_read_bytes, memory_written_bytes: Main memory, in whole beats.
        scratchpad_read_bytes, scratchpad_written_bytes: Scratchpad.
        accumulator_read_bytes, accumulator_written_bytes: Accumulators.
        register_read_bytes, register_written_bytes: Weights in the PEs: one read a product, one write a preload.
    """

    array_macs: Amounts
    vector_macs: Amounts
    memory_read_bytes: Amounts
    memory_written_bytes: Amounts
    scratchpad_read_bytes: Amounts
    scratchpad_written_bytes: Amounts
    accumulator_read_bytes: Amounts
    accumulator_written_bytes: Amounts
    register_read_bytes: Amounts
    register_written_bytes: Amounts

    def grouped(self, groups: npt.NDArray[np.int64], num_groups: int) -> Accesses:
        """Sums per group.

        Args:
            groups: [instructions] group of each; below 0 for none.
            num_groups: How many there are.
        """
        chosen = groups >= 0

        def total(amounts: Amounts) -> Amounts:
            found = np.zeros(num_groups, dtype=np.int64)
            np.add.at(found, groups[chosen], amounts[chosen])
            return found

        return Accesses(**{field.name: total(getattr(self, field.name)) for field in fields(self)})


def count_accesses(array: PeArray, program: Sequence[Instruction]) -> Accesses:
    """Counts what every instruction of a program does.

    Args:
        array: The PE array.
        program: The program.
    """
    found = {field.name: np.zeros(len(program), dtype=np.int64) for field in fields(Accesses)}
    input_bits = weight_bits = 8
    for idx, insn in enumerate(program):
        if insn.name == "CFG_WALK":
            input_bits, weight_bits = INPUT_BITS[insn["input_bits"]], 4 if insn["weight_bits"] else 8
            continue
        for name, amount in _amounts(array, insn, input_bits, weight_bits).items():
            found[name][idx] = amount
    return Accesses(**found)


def _amounts(array: PeArray, insn: Instruction, input_bits: int, weight_bits: int) -> dict[str, int]:
    """What one instruction does."""
    match insn.name:
        case "LD":
            num_bytes = insn["rows"] * insn["row_beats"] * array.bus_bytes
            return {"memory_read_bytes": num_bytes, "scratchpad_written_bytes": 0 if insn["space"] else num_bytes}
        case "PRELOAD":
            num_bytes = insn["rows"] * ceil_div(array.cols * weight_bits, 8)
            return {"scratchpad_read_bytes": num_bytes, "register_written_bytes": num_bytes}
        case "COMPUTE":
            num = insn["x_count"] * insn["y_count"]
            macs = num * insn["rows"] * array.cols
            return {
                "array_macs": macs, "register_read_bytes": ceil_div(macs * weight_bits, 8),
                "scratchpad_read_bytes": num * ceil_div(insn["rows"] * input_bits, 8), **_sums(array, num, insn["accumulate"]),
            }  # fmt: skip
        case "ALU":
            num = insn["x_count"] * insn["y_count"]
            operand = insn.kind.field("operand").choices[insn["operand"]]
            vectors = num + {"scalar": 0, "vector": 1, "sequence": num}[operand]
            return {
                "vector_macs": num * insn["columns"],
                "scratchpad_read_bytes": vectors * ceil_div(insn["columns"] * input_bits, 8),
                **_sums(array, num, insn["accumulate"] or insn["hold"]),
            }
        case "ST":
            num = insn["x_count"] * insn["y_count"]
            num_bytes = ceil_div(insn["columns"] * STORED_BITS[insn["format"]], 8)
            beats = num * ceil_div(num_bytes, array.bus_bytes)
            return {
                "accumulator_read_bytes": num * _sum_bytes(array),
                "scratchpad_written_bytes": num * num_bytes if insn["space"] else 0,
                "memory_written_bytes": 0 if insn["space"] else beats * array.bus_bytes,
            }
        case _:
            return {}


def _sum_bytes(array: PeArray) -> int:
    """Bytes of a vector of sums."""
    return array.cols * ceil_div(array.sum_bits, 8)


def _sums(array: PeArray, num: int, reads: int) -> dict[str, int]:
    num_bytes = num * _sum_bytes(array)
    return {"accumulator_written_bytes": num_bytes, "accumulator_read_bytes": num_bytes if reads else 0}


class AccessPrices:
    """Energies of an architecture with a tensor PE array.

    Limits: leakage, clock, instruction fetch, wires, post-processing (bias, scaling, lookup) and channel parameters are
    left out; inputs that lie outside a tile count as reads.
    """

    def __init__(self, arch: SpatialArch) -> None:
        """Resolves an architecture.

        Raises:
            ModelError: A memory of the array is missing.
        """
        self._numbers: ArchNumbers = resolve(arch)
        by_class: dict[str, list[LevelNumbers]] = {}
        for level in self._numbers.levels:
            by_class.setdefault(level.memory_class, []).append(level)
        keeps_output = {memory.name for memory in arch.memories if "output" in memory.keeps}
        pads = by_class.get("scratchpad", [])
        levels = {
            "main memory": by_class.get("main_memory", []),
            "scratchpad": [level for level in pads if level.name not in keeps_output],
            "accumulators": [level for level in pads if level.name in keeps_output],
            "registers": by_class.get("register_file", []),
        }
        missing = [name for name, some in levels.items() if not some]
        if missing:
            raise ModelError(f"{arch.name}: has no {' and no '.join(missing)}, so its accesses have no price")
        self._levels = {name: some[0] for name, some in levels.items()}
        self._mac_pj = self._numbers.compute.datatypes[0].mac_pj

    def energy(self, accesses: Accesses, group: int) -> Part:
        """Energy of one group as a tree, in pJ.

        Args:
            accesses: Of all groups.
            group: Index of the group.
        """
        traffic = {
            "main memory": (accesses.memory_read_bytes, accesses.memory_written_bytes),
            "scratchpad": (accesses.scratchpad_read_bytes, accesses.scratchpad_written_bytes),
            "accumulators": (accesses.accumulator_read_bytes, accesses.accumulator_written_bytes),
            "registers": (accesses.register_read_bytes, accesses.register_written_bytes),
        }
        products = {"PE array": accesses.array_macs, "vector unit": accesses.vector_macs}
        parts = [_leaf(name, int(macs[group]) * self._mac_pj) for name, macs in products.items()]
        for name, (read, written) in traffic.items():
            level = self._levels[name]
            amount = int(read[group]) * level.read_pj_per_byte + int(written[group]) * level.write_pj_per_byte
            parts.append(_leaf(name, amount))
        return sum_of("energy", "pJ", parts)


def _leaf(name: str, amount: float) -> Part:
    return Part(name=name, amount=amount, unit="pJ")
