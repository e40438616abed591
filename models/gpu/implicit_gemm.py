"""Implicit GEMM as cuDNN makes it: a product of patches and weights, the patches gathered while they are loaded.

Among tiles of [rows, cols] results and splits of the reduction, the way with the least time is taken, as a library that
measures its kernels does. The busiest SM works on `tiles / SMs` tiles, of which it holds as many as fit at once:

    step      = max(products of a tile over one step, its operands from the cache), at the clock that power leaves
    tile      = first bytes + steps x max(step, k_step_s) + storing
    busiest   = max(rounds of resident tiles x tile, tiles x steps x step)
    time      = launch + table of offsets + root of the sum of squares of `busiest` and main memory + adding up splits

Differences from `gemm_core`, which has cuBLAS's kernels: a kernel of its own computes the table of offsets; every tile waits
for its first bytes, since no block goes on to the next tile; several small blocks share an SM; splits of one tap add up
in turns instead of in a second kernel.

Limits: patches are as evenly spread over the cache as rows of a matrix; tiles beyond the menu are not tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...archdsl import DATATYPE_BITS
from ..compiled import compiled
from .chip import Chip
from .energy import VOLTAGE_FLOOR, energy_notes, idle_power_w, op_energy_j, power_limit_w
from .times import Floats, Ints, KernelTimes

Flags = npt.NDArray[np.bool_]

ROW_SIDES: Final = (64, 128, 256)
"""Pixels of a tile. Source: names of the bf16 kernels of cuDNN 9 for Ampere and Hopper, `xmma_fprop_implicit_gemm_..._tilesize64x32x64`,
`64x64x64` to `256x128x64`."""
COL_SIDES: Final = (32, 64, 128, 256)
"""Output channels of a tile, from the same names."""
SPLITS: Final = (1, 2, 3, 4, 6, 8, 12, 16)
"""Parts that a reduction may be cut into. Source: cuDNN, the knob SPLIT_K of its engines; the values are assumptions."""
LEAST_STEPS: Final = 2.0
"""Steps that a part of a reduction has at least."""
STAGES: Final = 3
"""Steps of operands that a block keeps in shared memory. Source: kernel names (`stage3`, `stage4`)."""
MOST_RESIDENT: Final = 4
"""Blocks that an SM holds at most: 4 warps each leave a thread the 128 registers that such kernels take (assumption)."""
CLUSTER_BLOCKS: Final = 4
"""Blocks of a cluster, 2 x 2, that fetch operands for each other where the chip has clusters (assumption)."""
STEP_BYTES: Final = 128.0
"""Bytes of one row of an operand that a step takes: 64 16-bit elements, as in the kernels' names."""
ACCUMULATOR_BYTES: Final = 4.0
"""Bytes of a partial sum; fp32."""
TILE_RESULTS: Final = 16384.0
"""Results of the tile of 128 x 128 that `tile_store_s` is stated for."""

LAUNCH, TABLE, BUSIEST, MEMORY, TOGETHER, ADDING, PRODUCTS, ROWS, COLS, SPLIT = range(10)
NUM_COLUMNS: Final = 10
"""Columns of what the loop fills in: times [s], the tile and the split that were chosen."""


