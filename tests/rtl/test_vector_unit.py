"""What softmax and normalisation need of the vector unit, on the RTL, against plain Python integers."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import numpy.typing as npt
import pytest

from tileloom.archdsl import PeArray, check_program
from tileloom.compiler import ProgramBuilder
from tileloom.rtl import Job

from .cases import array_of, assert_same, exactly

pytestmark = pytest.mark.rtl

Rows = list[list[int]]
SIZES = [(8, 8, 8), (16, 16, 16)]
TABLES, PARAMETERS, INPUT, OTHER, OUTPUT = 0, 1024, 4096, 12288, 20480
"""Places in main memory."""


class _Bench:
    """One program over matrices of 8-bit integers whose rows are whole vectors."""

    def __init__(self, array: PeArray, num_rows: int, num_vectors: int) -> None:
        self.array, self.num_rows, self.num_vectors = array, num_rows, num_vectors
        self.row_bytes = num_vectors * array.cols
        self.builder = ProgramBuilder(array)
        self.memory = np.zeros(65536, dtype=np.uint8)
        self.half = array.scratchpad_bytes // 2

    def tables(self, *tables: list[int]) -> None:
        """Loads tables; an element's place is its byte."""
        for slot, table in enumerate(tables):
            at = TABLES + slot * 256
            self.memory[at : at + 256] = np.array(table, dtype=np.int8).view(np.uint8)
            operands = {"memory_address": at, "local_address": slot, "rows": 1, "row_beats": self.array.table_beats}
            self.builder.load({**operands, "space": 2}, gives=False)

    def scaling(self, slot: int, multiplier: int, shift: int, bias: int = 0) -> None:
        """Loads the same channel parameters for all columns."""
        cols, num_bytes = self.array.cols, self.array.slot_beats * self.array.bus_bytes
        at = PARAMETERS + slot * num_bytes
        self.memory[at : at + 4 * cols] = np.full(cols, bias, dtype="<i4").view(np.uint8)
        self.memory[at + 4 * cols : at + 8 * cols] = np.full(cols, multiplier, dtype="<i4").view(np.uint8)
        self.memory[at + 8 * cols : at + 9 * cols] = shift
        operands = {"memory_address": at, "local_address": slot, "rows": 1, "row_beats": self.array.slot_beats}
        self.builder.load({**operands, "space": 1}, gives=False)

    def load(self, place: int, local: int, rows: Rows) -> None:
        """Puts a matrix into the scratchpad."""
        data = np.array(rows, dtype=np.int8).view(np.uint8).reshape(-1)
        self.memory[place : place + len(data)] = data
        beats = len(data) // self.array.bus_bytes
        self.builder.load({"memory_address": place, "local_address": local, "rows": 1, "row_beats": beats}, gives=False)

    def tile(self, local: int, row_bytes: int, num_rows: int | None = None) -> None:
        """Makes a matrix the input of ALU."""
        rows = self.num_rows if num_rows is None else num_rows
        tile = {"address": local, "row_bytes": row_bytes, "rows": rows, "width_bytes": row_bytes}
        self.builder.configure("CFG_TILE", tile)

    def vector(self, **operands: int) -> None:
        """An ALU over all of the tile, after everything before it."""
        walk = {"x_count": self.num_vectors, "y_count": self.num_rows, "columns": self.array.cols}
        self.builder.fence()
        self.builder.vector({**walk, **operands}, ends=True)

    def store(self, address: int, *, vectors: int, slot: int, to_scratchpad: bool = False, lookup: int = 0) -> None:
        """Stores `vectors` per row, with elements of 8 bits, after everything before it."""
        cols = self.array.cols
        self.builder.fence()
        self.builder.configure("CFG_ST", {"x_bytes": cols, "y_bytes": vectors * cols, "low": -128, "high": 127})
        operands = {"x_count": vectors, "y_count": self.num_rows, "columns": cols, "slot": slot, "lookup": lookup}
        self.builder.store({**operands, "address": address, "space": int(to_scratchpad)}, after=0)

    def job(self) -> Job:
        """The program, which is valid."""
        job = Job(program=self.builder.finish(), memory=self.memory)
        assert not check_program(job.program, self.array, len(self.memory))
        return job

    def result(self, memory: npt.NDArray[np.uint8], vectors: int) -> Rows:
        """What was stored to main memory."""
        num_bytes = self.num_rows * vectors * self.array.cols
        return memory[OUTPUT : OUTPUT + num_bytes].view(np.int8).reshape(self.num_rows, -1).astype(int).tolist()


