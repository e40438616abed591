"""The compiled loop of the GEMM model: over products, and for each over tiles and splits of the reduction.

For one way to make a kernel, with `waves` the tiles that the busiest SM works on one after another:

    main loop = max(tensor cores, main memory, cache, bytes in flight, k steps, dequantising)
                (where a warp waits for its products, dequantising adds to the tensor cores' time)
    unhidden  = share x shorter^2 / longer, of main memory and what the SM does meanwhile: equal times hide each other worst
    time      = launch + start + first bytes + main loop (slowed by the power limit) + unhidden + storing + second pass of a split

The way with the least time is taken. On a GPU with clusters two blocks share the larger operand that they load.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..compiled import compiled

Floats = npt.NDArray[np.float64]

(
    LAUNCH, START, FIRST_BYTES, MAIN_LOOP, POWER, STORING, SPLIT, TENSOR, MEMORY, CACHE, IN_FLIGHT, K_STEPS, DEQUANTISE,
    TRAFFIC, ROWS, COLS, SPLITS, UNHIDDEN,
) = range(18)  # fmt: skip
NUM_COLUMNS = 18
"""Columns of the result: times [s], bytes from and to main memory, the tile and the split that were chosen."""

ACCUMULATOR_BYTES = 4.0
"""Bytes of a partial sum of a split reduction; fp32."""
SMEM_BYTES_PER_CYCLE = 128.0
"""Bytes that an SM's shared memory delivers per cycle: 32 banks of 4 bytes. Source: CUDA C++ Programming Guide."""
STAGE_BYTES = 128.0
"""Bytes of one row of an operand that one step of the main loop takes: the widest swizzle of shared memory.

Source: PTX ISA, shared-memory matrix layouts; CUTLASS takes k steps of 64 16-bit elements."""
NUM_NEWTON = 5
"""Steps of Newton's method; from a clock of 1 to one of 0.5, the fifth leaves less than 1e-9 of it."""
FULL_TILE_AREA = 32768.0
"""Results of a tile of two warps per scheduler with 64 x 64 results each, 128 x 256."""
TILE_AREA = 16384.0
"""Results of the tile of 128 x 128 that `tile_overhead_s` is stated for."""


class Machine(NamedTuple):
    """A chip and a datatype, as the loop needs them.

    Attributes:
        num_sms: SMs.
        clock_hz: Clock where power does not limit it [Hz].
        macs_per_cycle: Multiply-accumulates per cycle of an SM that a main loop sustains.
        dequantise_rate: Weights per cycle of an SM that are converted; 0 where none are.
        bytes_per_s: Sustained bandwidth of main memory [B/s].
        cache_rate: Bytes per cycle that an SM gets from the cache.
        cache_bytes: Operands beyond so many bytes are read again by later waves [bytes].
        in_flight_bytes: Bytes that an SM may have under way [bytes].
        launch_s: Time of an empty kernel [s].
        start_s: Time around the main loop [s].
        latency_s: Time of the first byte from main memory [s].
        tile_s: Time to store a tile of `TILE_AREA` results [s].
        step_s: Least time of one step of the main loop [s].
        unhidden_share: Share of either that shows where main memory and the SM's own work take equally long.
        split_s: Time of the second pass of a split reduction, its bytes aside, or of each turn, its tile aside [s].
        takes_turns: Whether the parts of a split reduction add to the result one after another, without a second pass.
        has_clusters: Whether two blocks share what they load.
        is_serial: Whether all warps of a block wait for each step's operands, so that the least time of a step adds to its products.
        cluster_rows: Tiles along m that run as one cluster.
        op_j: Energy of an op at that clock [J].
        byte_j: Energy of a byte of main memory [J].
        burst_w: Power above idle that a short kernel may draw [W].
        sustained_w: Power above idle that holds for seconds [W].
        window_s: How long a kernel counts as short [s].
        voltage_floor: Least supply voltage over that at the clock.
        few_warps: Times by which products take longer in tiles of fewer than `FULL_TILE_AREA` results.
        instruction_rows: Rows of an instruction that reads shared memory itself; 0 where a warp loads registers first.
        reads_shared: Whether operands come from shared memory.
    """

    num_sms: float
    clock_hz: float
    macs_per_cycle: float
    dequantise_rate: float
    bytes_per_s: float
    cache_rate: float
    cache_bytes: float
    in_flight_bytes: float
    launch_s: float
    start_s: float
    latency_s: float
    tile_s: float
    step_s: float
    unhidden_share: float
    split_s: float
    takes_turns: bool
    has_clusters: bool
    is_serial: bool
    cluster_rows: float
    op_j: float
    byte_j: float
    burst_w: float
    sustained_w: float
    window_s: float
    voltage_floor: float
    few_warps: float
    instruction_rows: float
    reads_shared: bool


