"""Elements of 4 bits, on the RTL, against plain Python integers."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tileloom.archdsl import Instruction, PeArray
from tileloom.rtl import Job, run_programs

from .cases import array_of, exactly

pytestmark = pytest.mark.rtl


def nibbles(values: list[int]) -> bytes:
    """Pairs of values from -8 to 7, the first in the low half."""
    padded = [*values, 0] if len(values) % 2 else values
    return bytes((low & 15) | (high & 15) << 4 for low, high in zip(padded[0::2], padded[1::2], strict=True))


def job_of(array: PeArray, inputs: list[list[int]], weights: list[list[int]], shift: int) -> Job:
    """One tile: [m, rows] inputs times [rows, cols] weights, both of 4 bits, stored with 4 bits."""
    bus, rows, cols = array.bus_bytes, array.rows, array.cols
    memory = np.zeros(4096, dtype=np.uint8)
    for at, values in enumerate(inputs):
        memory[at * bus : at * bus + rows // 2] = np.frombuffer(nibbles(values), dtype=np.uint8)
    for at, values in enumerate(weights):
        memory[1024 + at * bus : 1024 + at * bus + cols // 2] = np.frombuffer(nibbles(values), dtype=np.uint8)
    memory[2048 + 4 * cols : 2048 + 8 * cols] = np.frombuffer(np.ones(cols, dtype="<i4").tobytes(), dtype=np.uint8)
    memory[2048 + 8 * cols : 2048 + 9 * cols] = shift
    num = len(inputs)

    def made(name: str, operands: dict[str, int], **bits: bool) -> Instruction:
        return Instruction(name=name, operands=operands, **bits)

    far = array.scratchpad_bytes // 2
    program = [
        made("CFG_LD", {"memory_row_bytes": bus, "local_row_bytes": bus}),
        made("LD", {"memory_address": 2048, "rows": 1, "row_beats": array.slot_beats, "space": 1}),
        made("LD", {"memory_address": 1024, "local_address": far, "rows": rows, "row_beats": 1}),
        made("LD", {"memory_address": 0, "local_address": 0, "rows": num, "row_beats": 1}, push_next=True),
        made("CFG_TILE", {"row_bytes": bus, "rows": num, "width_bytes": rows // 2}),
        made("CFG_WALK", {"y_step_rows": 1, "input_bits": 1, "weight_bits": 1}),
        made("PRELOAD", {"address": far, "row_bytes": bus, "rows": rows}, pop_prev=True),
        made("COMPUTE", {"x_count": 1, "y_count": num, "rows": rows, "swap": 1}, push_next=True),
        made("CFG_ST", {"x_bytes": bus, "y_bytes": bus, "low": -8, "high": 7}),
        made("ST", {"x_count": 1, "y_count": num, "address": 3072, "columns": cols, "format": 1}, pop_prev=True),
        made("HALT", {}),
    ]
    return Job(program=program, memory=memory)


@pytest.mark.parametrize("sizes", [(8, 8, 8), (16, 4, 4), (4, 16, 4)], ids=str)
def test_products_of_4_bits_are_exact(sizes: tuple[int, int, int]) -> None:
    array = array_of(*sizes)
    rng = Random(str(sizes))
    # A row of inputs takes one beat here.
    if array.rows // 2 > array.bus_bytes or array.cols // 2 > array.bus_bytes:
        array = array_of(*sizes[:2], 8)
    inputs = [[rng.randint(-8, 7) for _ in range(array.rows)] for _ in range(11)]
    weights = [[rng.randint(-8, 7) for _ in range(array.cols)] for _ in range(array.rows)]
    (result,) = run_programs(array, [job_of(array, inputs, weights, shift=4)])
    for at, values in enumerate(inputs):
        sums = [sum(a * w[column] for a, w in zip(values, weights, strict=True)) for column in range(array.cols)]
        expected = [min(7, max(-8, exactly(total, 1, 4, array.rounding))) for total in sums]
        place = 3072 + at * array.bus_bytes
        assert result.memory[place : place + array.cols // 2].tobytes() == nibbles(expected)