def random_rows(rng: Random, array: PeArray, num_rows: int, num_vectors: int, low: int = -128) -> Rows:
    return [[rng.randint(low, 127) for _ in range(num_vectors * array.cols)] for _ in range(num_rows)]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_elementwise_product_of_two_matrices(sizes: tuple[int, int, int]) -> None:
    array, rng = array_of(*sizes), Random(1)
    bench = _Bench(array, num_rows=5, num_vectors=3)
    one, other = (random_rows(rng, array, 5, 3) for _ in range(2))
    bench.load(INPUT, 0, one)
    bench.load(OTHER, bench.half, other)
    bench.scaling(0, multiplier=1, shift=7)
    bench.tile(0, bench.row_bytes)
    bench.builder.configure("CFG_WALK", {"x_step_bytes": array.cols, "y_step_rows": 1})
    bench.builder.configure("CFG_ALU", {"address": bench.half, "step_bytes": array.cols})
    bench.vector(operand=2)
    bench.store(OUTPUT, vectors=3, slot=0)
    (result,) = assert_same(array, [bench.job()])
    expected = [
        [min(127, exactly(a * b, 1, 7, array.rounding)) for a, b in zip(*rows, strict=True)]
        for rows in zip(one, other, strict=True)
    ]
    assert bench.result(result.memory, 3) == expected


@pytest.mark.parametrize("is_maximum", [True, False])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_rows_are_reduced_over_lanes_and_vectors(sizes: tuple[int, int, int], is_maximum: bool) -> None:
    """A row's maximum or sum comes to all lanes of one vector; negative maxima are not hidden by lanes without a part."""
    array, rng = array_of(*sizes), Random(2)
    num_vectors, columns = 3, array.cols - 1
    bench = _Bench(array, num_rows=1, num_vectors=num_vectors)
    (row,) = random_rows(rng, array, 1, num_vectors)
    row = [min(value, -5) for value in row] if is_maximum else row
    bench.load(INPUT, 0, [row])
    bench.scaling(0, multiplier=1, shift=0 if is_maximum else 4)
    bench.tile(0, bench.row_bytes)
    bench.builder.configure("CFG_WALK", {"x_step_bytes": array.cols, "y_step_rows": 1})
    bench.builder.configure("CFG_ALU", {"scalar": 1})
    bench.vector(lanes=1, hold=1, columns=columns, operation=int(is_maximum))
    bench.store(OUTPUT, vectors=1, slot=0)
    # A store takes as many vectors as there are outputs.
    (result,) = assert_same(array, [bench.job()])
    parts = [value for idx, value in enumerate(row) if idx % array.cols < columns]
    total = exactly(max(parts) if is_maximum else sum(parts), 1, 0 if is_maximum else 4, array.rounding)
    assert bench.result(result.memory, 1) == [[max(-128, min(127, total))] * array.cols]