@compiled
def best_ways(shapes: Floats, tiles: Floats, splits: Floats, machine: Machine, element: Floats, out: Floats) -> None:
    """Fill in what each product costs, made the best way.

    Args:
        shapes: Per product: m, n, k, how many there are, bytes of A and of B that miss the cache, bytes of C that leave
            it, times by which a wave-wise walk rereads at most, `[n, 8]`.
        tiles: Rows and columns of the tiles to try `[tiles, 2]`.
        splits: Parts to cut the reduction into, ascending `[splits]`.
        machine: The chip and the datatype.
        element: Bytes of an element of A and of B `[2]`.
        out: Where the results go `[n, NUM_COLUMNS]`.
    """
    a_bytes, b_bytes = element[0], element[1]
    step_k = STAGE_BYTES / a_bytes
    for row in range(shapes.shape[0]):
        m, n, k, count = shapes[row, 0], shapes[row, 1], shapes[row, 2], shapes[row, 3]
        cold, stored = shapes[row, 4] + shapes[row, 5], shapes[row, 6]
        operands = count * (m * k * a_bytes + n * k * b_bytes)
        first_bytes = machine.latency_s * cold / operands
        begun = machine.launch_s + machine.start_s + first_bytes
        least_memory = (cold + stored) / machine.bytes_per_s
        best = np.inf
        for tile_idx in range(tiles.shape[0]):
            rows, cols = tiles[tile_idx, 0], tiles[tile_idx, 1]
            tiles_m, tiles_n = np.ceil(m / rows), np.ceil(n / cols)
            if tiles_m > 1:
                tiles_m = np.ceil(tiles_m / machine.cluster_rows) * machine.cluster_rows
            slowed = _slowed_by_shared_memory(rows, cols, a_bytes, machine)
            if rows * cols < FULL_TILE_AREA:
                slowed *= machine.few_warps
            for split_idx in range(len(splits)):
                split = splits[split_idx]
                if split > 1 and (
                    k / split < 2 * step_k
                    # A second pass over so many results never pays; turns do, as they fill the last wave.
                    or (not machine.takes_turns and tiles_m * tiles_n * count * (split - 1) > 2 * machine.num_sms)
                ):
                    break
                length = np.ceil(k / split / step_k) * step_k
                num_tiles = tiles_m * tiles_n * split * count
                waves = np.ceil(num_tiles / machine.num_sms)
                tensor = waves * rows * cols * length / machine.macs_per_cycle * slowed / machine.clock_hz
                storing = waves * machine.tile_s * rows * cols / TILE_AREA
                if begun + storing + max(tensor, least_memory) >= best:
                    continue  # whatever else it costs
                loaded = (rows * a_bytes + cols * b_bytes) * length
                shared = _shared_in_clusters(rows * a_bytes, cols * b_bytes, tiles_m, tiles_n, machine) * length
                cache = waves * (loaded - shared) / machine.cache_rate / machine.clock_hz
                traffic = cold + stored
                if num_tiles > machine.num_sms and operands > machine.cache_bytes and cold > 0:
                    patch = _patch_bytes(rows, cols, tiles_m, tiles_n, a_bytes, b_bytes, machine) * k / split
                    walked = num_tiles / machine.num_sms * patch
                    traffic = max(traffic, min(walked, shapes[row, 7] * operands) + stored)
                memory = traffic / machine.bytes_per_s
                flying = loaded * waves * (machine.start_s + first_bytes) / machine.in_flight_bytes
                steps = waves * length / step_k * machine.step_s
                if machine.is_serial:
                    tensor += steps
                dequantise = 0.0
                if machine.dequantise_rate > 0:
                    dequantise = waves * cols * length / machine.dequantise_rate / machine.clock_hz
                    if machine.instruction_rows == 0:
                        # The warps that convert are those that multiply, and wait for their products.
                        tensor += dequantise
                others = max(max(memory, cache), max(max(flying, steps), dequantise))
                second = _joining(split, m * n * count, rows * cols, machine)
                fixed = begun + storing + second
                loop = max(tensor, others)
                if fixed + loop >= best:
                    continue
                ops = 2 * m * n * k * count
                if _takes_power(tensor, loop, best - fixed, ops, traffic, machine):
                    continue
                limited = within_power(tensor, others, ops, traffic, machine)
                inside = max(tensor + limited - loop, cache)
                shorter, longer = min(inside, memory), max(inside, memory)
                unhidden = machine.unhidden_share * shorter * shorter / longer
                if fixed + limited + unhidden >= best:
                    continue
                best = fixed + limited + unhidden
                result = out[row]
                result[LAUNCH], result[START], result[FIRST_BYTES] = machine.launch_s, machine.start_s, first_bytes
                result[MAIN_LOOP], result[POWER], result[STORING], result[SPLIT] = loop, limited - loop, storing, second
                result[TENSOR], result[MEMORY], result[CACHE], result[IN_FLIGHT] = tensor, memory, cache, flying
                result[K_STEPS], result[DEQUANTISE] = steps, dequantise
                result[TRAFFIC], result[ROWS], result[COLS], result[SPLITS] = traffic, rows, cols, split
                result[UNHIDDEN] = unhidden


