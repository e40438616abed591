"""The compiled loop of the GEMM model: over products, and for each over tiles and splits of the reduction.

For one way to make a kernel, with `waves` the tiles that the busiest SM works on one after another:

    main loop = max(tensor cores, main memory, cache, bytes in flight, k steps, dequantising)
    time      = launch + start + first bytes + main loop (slowed by the power limit) + storing + second pass of a split

The way with the least time is taken. On a GPU with clusters two blocks share the larger operand that they load.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..compiled import compiled

Floats = npt.NDArray[np.float64]

(
    LAUNCH, START, FIRST_BYTES, MAIN_LOOP, POWER, STORING, SPLIT, TENSOR, MEMORY, CACHE, IN_FLIGHT, K_STEPS, DEQUANTISE,
    TRAFFIC, ROWS, COLS, SPLITS,
) = range(17)  # fmt: skip
NUM_COLUMNS = 17
"""Columns of the result: times [s], bytes from and to main memory, the tile and the split that were chosen."""

ACCUMULATOR_BYTES = 4.0
"""Bytes of a partial sum of a split reduction; fp32."""
SMEM_BYTES_PER_CYCLE = 128.0
"""Bytes that an SM's shared memory delivers per cycle: 32 banks of 4 bytes. Source: CUDA C++ Programming Guide."""
STAGE_BYTES = 128.0
"""Bytes of one row of an operand that one step of the main loop takes: the widest swizzle of shared memory.

Source: PTX ISA, shared-memory matrix layouts; CUTLASS takes k steps of 64 16-bit elements."""
TILE_AREA = 16384.0
"""Results of the tile of 128 x 128 that `tile_overhead_s` is stated for."""