def test_sums_of_32_bits_are_added_each_with_multiplier_and_shift() -> None:
    """Sums stored with 32 bits come back as operands: a * 11 / 2^3 + b * -5 / 2^2, each rounded."""
    array, rng = array_of(16, 16, 16), Random(3)
    num, lanes = 6, array.word_lanes
    sums = [[[rng.randint(-(1 << 20), 1 << 20) for _ in range(lanes)] for _ in range(num)] for _ in range(2)]
    builder = ProgramBuilder(array)
    memory = np.zeros(4096, dtype=np.uint8)
    data = np.array(sums, dtype="<i4").view(np.uint8).reshape(-1)
    memory[: len(data)] = data
    builder.load({"memory_address": 0, "rows": 1, "row_beats": len(data) // array.bus_bytes}, gives=False)
    builder.configure("CFG_WALK", {"x_step_bytes": 4 * lanes, "input_bits": 2})
    for idx, (multiplier, shift) in enumerate(((11, 3), (-5, 2))):
        builder.fence()
        width = num * lanes * 4
        builder.configure("CFG_TILE", {"address": idx * width, "row_bytes": width, "rows": 1, "width_bytes": width})
        builder.configure("CFG_ALU", {"scalar": multiplier, "shift": shift})
        builder.vector({"x_count": num, "y_count": 1, "columns": lanes, "accumulate": idx}, ends=True)
    builder.fence()
    builder.configure("CFG_ST", {"x_bytes": 4 * array.cols})
    builder.store({"x_count": num, "y_count": 1, "columns": lanes, "address": 2048, "format": 2}, after=0)
    job = Job(program=builder.finish(), memory=memory)
    assert not check_program(job.program, array, len(memory))
    (result,) = assert_same(array, [job])
    found = result.memory[2048 : 2048 + num * 4 * array.cols].view("<i4").reshape(num, -1)[:, :lanes].tolist()
    assert found == [
        [exactly(a, 11, 3, array.rounding) + exactly(b, -5, 2, array.rounding) for a, b in zip(*rows, strict=True)]
        for rows in zip(*sums, strict=True)
    ]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_softmax(sizes: tuple[int, int, int]) -> None:
    """Row maximum, difference, exp by table, row sum, reciprocal by table, product: exact integers, near softmax."""
    array, rng = array_of(*sizes), Random(4)
    num_rows, num_vectors, cols, step = 4, 2, array.cols, 1 / 16
    num = num_vectors * cols
    bench = _Bench(array, num_rows, num_vectors)
    rows = random_rows(rng, array, num_rows, num_vectors, low=-100)
    # Differences from -255 to 0 are halved to fit a byte; sums of up to `num` * 127 are divided to fit 1 to 127.
    exps = [
        round(127 * math.exp(2 * step * (byte - 256 if byte > 127 else byte))) if byte > 127 or byte == 0 else 127
        for byte in range(256)
    ]
    divisor = (num - 1).bit_length()
    reciprocals = [min(127, round(128 / byte * 8)) if 0 < byte < 128 else 127 for byte in range(256)]
    bench.tables(exps, reciprocals)
    bench.load(INPUT, 0, rows)
    bench.scaling(0, multiplier=1, shift=0)
    bench.scaling(1, multiplier=1, shift=1)
    bench.scaling(2, multiplier=1, shift=divisor)
    bench.scaling(3, multiplier=1, shift=divisor + 3)
    walk = {"x_step_bytes": cols, "y_step_rows": 1}
    maxima, differences, sums = bench.half, bench.half + num_rows * cols, bench.half + num_rows * (cols + num)
    bench.builder.configure("CFG_WALK", walk)
    bench.builder.configure("CFG_ALU", {"scalar": 1})

    def reduced(source: int, target: int, slot: int, lookup: int, operation: int) -> None:
        bench.tile(source, num)
        for row in range(num_rows):
            bench.vector(y=row, y_count=1, lanes=1, hold=1, destination=row, operation=operation)
        bench.store(target, vectors=1, slot=slot, to_scratchpad=True, lookup=lookup)

    reduced(0, maxima, slot=0, lookup=0, operation=1)
    bench.tile(0, num)
    bench.vector()
    bench.tile(maxima, cols)
    bench.builder.configure("CFG_WALK", {**walk, "x_step_bytes": 0})
    bench.builder.configure("CFG_ALU", {"scalar": -1})
    bench.vector(accumulate=1)
    bench.store(differences, vectors=num_vectors, slot=1, to_scratchpad=True, lookup=1)
    bench.builder.configure("CFG_WALK", walk)
    bench.builder.configure("CFG_ALU", {"scalar": 1})
    reduced(differences, sums, slot=2, lookup=2, operation=0)
    bench.tile(differences, num)
    for row in range(num_rows):
        bench.builder.configure("CFG_ALU", {"address": sums + row * cols})
        bench.vector(y=row, y_count=1, operand=1, destination=row * num_vectors)
    bench.store(OUTPUT, vectors=num_vectors, slot=3)
    (result,) = assert_same(array, [bench.job()])
    found = bench.result(result.memory, num_vectors)
    for row, probabilities in zip(rows, found, strict=True):
        scaled = [exps[exactly(value - max(row), 1, 1, array.rounding) & 255] for value in row]
        reciprocal = reciprocals[max(-128, min(127, exactly(sum(scaled), 1, divisor, array.rounding))) & 255]
        assert probabilities == [
            min(127, exactly(value * reciprocal, 1, divisor + 3, array.rounding)) for value in scaled
        ]
        exact = [math.exp(step * (value - max(row))) for value in row]
        # Of 1 / 128; the sum is known to one part in its byte.
        assert np.abs(np.array(probabilities) / 128 - np.array(exact) / sum(exact)).max() < 0.1