@compiled
def _joining(split: float, results: float, tile_area: float, machine: Machine) -> float:
    """Time to bring the parts of a split reduction together [s]: a second pass over all of them, or turns of the blocks."""
    if split == 1:
        return 0.0
    if machine.takes_turns:
        return (split - 1) * (machine.split_s + machine.tile_s * tile_area / TILE_AREA)
    sums = 2 * split * results * ACCUMULATOR_BYTES
    return machine.split_s + sums / (machine.cache_rate * machine.num_sms * machine.clock_hz)


@compiled
def _slowed_by_shared_memory(rows: float, cols: float, a_bytes: float, machine: Machine) -> float:
    """Times by which a tile's products take longer because operands of each instruction come from shared memory."""
    if not machine.reads_shared:
        return 1.0
    if machine.instruction_rows == 0:
        of_m, of_n = min(rows, 64.0), min(cols, 64.0)
    else:
        # Either side of the tile may be the instruction's rows.
        of_m, of_n = machine.instruction_rows, cols if rows % machine.instruction_rows == 0 else rows
    read = (of_m + of_n) * a_bytes / (of_m * of_n) * machine.macs_per_cycle
    return max(1.0, read / SMEM_BYTES_PER_CYCLE)


@compiled
def _shared_in_clusters(row_bytes: float, col_bytes: float, tiles_m: float, tiles_n: float, machine: Machine) -> float:
    """Bytes per element of k that a block need not load since its neighbour in the cluster does: half the larger operand,
    where two blocks need it."""
    if not machine.has_clusters:
        return 0.0
    if row_bytes > col_bytes:
        return row_bytes / 2 if tiles_n > 1 else 0.0
    return col_bytes / 2 if tiles_m > 1 else 0.0


@compiled
def _patch_bytes(
    rows: float, cols: float, tiles_m: float, tiles_n: float, a_bytes: float, b_bytes: float, machine: Machine
) -> float:
    """Bytes per element of k that one wave reads: it covers a patch of the result, as square as its tiles allow."""
    across = min(tiles_m, np.sqrt(machine.num_sms * cols / rows))
    along = min(tiles_n, machine.num_sms / max(across, 1.0))
    across = min(tiles_m, machine.num_sms / max(along, 1.0))
    return across * rows * a_bytes + along * cols * b_bytes


@compiled
def _takes_power(tensor: float, loop: float, limit_s: float, ops: float, traffic: float, machine: Machine) -> bool:
    """Whether a main loop that ends by `limit_s` takes more power than a kernel of at least `loop` may draw.

    One look at the power saves the search for the clock: products within the limit's reach have many ways that nearly tie.
    """
    voltage = max(min(1.0, tensor / limit_s), machine.voltage_floor)
    allowed_w = _allowed_w(loop, machine)
    return ops * machine.op_j * voltage * voltage + traffic * machine.byte_j > allowed_w * limit_s


@compiled
def _allowed_w(length_s: float, machine: Machine) -> float:
    """Power above idle that a kernel of a length may draw [W]."""
    share = np.exp(-((length_s / machine.window_s) ** 2))
    return machine.sustained_w + (machine.burst_w - machine.sustained_w) * share


@compiled
def within_power(tensor: float, others: float, ops: float, traffic: float, machine: Machine) -> float:
    """Time of a main loop within the power that a kernel of its length may draw [s]."""
    op_j, byte_j = ops * machine.op_j, traffic * machine.byte_j
    burst = _slowed_by_power(tensor, others, op_j, byte_j, machine.burst_w, machine.voltage_floor)
    return _slowed_by_power(tensor, others, op_j, byte_j, _allowed_w(burst, machine), machine.voltage_floor)


@compiled
def _slowed_by_power(tensor: float, others: float, op_j: float, byte_j: float, limit_w: float, floor: float) -> float:
    """Time of a main loop under a power limit: the clock of the tensor cores falls until power is within it.

    Energy of ops falls with the square of the voltage, which follows the clock down to `floor`.
    """
    loop = max(tensor, others)
    # The slowest clock that costs no time.
    clock = min(1.0, tensor / loop)
    if (op_j * max(clock, floor) ** 2 + byte_j) / loop <= limit_w:
        return loop
    # Below it the loop lasts tensor / clock: power is clock x (ops x voltage^2 + bytes) / tensor, with the voltage at its floor
    # a straight line, and above it a cubic that Newton's method descends from the right without overshooting.
    allowed_j = limit_w * tensor
    slowest = allowed_j / (op_j * floor * floor + byte_j)
    if slowest <= floor:
        return tensor / max(slowest, 1e-6)
    for _ in range(NUM_NEWTON):
        clock -= (clock * (op_j * clock * clock + byte_j) - allowed_j) / (3 * op_j * clock * clock + byte_j)
    return tensor / clock