@compiled
def best_ways(
    shapes: Floats, tiles: Floats, splits: Floats, chip: Floats, bits: Floats, out: Floats
) -> None:  # fmt: skip
    """Fill in what each product costs, made the best way.

    Args:
        shapes: Per product: m, n, k, how many there are, bytes of A and of B that miss the cache, bytes of C that leave
            it, times by which a wave-wise walk rereads at most, `[n, 8]`.
        tiles: Rows and columns of the tiles to try `[tiles, 2]`.
        splits: Parts to cut the reduction into, ascending `[splits]`.
        chip: What the chip and the datatype give, in the order in which it is read below.
        bits: Bytes of an element of A and B.
        out: Where the results go `[n, NUM_COLUMNS]`.
    """
    a_bytes, b_bytes = bits[0], bits[1]
    num_sms, clock, macs_per_cycle, dequantise_rate = chip[0], chip[1], chip[2], chip[3]
    bandwidth, cache_rate, cache_bytes, in_flight = chip[4], chip[5], chip[6], chip[7]
    launch, start, latency = chip[8], chip[9], chip[10]
    tile_s, step_s, split_s, has_clusters = chip[11], chip[12], chip[13], chip[14] > 0
    op_j, byte_j, burst_w, sustained_w = chip[15], chip[16], chip[17], chip[18]
    window_s, voltage_floor, instruction_rows, reads_shared = chip[19], chip[20], chip[21], chip[22] > 0
    step_k = STAGE_BYTES / a_bytes
    for row in range(shapes.shape[0]):
        m, n, k, count = shapes[row, 0], shapes[row, 1], shapes[row, 2], shapes[row, 3]
        cold, stored = shapes[row, 4] + shapes[row, 5], shapes[row, 6]
        operands = count * (m * k * a_bytes + n * k * b_bytes)
        first_bytes = latency * cold / operands
        ops = 2 * m * n * k * count
        best = np.inf
        for tile_idx in range(tiles.shape[0]):
            rows, cols = tiles[tile_idx, 0], tiles[tile_idx, 1]
            tiles_m, tiles_n = np.ceil(m / rows), np.ceil(n / cols)
            # Operands of each instruction come from shared memory, which limits narrow instructions.
            if instruction_rows == 0:
                of_m, of_n = min(rows, 64.0), min(cols, 64.0)
            elif rows % instruction_rows == 0:
                of_m, of_n = instruction_rows, cols
            else:
                of_m, of_n = instruction_rows, rows
            shared = (of_m + of_n) * a_bytes / (of_m * of_n) * macs_per_cycle / SMEM_BYTES_PER_CYCLE
            slowed = max(1.0, shared) if reads_shared else 1.0
            storing = tile_s * rows * cols / TILE_AREA
            for split_idx in range(len(splits)):
                split = splits[split_idx]
                if split > 1 and (k / split < 2 * step_k or tiles_m * tiles_n * count * (split - 1) > 2 * num_sms):
                    break
                length = np.ceil(k / split / step_k) * step_k
                num_tiles = tiles_m * tiles_n * split * count
                waves = np.ceil(num_tiles / num_sms)
                tensor = waves * rows * cols * length / macs_per_cycle * slowed / clock
                loaded = (rows * a_bytes + cols * b_bytes) * length
                multicast = 0.0
                if has_clusters:
                    # Two blocks of a cluster share the larger operand when there are two that need it.
                    if rows * a_bytes > cols * b_bytes:
                        multicast = rows * a_bytes * length / 2 if tiles_n > 1 else 0.0
                    else:
                        multicast = cols * b_bytes * length / 2 if tiles_m > 1 else 0.0
                cache = waves * (loaded - multicast) / cache_rate / clock
                traffic = cold + stored
                if num_tiles > num_sms and operands > cache_bytes and cold > 0:
                    # Each wave covers a patch of the result, as square as its tiles allow, and reads what it needs anew.
                    across = min(tiles_m, np.sqrt(num_sms * cols / rows))
                    along = min(tiles_n, num_sms / max(across, 1.0))
                    across = min(tiles_m, num_sms / max(along, 1.0))
                    patch = (across * rows * a_bytes + along * cols * b_bytes) * k / split
                    walked = num_tiles / num_sms * patch
                    traffic = max(traffic, min(walked, shapes[row, 7] * operands) + stored)
                memory = traffic / bandwidth
                flying = loaded * waves * (start + first_bytes) / in_flight
                steps = waves * length / step_k * step_s
                dequantise = waves * cols * length / dequantise_rate / clock if dequantise_rate > 0 else 0.0
                others = max(max(memory, cache), max(max(flying, steps), dequantise))
                loop = max(tensor, others)
                after = waves * storing
                second = 0.0
                if split > 1:
                    second = split_s + 2 * split * m * n * count * ACCUMULATOR_BYTES / (cache_rate * num_sms * clock)
                fixed = launch + start + first_bytes + after + second
                if fixed + loop >= best:
                    continue
                limited = _within_power(tensor, others, ops * op_j, traffic * byte_j, burst_w, voltage_floor)
                allowed_w = sustained_w + (burst_w - sustained_w) * np.exp(-((limited / window_s) ** 2))
                limited = _within_power(tensor, others, ops * op_j, traffic * byte_j, allowed_w, voltage_floor)
                if fixed + limited >= best:
                    continue
                best = fixed + limited
                result = out[row]
                result[LAUNCH], result[START], result[FIRST_BYTES] = launch, start, first_bytes
                result[MAIN_LOOP], result[POWER], result[STORING], result[SPLIT] = loop, limited - loop, after, second
                result[TENSOR], result[MEMORY], result[CACHE], result[IN_FLIGHT] = tensor, memory, cache, flying
                result[K_STEPS], result[DEQUANTISE] = steps, dequantise
                result[TRAFFIC], result[ROWS], result[COLS], result[SPLITS] = traffic, rows, cols, split


@compiled
def _within_power(tensor: float, others: float, op_j: float, byte_j: float, limit_w: float, floor: float) -> float:
    """Time of a main loop under a power limit: the clock of the tensor cores falls until power is within it.

    Energy of ops falls with the square of the voltage, which follows the clock down to `floor`.
    """
    loop = max(tensor, others)
    # The slowest clock that costs no time.
    clock = min(1.0, tensor / loop)
    if (op_j * max(clock, floor) ** 2 + byte_j) / loop <= limit_w:
        return loop
    # Below it the loop lasts tensor / clock: power is clock x (ops x voltage^2 + bytes) / tensor.
    low, high = 0.0, clock
    for _ in range(20):
        middle = (low + high) / 2
        if middle * (op_j * max(middle, floor) ** 2 + byte_j) / tensor <= limit_w:
            low = middle
        else:
            high = middle
    return tensor / max(low, 1e-6)