class Machine(NamedTuple):
    """A chip and a datatype, as the loop needs them.

    Attributes:
        num_sms: SMs.
        ops_per_s: Rate of an SM that a main loop sustains at the highest clock [op/s].
        gather_efficiency: Share of it where threads compute addresses beside the products.
        bytes_per_s: Bytes per second that an SM gets from the cache [B/s].
        has_clusters: Whether neighbours fetch operands for each other.
        step_elements: Elements of the reduction that a step takes.
        step_s: Least time of one step [s].
        latency_s: Time of the first bytes from main memory [s].
        store_s: Time to store a tile of `TILE_RESULTS` results [s].
        launch_s: Time of an empty kernel [s].
        kernel_s: Time of a kernel before or behind the product, its bytes aside [s].
        op_j: Energy of an op at the highest clock [J].
        power_w: Power above idle that a burst may draw [W].
        voltage_floor: Least supply voltage over that at the highest clock.
    """

    num_sms: float
    ops_per_s: float
    gather_efficiency: float
    bytes_per_s: float
    has_clusters: bool
    step_elements: float
    step_s: float
    latency_s: float
    store_s: float
    launch_s: float
    kernel_s: float
    op_j: float
    power_w: float
    voltage_floor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ImplicitGemms:
    """Products of patches [m, k] and weights [n, k], many of one datatype.

    Attributes:
        m: Output pixels of all images `[count]`.
        n: Output channels of a group `[count]`.
        k: Input channels of a group times taps `[count]`.
        groups: Products of that shape in one kernel `[count]`.
        has_taps: Whether a patch has more than one tap `[count]`.
        gathers: Whether patches are other than the rows of the input `[count]`.
        datatype: What is multiplied; on the vector units where the tensor cores do not know it.
        read_bytes: Bytes read from main memory `[count]`.
        written_bytes: Bytes that go there `[count]`.
    """

    m: Ints
    n: Ints
    k: Ints
    groups: Ints
    has_taps: Flags
    gathers: Flags
    datatype: str
    read_bytes: Floats
    written_bytes: Floats

    def times(self, chip: Chip) -> KernelTimes:
        """What each product costs, made the best way.

        Raises:
            ModelError: The chip multiplies the datatype nowhere.
        """
        bandwidth = chip.memory_bytes_per_s * chip.constants["memory_efficiency"]
        memory = (self.read_bytes + self.written_bytes) / bandwidth
        columns = (self.m, self.n, self.k, self.groups, self.has_taps, self.gathers, memory)
        shapes = np.stack([column.astype(np.float64) for column in columns], axis=1)
        out = np.zeros((len(self.m), NUM_COLUMNS))
        sm = chip.arch.sm
        tiles = _tiles(sm.register_file_bytes, sm.shared_memory_bytes)
        best_ways(shapes, tiles, _SPLITS, self._machine(chip), out)
        return self._times(chip, out)

    def _machine(self, chip: Chip) -> Machine:
        arch, constants = chip.arch, chip.constants
        return Machine(
            num_sms=float(arch.num_sms),
            ops_per_s=_ops_per_s_of_sm(chip, self.datatype) * constants["tensor_efficiency"],
            gather_efficiency=constants["gather_efficiency"],
            bytes_per_s=constants["l2_bytes_per_cycle_sm"] * arch.max_clock_hz,
            has_clusters=arch.sm.cluster_blocks >= CLUSTER_BLOCKS,
            step_elements=8 * STEP_BYTES / DATATYPE_BITS[self.datatype],
            step_s=constants["k_step_s"],
            latency_s=constants["memory_latency_s"],
            store_s=constants["tile_store_s"],
            launch_s=arch.launch.floor_s,
            kernel_s=arch.launch.floor_s + constants["tile_overhead_s"],
            op_j=op_energy_j(chip, self.datatype),
            power_w=power_limit_w(chip, "burst") - idle_power_w(chip),
            voltage_floor=VOLTAGE_FLOOR,
        )

    def _times(self, chip: Chip, out: Floats) -> KernelTimes:
        columns = out.T
        busiest, memory = columns[BUSIEST], columns[MEMORY]
        longest = np.maximum(busiest, memory)
        serial = {
            "launch": columns[LAUNCH],
            "table of offsets": columns[TABLE],
            "tiles": longest,
            "what does not overlap": columns[TOGETHER] - longest,
            "adding up splits": columns[ADDING],
        }
        is_latency = longest < np.sum(list(serial.values()), axis=0) / 2
        return KernelTimes(
            serial_s=serial,
            overlapped_s={"tiles": {"busiest SM": busiest, "main memory": memory}},
            regime=np.where(is_latency, 2, np.where(columns[PRODUCTS] > memory, 0, 1)),
            ops=2.0 * self.m.astype(np.float64) * self.n * self.k * self.groups,
            main_memory_bytes=self.read_bytes + self.written_bytes,
            choices=tuple(
                f"tile {rows:.0f} x {cols:.0f}, split {split:.0f}" for rows, cols, split in out[:, ROWS:].tolist()
            ),
            notes=energy_notes(chip),
        )


