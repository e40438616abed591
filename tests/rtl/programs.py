"""Random programs for the tensor PE array that are no kernels: every instruction in odd places, and still free of races."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import numpy as np

from tileloom.archdsl import PeArray, ceil_div
from tileloom.compiler import ProgramBuilder
from tileloom.rtl import Job

FORMAT_BITS = (8, 4, 32)


@dataclass(slots=True)
class _Region:
    """A part of the scratchpad, and the tokens of who touched it last."""

    address: int
    num_bytes: int
    loaded: int = 0
    released: int = 0
    read: int = 0
    stored: int = 0
    is_filled: bool = False


@dataclass(slots=True)
class _Sums:
    """A range of accumulator vectors, and the tokens of who touched it last."""

    first: int
    most: int
    written: int = 0
    computed: int = 0
    stored: int = 0


@dataclass(slots=True)
class RandomProgram:
    """Makes one random program.

    Args:
        array: The PE array.
        rng: Where chance comes from.
        num_steps: Computations and vector operations.
    """

    array: PeArray
    rng: Random
    num_steps: int = 30
    builder: ProgramBuilder = field(init=False)
    regions: list[_Region] = field(init=False)
    sums: list[_Sums] = field(init=False)
    memory_bytes: int = field(init=False)
    has_words: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        array, rng = self.array, self.rng
        self.builder = ProgramBuilder(array)
        size = 4 * array.rows * array.cols
        # Twice as far apart as they are large, so that they may be shifted; the first lies in two banks, if there are.
        banks = max(2, array.scratchpad_banks)
        bank_places = array.scratchpad_bytes // banks // (2 * size)
        border = bank_places * rng.randrange(1, banks) - 1
        free = [place for place in range(bank_places * banks - 1) if place != border]
        places = [border, *rng.sample(free, min(5, len(free)))]
        shifts = [size // 2, *(rng.choice((0, array.bus_bytes, size // 2)) for _ in places[1:])]
        self.regions = [
            _Region(address=(2 * place + 1) * size + shift, num_bytes=size - array.bus_bytes)
            for place, shift in zip(places, shifts, strict=True)
        ]
        num = array.accumulator_vectors // 4
        self.sums = [_Sums(first=idx * num, most=min(num, 40)) for idx in range(4)]
        # Inputs and parameters in front, outputs behind.
        self.memory_bytes = 4096

    def job(self) -> Job:
        """The program with random data on a memory with random timing."""
        rng, array = self.rng, self.array
        slot_bytes = array.slot_beats * array.bus_bytes
        for slot in range(array.parameter_slots):
            self.builder.load(
                {
                    "memory_address": slot * slot_bytes,
                    "local_address": slot,
                    "rows": 1,
                    "row_beats": array.slot_beats,
                    "space": 1,
                },
                gives=False,
            )
        for slot in range(array.table_slots):
            table = {"memory_address": 1024 * slot, "rows": 1, "row_beats": array.table_beats}
            self.builder.load({**table, "local_address": slot, "space": 2}, gives=False)
        self.builder.fence()
        for _ in range(self.num_steps):
            if rng.random() < 0.1:
                self._fence()
            for region in rng.sample(self.regions, 2):
                if not region.is_filled or (rng.random() < 0.4 and not region.stored):
                    self._load(region)
            is_vector = rng.random() < 0.4
            self._configure(is_vector=is_vector)
            if is_vector:
                self._vector()
            else:
                self._compute()
            if rng.random() < 0.5:
                self._store()
        for sums in self.sums:
            if sums.written:
                self._store(sums)
        self.builder.fence()
        memory = np.random.default_rng(rng.randrange(2**32)).integers(0, 256, self.memory_bytes).astype(np.uint8)
        if array.format.is_float and rng.random() < 0.7:
            # Without NaN and infinity, which would spread into nearly every sum.
            memory[(memory & 0x7F) > array.format.max_code] = 0
        for slot in range(array.parameter_slots):
            values = self._parameters()
            memory[slot * slot_bytes : slot * slot_bytes + len(values)] = np.frombuffer(values, dtype=np.uint8)
        return Job(
            program=self.builder.finish(),
            memory=memory,
            latency_cycles=rng.choice((1, 3, 17, 90)),
            cycles_per_beat=rng.choice((1, 1, 3)),
        )

    def _parameters(self) -> bytes:
        """Channel parameters of one slot; most of them give elements that are not clipped, and ties."""
        rng = self.rng
        biases: list[int] = []
        multipliers: list[int] = []
        shifts: list[int] = []
        for _ in range(self.array.cols):
            if rng.random() < 0.2:
                biases.append(rng.randrange(-(2**31), 2**31))
                multipliers.append(rng.randrange(-(2**31), 2**31))
                shifts.append(rng.randrange(64))
            else:
                # An odd number over a small power of two, scaled up.
                scale = rng.choice((0, 5, 20))
                biases.append(rng.choice((0, rng.randint(-300, 300))))
                multipliers.append(rng.choice((1, -1, 3)) << scale)
                # Floating-point sums go far beyond the greatest element.
                shifts.append(rng.choice((0, 5, 10, 18) if self.array.format.is_float else (0, 1, 2, 4, 7, 10)) + scale)
        return np.array([biases, multipliers], dtype="<i4").tobytes() + bytes(shifts)

    def _fence(self) -> None:
        """Everything has ended: nobody has to be waited for."""
        self.builder.fence()
        for region in self.regions:
            region.stored = region.released = 0
        for sums in self.sums:
            sums.stored = 0

    def _load(self, region: _Region) -> None:
        array, rng = self.array, self.rng
        beats = region.num_bytes // array.bus_bytes
        rows = rng.choice([n for n in (1, 2, 3, 4) if n <= beats])
        row_beats = beats // rows
        stride = rng.choice((0, 1, 3)) * array.bus_bytes
        self.builder.configure("CFG_LD", {"memory_row_bytes": stride, "local_row_bytes": row_beats * array.bus_bytes})
        most = (4096 - (rows - 1) * stride - row_beats * array.bus_bytes) // array.bus_bytes
        address = rng.randrange(max(1, most)) * array.bus_bytes
        operands = {"memory_address": address, "local_address": region.address, "rows": rows, "row_beats": row_beats}
        region.loaded = self.builder.load(operands, after=region.released)
        region.is_filled = True
        region.read = 0

    def _configure(self, *, is_vector: bool) -> None:
        rng, is_integer = self.rng, not self.array.format.is_float
        # Elements of 32 bits are for ALU alone.
        input_bits = rng.choice((0, 1, 2) if is_vector and self.array.word_lanes else (0, 1)) * is_integer
        self.has_words = input_bits == 2
        self.builder.configure("CFG_WALK", {
            "x_step_bytes": rng.choice((0, 1, 2, 5, 16)), "y_step_rows": rng.choice((1, 1, 2)), "padding": rng.choice((0, -3, 100)),
            "input_bits": input_bits, "weight_bits": rng.randrange(2) * is_integer,
        })  # fmt: skip

    def _usable(self, region: _Region) -> int:
        """Bytes of a region that every load of it covers."""
        beats = region.num_bytes // self.array.bus_bytes
        return min(beats // n * n for n in (1, 2, 3, 4) if n <= beats) * self.array.bus_bytes

    def _walk(
        self, region: _Region, sums: _Sums, lanes: int, *, accumulate: bool, is_held: bool = False
    ) -> dict[str, int]:
        """A random walk over a random tile of a region; `is_held`: into one vector of sums."""
        rng = self.rng
        usable = self._usable(region)
        rows = rng.randint(1, 6)
        row_bytes = rng.randint(1, max(1, usable // rows))
        width = rng.randint(1, row_bytes)
        offset = rng.randint(0, usable - rows * row_bytes)
        self.builder.configure(
            "CFG_TILE", {"address": region.address + offset, "row_bytes": row_bytes, "rows": rows, "width_bytes": width}
        )
        most = sums.written if accumulate else sums.most
        x_count = rng.randint(1, min(8, most))
        y_count = rng.randint(1, min(5, most // x_count))
        if not accumulate:
            sums.written = max(1 if is_held else x_count * y_count, sums.written)
        return {
            "y": rng.randint(-2, rows),
            "x": rng.randint(-lanes, width),
            "destination": sums.first,
            "x_count": x_count,
            "y_count": y_count,
            "accumulate": int(accumulate),
        }

    def _pick(self) -> tuple[_Region, _Region, _Sums, bool]:
        rng = self.rng
        filled = [region for region in self.regions if region.is_filled]
        # What has been stored in the scratchpad is seen only where it is read again.
        stored = [region for region in filled if region.stored]
        region = rng.choice(stored if stored and rng.random() < 0.5 else filled)
        other = rng.choice(filled)
        sums = rng.choice(self.sums)
        return region, other, sums, sums.written > 0 and rng.random() < 0.6

    def _compute(self) -> None:
        rng, array = self.rng, self.array
        region, weights, sums, accumulate = self._pick()
        operands = self._walk(region, sums, array.rows, accumulate=accumulate)
        rows = rng.randint(1, array.rows)
        row_bytes = rng.randint(0, array.cols)
        span = (rows - 1) * row_bytes + array.cols
        offset = rng.randint(0, self._usable(weights) - span)
        if weights.stored:
            # A preload waits for loads alone.
            self._fence()
        self.builder.preload(
            {"address": weights.address + offset, "row_bytes": row_bytes, "rows": rows}, after=weights.loaded
        )
        if rng.random() < 0.3:
            # The weights are on their way, and keep the width that they had.
            self._configure(is_vector=False)
        operands["rows"] = rng.randint(1, array.rows)
        region.released, computed = self.builder.compute(
            {**operands, "swap": 1},
            after=max(region.loaded, weights.loaded),
            after_store=max(sums.stored, region.stored),
            ends=True,
        )
        if rng.random() < 0.3:
            # One vector after the other on top of the first sums: each needs what the one before is about to write.
            single = {**operands, "x_count": 1, "y_count": 1, "accumulate": 1, "swap": 0}
            for _ in range(rng.randint(2, 4)):
                region.released, computed = self.builder.compute(single, ends=True)
        weights.released = region.released
        region.read = weights.read = sums.computed = computed

    def _vector(self) -> None:
        rng, array = self.rng, self.array
        region, other, sums, accumulate = self._pick()
        is_held = rng.random() < 0.3
        operands = self._walk(region, sums, array.cols, accumulate=accumulate, is_held=is_held)
        span = self._usable(other) - array.cols
        operand = rng.randrange(3)
        num = operands["x_count"] * operands["y_count"] if operand == 2 else 1
        step = rng.randint(0, min(span // max(1, num - 1), 2 * array.cols))
        offset = rng.randint(0, span - (num - 1) * step)
        scalars = (0x38, 0xB8, 0x01, 0xFF) if array.format.is_float else (1, -1, 300, -32768)
        self.builder.configure("CFG_ALU", {
            "scalar": rng.choice(scalars), "address": other.address + offset, "step_bytes": step,
            "shift": 0 if array.format.is_float else rng.choice((0, 0, 1, 7, 31)),
        })  # fmt: skip
        region.released, computed = self.builder.vector(
            {
                **operands,
                "columns": rng.randint(1, array.word_lanes if self.has_words else array.cols),
                "operation": rng.randrange(2),
                "operand": operand,
                "lanes": rng.randrange(2),
                "hold": int(is_held),
            },
            after=max(region.loaded, other.loaded),
            after_store=max(sums.stored, region.stored, other.stored),
            ends=True,
        )
        other.released = region.released
        region.read = other.read = sums.computed = computed

    def _store(self, sums: _Sums | None = None) -> None:
        rng, array = self.rng, self.array
        written = [some for some in self.sums if some.written]
        sums = sums or rng.choice(written)
        x_count = rng.randint(1, sums.written)
        y_count = sums.written // x_count
        format_idx = rng.choice((0, 2)) if array.format.is_float else rng.randrange(3)
        vector_bytes = array.cols * FORMAT_BITS[format_idx] // 8
        unit = min(vector_bytes, array.bus_bytes)
        step = ceil_div(vector_bytes, unit) * unit
        columns = rng.randint(1, array.cols)
        columns += columns % 2 if format_idx == 1 else 0
        operands = {
            "source": sums.first,
            "x_count": x_count,
            "y_count": y_count,
            "columns": columns,
            "slot": rng.randrange(array.parameter_slots),
            "format": format_idx,
            "lookup": rng.randint(0, array.table_slots) if format_idx < 2 and rng.random() < 0.3 else 0,
        }
        least, most = (-8, 7) if format_idx == 1 else (-128, 127)
        config = {"zero_point": rng.randint(-5, 5), "low": rng.choice((least, 0)), "high": rng.choice((most, 6))}
        if array.format.is_float:
            least, most = array.format.low, array.format.high
            # Beyond the greatest finite elements stand the infinities, where there are any.
            past = int(array.format.has_infinity)
            config = {
                "zero_point": 0,
                "low": rng.choice((least, least + past, 0)),
                "high": rng.choice((most, most + past, 0x30)),
            }
        free = [region for region in self.regions if region.is_filled and region.read and region.released]
        num_bytes = x_count * y_count * step
        if format_idx == 0 and free and rng.random() < 0.4 and array.word_bytes % array.cols == 0:
            region = rng.choice(free)
            first = ceil_div(region.address, array.word_bytes) * array.word_bytes
            if first + num_bytes <= region.address + self._usable(region):
                self.builder.configure("CFG_ST", {"x_bytes": step, "y_bytes": x_count * step, **config})
                region.stored = sums.stored = self.builder.store(
                    {**operands, "address": first, "space": 1}, after=max(sums.computed, region.read)
                )
                return
        # Vectors and rows of them with and without a gap between.
        x_bytes = step + rng.choice((0, 0, unit))
        y_bytes = x_count * x_bytes + rng.choice((0, 0, 3 * unit))
        self.builder.configure("CFG_ST", {"x_bytes": x_bytes, "y_bytes": y_bytes, **config})
        sums.stored = self.builder.store({**operands, "address": self.memory_bytes}, after=sums.computed)
        self.memory_bytes += ceil_div(y_count * y_bytes, array.bus_bytes) * array.bus_bytes