@compiled
def best_ways(shapes: Floats, tiles: Floats, splits: Floats, machine: Machine, out: Floats) -> None:
    """Fill in what each product costs, made the best way.

    Args:
        shapes: Per product: m, n, k, groups, whether it has taps, whether it gathers, time of main memory [s] `[count, 7]`.
        tiles: Rows and columns of the tiles to try, and how many of them an SM holds `[tiles, 3]`.
        splits: Parts to cut the reduction into, ascending `[splits]`.
        machine: The chip and the datatype.
        out: Where the results go `[count, NUM_COLUMNS]`.
    """
    for row in range(shapes.shape[0]):
        m, n, k, groups, memory = shapes[row, 0], shapes[row, 1], shapes[row, 2], shapes[row, 3], shapes[row, 6]
        has_taps, rate = shapes[row, 4] > 0, machine.ops_per_s
        if shapes[row, 5] > 0:
            rate *= machine.gather_efficiency
        steps = np.ceil(k / machine.step_elements)
        table = machine.kernel_s if steps > 1 else 0.0
        best = np.inf
        for tile_idx in range(tiles.shape[0]):
            rows, cols, resident = tiles[tile_idx, 0], tiles[tile_idx, 1], tiles[tile_idx, 2]
            grid = groups * np.ceil(m / rows) * np.ceil(n / cols)
            loads = _fetched(rows, cols, m, n, machine) * STEP_BYTES / machine.bytes_per_s
            for split_idx in range(len(splits)):
                split = splits[split_idx]
                if split > 1 and (steps < LEAST_STEPS * split or grid * (split - 1) > 2 * machine.num_sms):
                    break
                products = _products(2 * rows * cols * machine.step_elements, rate, loads, grid * split, machine)
                of_tile, step = np.ceil(steps / split), max(products, loads)
                storing = machine.store_s * rows * cols / TILE_RESULTS
                tile = machine.latency_s + of_tile * max(step, machine.step_s) + storing
                tiles_of_sm = np.ceil(grid * split / machine.num_sms)
                busiest = max(np.ceil(tiles_of_sm / resident) * tile, tiles_of_sm * of_tile * step)
                together = np.sqrt(busiest**2 + memory**2)
                adding = _adding(split, groups * m * n, has_taps, machine)
                if together + adding >= best:
                    continue
                best = together + adding
                result = out[row]
                result[LAUNCH], result[TABLE], result[BUSIEST] = machine.launch_s, table, busiest
                result[MEMORY], result[TOGETHER], result[ADDING] = memory, together, adding
                result[PRODUCTS] = tiles_of_sm * of_tile * products
                result[ROWS], result[COLS], result[SPLIT] = rows, cols, split


@compiled
def _fetched(rows: float, cols: float, m: float, n: float, machine: Machine) -> float:
    """Rows of both operands that a block fetches itself: half of those that its neighbour in the cluster needs too."""
    if not machine.has_clusters:
        return rows + cols
    return (rows / 2 if n > cols else rows) + (cols / 2 if m > rows else cols)


@compiled
def _products(ops: float, rate: float, loads: float, tiles: float, machine: Machine) -> float:
    """Time of the products of one step of a tile [s], at the clock at which a burst stays within its power.

    Energy of an op falls with the square of the voltage, which follows the clock down to a floor.
    """
    fastest = ops / rate
    full_w = machine.op_j * ops / max(fastest, loads) * min(tiles, machine.num_sms)
    share = machine.power_w / full_w
    if share >= 1:
        return fastest
    floor = machine.voltage_floor
    return fastest / (np.cbrt(share) if share >= floor**3 else share / floor**2)


@compiled
def _adding(split: float, results: float, has_taps: bool, machine: Machine) -> float:
    """Time to add up partial sums [s]: a trip to memory where blocks do so in turns; else a second kernel's trip."""
    if split == 1:
        return 0.0
    sums = 2 * split * results * ACCUMULATOR_BYTES / (machine.bytes_per_s * machine.num_sms)
    return machine.latency_s + sums + (machine.kernel_s if has_taps else 0.0)


_SPLITS: Final = np.array(SPLITS, dtype=np.float64)


@lru_cache(maxsize=64)
def _tiles(register_file_bytes: int, shared_memory_bytes: int) -> Floats:
    """Tiles whose accumulators fill at most half of the registers, and how many an SM holds `[tiles, 3]`."""
    accumulators = register_file_bytes // 2
    found: list[tuple[float, float, float]] = []
    for rows in ROW_SIDES:
        for cols in COL_SIDES:
            by_registers = accumulators // (rows * cols * ACCUMULATOR_BYTES)
            by_shared = shared_memory_bytes // (STAGES * (rows + cols) * STEP_BYTES)
            if by_registers >= 1:
                found.append((rows, cols, min(max(min(by_registers, by_shared), 1), MOST_RESIDENT)))
    return np.array(found, dtype=np.float64)


def _ops_per_s_of_sm(chip: Chip, datatype: str) -> float:
    """Dense rate of one SM at its highest clock [op/s], on the vector units where the tensor cores lack the datatype."""
    arch = chip.arch
    if datatype in arch.tensor_cores.datatypes:
        return 2 * arch.macs_per_cycle(datatype) * arch.max_clock_hz
    return chip.vector_ops_per_s(datatype) / arch.num_sms
