"""Attention: prefill and decode, by kernels that never write the scores to memory.

A block takes 128 rows of one head (in decode: all query heads that share a KV head) and walks the keys and values in steps.
A step multiplies twice on the tensor cores (Q K^T, P V) and in between takes maxima, exponentials and sums on the vector and
special-function units. How far the two overlap is the backend's property:

    mma.sync kernels (FlashAttention 2)          step = products + softmax, one after the other
    asynchronous kernels (FlashAttention 3,      step = root of the sum of squares: two groups of warps take turns, so most
    cuDNN on Hopper, TensorRT-LLM)               of the shorter one hides behind the longer
    the same with accumulators in a memory       a block has two tiles of 128 rows, each with warps of its own for the
    of their own (Blackwell)                     softmax: its exponentials and its other instructions overlap as well

Time is that of the busiest SM: its share of all steps, a tail of half a longest block where blocks differ (causal masks), and
what each block costs before its first and after its last step. Decode reads all keys and values once; with fewer units of
work than SMs, the keys are split over several blocks, and a second kernel combines them. TensorRT-LLM's decode before Blackwell
has a plan of its own (`decode`).

Limits: head_dim of queries and values are the same; no dropout, bias or soft cap; no prefix that several sequences share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np

from ...archdsl import DATATYPE_BITS, ModelError, nearest_hint
from .cache import hit_share
from .chip import Chip
from .decode import plan_decode
from .energy import burst_clock_hz, with_energy
from .facts import LANES, SYNCHRONOUS_SHARE
from .memory_bound import Flags, stream_time_s
from .times import Floats, Ints, KernelTimes

BackendName = Literal["flash", "cudnn", "framework"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """How a family of attention kernels is made.

    Attributes:
        is_asynchronous: Products run beside the softmax where the tensor cores allow it (instructions of 64 rows or more).
        query_rows: Query rows of a block in prefill.
        key_columns: Keys of a step, for a head_dim of at most 64 and above.
        softmax_instructions: Instructions per score beside the exponential: scale, mask, maximum, sum, conversion.
        decode_elements: Elements of the keys of a step in decode.
        decode_rows: Rows that a product has at least in decode; those beyond the query heads of a group are padding.
        resident: Blocks that one SM holds.
        later_block_share: Part of a block's time around its steps that shows when others run before it on the same SM: two
            resident blocks hide half of it and more, a warp that fetches ahead over the end of a block most of it.
        plans_decode: Whether decode is laid out as TensorRT-LLM does before Blackwell (`decode`).
        prefill_kernels: Kernels of a prefill, the attention itself included.
        decode_kernels: Kernels of a decode, the combining of splits not included.
        appends: Whether rotary embedding and the KV append belong to it.
    """

    is_asynchronous: bool
    query_rows: int
    key_columns: tuple[int, int]
    softmax_instructions: float
    decode_elements: int
    decode_rows: int
    resident: int
    later_block_share: float
    plans_decode: bool = False
    prefill_kernels: int = 1
    decode_kernels: int = 1
    appends: bool = False


BACKENDS: Final[dict[BackendName, Backend]] = {
    "flash": Backend(
        is_asynchronous=False, query_rows=128, key_columns=(128, 64), softmax_instructions=16,
        decode_elements=8192, decode_rows=64, resident=2, later_block_share=0.4,
    ),
    "cudnn": Backend(
        is_asynchronous=True, query_rows=128, key_columns=(128, 128), softmax_instructions=8,
        decode_elements=16384, decode_rows=64, resident=1, later_block_share=0.15,
    ),
    "framework": Backend(
        is_asynchronous=True, query_rows=128, key_columns=(128, 128), softmax_instructions=6,
        decode_elements=16384, decode_rows=8, resident=2, later_block_share=0.15, plans_decode=True,
        prefill_kernels=3, decode_kernels=2, appends=True,
    ),
}  # fmt: skip
"""Kernels of PyTorch's `flash` (FlashAttention 2) and `cudnn` backends, and of inference frameworks (TensorRT-LLM).

Source: Dao, FlashAttention-2, 2023, and its flash_fwd_launch_template.h (tiles); Shah et al., FlashAttention-3, 2024
(asynchronous products, two groups of warps in turn; 128 x 128 tiles); instructions per score counted from their loops."""

ASYNCHRONOUS_ROWS: Final = 64
"""Rows of a tensor-core instruction from which on it is asynchronous: wgmma (64) and tcgen05 (128); mma.sync has 16."""

EXP_PER_CYCLE: Final = 16
"""Exponentials per cycle of one SM. Source: CUDA C++ Programming Guide, arithmetic throughput: 16 for 8.0, 9.0 and 10.0."""


FEWEST_ROWS: Final = 64
"""Rows and keys of the smallest tiles, which short sequences take (FlashAttention 2 and TensorRT-LLM: 64, 128)."""

ROTARY_INSTRUCTIONS: Final = 350
"""Instructions of the warp that rotates a query head of one token, and a key with it: powers, sines and cosines are computed
in place, and the same ones are issued where the head has no key to append.

Source: TensorRT-LLM, unfusedAttentionKernels (`applyBiasRopeUpdateKVCache`): a warp a head up to 256 elements; count
assumed, from contexts of A100 and H100 that no test holds back."""

GROUP_ROWS: Final = 16
"""Rows to which grouped query heads are padded before Blackwell: those of `mma.sync`. Source: TensorRT-LLM, xqa/mha.cu, `warpTile`."""

WARP: Final = 32
"""Threads that issue together. Source: CUDA C++ Programming Guide."""

PAIRED_TILES: Final = 2
"""Tiles that a block walks at once where accumulators have a memory of their own.

Source: CUTLASS, examples/77_blackwell_fmha: blocks of 256 queries, two groups of softmax warps."""

SHARED: Final = "attention: values are read from the keys' memory, as measured; no estimate of a chip does"

MIN_SPLIT_STEPS: Final = 2
"""Steps that a split has at least (FlashAttention 2, `num_splits_heuristic`, keeps splits that pay)."""


class Costs(NamedTuple):
    """What attentions cost, each `[count]`.

    Attributes:
        kernels: Kernels that are launched.
        others_s: Time between kernels, and to combine splits [s].
        append_s: Rotary embedding and KV append [s].
        around_s: Before the first step and after the last one [s].
        compute_s: Steps of the busiest SM, and what its later blocks cost around theirs [s].
        stream_s: Main memory [s].
        work_s: Both of these together [s].
        traffic_bytes: Bytes from and to main memory.
        blocks: Blocks of the kernel.
        splits: Parts of the keys.
    """

    kernels: Floats
    others_s: Floats
    append_s: Floats
    around_s: Floats
    compute_s: Floats
    stream_s: Floats
    work_s: Floats
    traffic_bytes: Floats
    blocks: Floats
    splits: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Attentions:
    """softmax(Q K^T) V, many of one datatype and backend.

    Attributes:
        batch: Sequences `[count]`.
        query_heads: Heads of Q `[count]`.
        kv_heads: Heads of K and V `[count]`; fewer than `query_heads` for grouped queries.
        head_dim: Elements of a head `[count]`.
        query_len: Query positions of a sequence `[count]`; 1 is decode.
        kv_len: Keys of a sequence `[count]`, the query positions included.
        window: Keys that one query sees at most `[count]`; 0 for all.
        is_causal: Whether a query sees no later keys.
        datatype: Datatype of Q and of the result.
        kv_datatype: Datatype of K and V in memory; Q's when None.
        backend: Which kernels.
        kv_in_cache: Whether K and V are in the L2 already, as in a warm loop.
        values_are_keys: Whether V is K's own memory, as benchmarks have it that allot a cache of keys alone.
    """

    batch: Ints
    query_heads: Ints
    kv_heads: Ints
    head_dim: Ints
    query_len: Ints
    kv_len: Ints
    window: Ints
    datatype: str
    is_causal: bool = True
    kv_datatype: str | None = None
    backend: BackendName = "flash"
    kv_in_cache: bool = False
    values_are_keys: bool = False

    def __len__(self) -> int:
        return len(self.batch)

    def label(self, idx: int) -> str:
        """`flash bf16 b1 q128 kv128 h32/8x128`: backend, datatype, batch, lengths, heads of Q and KV, head_dim."""
        window = f" w{self.window[idx]}" if self.window[idx] else ""
        kind = self.datatype if self.kv_datatype in (None, self.datatype) else f"{self.datatype}/{self.kv_datatype}"
        heads = f"h{self.query_heads[idx]}/{self.kv_heads[idx]}x{self.head_dim[idx]}"
        return f"{self.backend} {kind} b{self.batch[idx]} q{self.query_len[idx]} kv{self.kv_len[idx]} {heads}{window}"

    def times(self, chip: Chip) -> KernelTimes:
        """What each costs.

        Raises:
            ModelError: Unknown backend, a datatype that the tensor cores lack, or heads that do not divide.
        """
        backend = backend_of(self.backend)
        self._check()
        is_decode = self.query_len == 1
        costs = self._in_equal_blocks(chip, backend, is_decode)
        if backend.plans_decode and not self._is_paired(chip, backend) and is_decode.any():
            planned = self._as_planned(chip, backend, is_decode)
            costs = Costs(*(np.where(is_decode, one, other) for one, other in zip(planned, costs, strict=True)))
        longest_s = np.maximum(costs.compute_s, costs.stream_s)
        launch = costs.kernels * chip.arch.launch.floor_s
        times = KernelTimes(
            serial_s={
                "launch": launch,
                "other kernels": costs.others_s,
                "rotary embedding and append": costs.append_s,
                "around the steps": costs.around_s,
                "steps": longest_s,
                "what does not overlap": costs.work_s - longest_s,
            },
            overlapped_s={"steps": {"tensor cores and softmax": costs.compute_s, "main memory": costs.stream_s}},
            regime=np.where(
                launch + costs.around_s > costs.work_s, 2, np.where(costs.compute_s > costs.stream_s, 0, 1)
            ),
            ops=self._ops(self._visible()),
            main_memory_bytes=costs.traffic_bytes,
            choices=_choices(costs.blocks, costs.splits),
            notes=(SHARED,) if self.values_are_keys else (),
        )
        return with_energy(times, chip, self.datatype)

    def _in_equal_blocks(self, chip: Chip, backend: Backend, is_decode: Flags) -> Costs:
        """Costs where blocks follow from the tile alone; prefill and decode are priced alike, by a few rules of each."""
        group = self.query_heads // self.kv_heads
        rows = np.where(is_decode, group, self.query_len)
        units = self.batch * np.where(is_decode, self.kv_heads, self.query_heads)
        most_rows, fewest = backend.query_rows, FEWEST_ROWS
        if self._is_paired(chip, backend):
            most_rows, fewest = PAIRED_TILES * most_rows, most_rows
        short_rows = np.minimum(most_rows, fewest * np.ceil(rows / fewest).astype(np.int64))
        tile_rows = np.where(is_decode, backend.decode_rows, short_rows)
        tiles = np.ceil(rows / tile_rows)
        visible, columns = self._visible(), self._columns(backend, is_decode)
        per_unit, longest = self._steps(is_decode, tiles, tile_rows, columns, visible)

        slots = chip.arch.num_sms * backend.resident
        splits = self._splits(is_decode, units * tiles, longest, slots)
        blocks = units * tiles * splits
        busy = np.minimum(blocks, chip.arch.num_sms)
        around = np.full(len(self), chip.constants["attention_block_s"])
        later = backend.later_block_share * (np.ceil(blocks / chip.arch.num_sms) - 1) * around
        tail = np.where(self.is_causal & ~is_decode, longest / 2, 0.0) * (blocks > chip.arch.num_sms)
        busiest = np.maximum(units * per_unit / busy + tail, longest / splits)
        compute = busiest * self._step(chip, backend, tile_rows, columns, busy) + later

        read, written = self._bytes(visible)
        misses = 1.0 - self._hits(chip, read + written)
        stream = stream_time_s(chip, read * misses, written * misses)
        kernels = np.where(is_decode, backend.decode_kernels + (splits > 1), backend.prefill_kernels)
        return Costs(
            kernels=kernels,
            # Before the kernel that combines splits can read what they made, the first one drains.
            others_s=(kernels - 1 + (splits > 1)) * chip.constants["tile_overhead_s"],
            append_s=self._append(chip) if backend.appends else np.zeros(len(self)),
            around_s=around,
            compute_s=compute,
            stream_s=stream,
            work_s=np.sqrt(compute**2 + stream**2),
            traffic_bytes=(read + written) * misses,
            blocks=blocks,
            splits=splits,
        )

    def _as_planned(self, chip: Chip, backend: Backend, is_decode: Flags) -> Costs:
        """Costs of decode whose blocks a plan lays out (`decode`)."""
        visible, columns = self._visible(), self._columns(backend, is_decode)
        plan = plan_decode(chip, self.batch, self.query_heads, self.kv_heads, self.head_dim, visible)
        group = self.query_heads // self.kv_heads
        tile_rows = np.where(plan.is_grouped, GROUP_ROWS * np.ceil(group / GROUP_ROWS), backend.decode_rows)
        units = plan.blocks / plan.splits
        busy = np.minimum(plan.blocks, chip.arch.num_sms)
        longest = np.ceil(visible / columns)
        busiest = np.maximum(units * longest / busy, longest / plan.splits)
        compute = busiest * self._step(chip, backend, tile_rows, columns, busy)
        around = plan.around_s(chip)
        later = plan.later_s(chip)

        read, written = self._bytes(visible)
        again = (read - written) / 2 if self.values_are_keys else np.zeros(len(self))
        misses = 1.0 - self._hits(chip, read - again + written)
        between = np.where(plan.is_grouped, 0.0, again * plan.resident / plan.blocks)
        read = read - again * hit_share(between, chip.arch.l2)
        stream = stream_time_s(chip, read * misses, written * misses)
        stream = plan.stream_s(chip, stream, (read + written) * misses)
        # Where loads are synchronous, nothing hides what a block that is alone on its SM does before and after them.
        is_bare = plan.is_grouped & (not self._has_large(chip))
        work = np.where(is_bare, np.hypot(compute, stream) + later, np.hypot(compute + later, stream))
        return Costs(
            kernels=np.where(plan.is_grouped, backend.decode_kernels, 1).astype(np.float64),
            others_s=plan.others_s(chip),
            append_s=np.where(plan.is_grouped, self._append(chip), 0.0),
            around_s=around,
            compute_s=compute + later,
            stream_s=stream,
            work_s=work,
            traffic_bytes=(read + written) * misses,
            blocks=plan.blocks,
            splits=plan.splits,
        )

    def _visible(self) -> Ints:
        """Keys that one query sees at most."""
        return np.where(self.window > 0, np.minimum(self.window, self.kv_len), self.kv_len)

    def _columns(self, backend: Backend, is_decode: Flags) -> Ints:
        """Keys of a step."""
        columns = np.where(self.head_dim <= 64, backend.key_columns[0], backend.key_columns[1])
        columns = np.where(is_decode, np.maximum(backend.decode_elements // self.head_dim, FEWEST_ROWS), columns)
        return np.minimum(columns, FEWEST_ROWS * np.ceil(self.kv_len / FEWEST_ROWS).astype(np.int64))

    def _check(self) -> None:
        for name in (self.datatype, self.kv_datatype or self.datatype):
            if name not in DATATYPE_BITS:
                raise ModelError(f"unknown datatype '{name}'{nearest_hint(name, DATATYPE_BITS)}")
        if (self.query_heads % self.kv_heads).any():
            idx = int(np.flatnonzero(self.query_heads % self.kv_heads)[0])
            raise ModelError(
                f"{self.label(idx)}: {self.query_heads[idx]} query heads are no multiple of {self.kv_heads[idx]} KV heads"
            )
        if (self.query_len > self.kv_len).any():
            idx = int(np.flatnonzero(self.query_len > self.kv_len)[0])
            raise ModelError(f"{self.label(idx)}: kv_len counts the query positions too, so it is at least query_len")

    def _steps(
        self, is_decode: Flags, tiles: Floats, tile_rows: Ints, columns: Ints, visible: Ints
    ) -> tuple[Floats, Floats]:
        """Steps of one unit of work over all its tiles, and of its longest tile."""
        longest = np.ceil(visible / columns)
        if not self.is_causal:
            return tiles * longest, longest
        # Tile t of a causal mask ends at key past + (t + 1) x rows; its window starts `visible` keys before its first row.
        past = self.kv_len - self.query_len
        mean_end = past + np.minimum((tiles + 1) / 2 * tile_rows, self.query_len)
        seen = np.minimum(mean_end, visible + tile_rows) if (self.window > 0).any() else mean_end
        full = np.where(self.window > 0, np.minimum(seen, self.kv_len), mean_end)
        causal = tiles * np.maximum(full / columns, 1.0)
        return np.where(is_decode, tiles * longest, causal).astype(np.float64), longest

    def _step(self, chip: Chip, backend: Backend, tile_rows: Ints, columns: Ints, busy: Floats) -> Floats:
        """Time of one step on one SM [s], at the clock that the power of `busy` SMs leaves."""
        peak = chip.tensor_ops_per_s(self.datatype) * chip.arch.max_clock_hz / chip.arch.clock_hz
        has_large = self._has_large(chip)
        share = SYNCHRONOUS_SHARE if has_large and not backend.is_asynchronous else 1.0
        rate = peak * share * chip.constants["attention_efficiency"]
        ops = 4.0 * tile_rows * columns * self.head_dim
        scores = 1.0 * tile_rows * columns
        exponentials, others = scores / EXP_PER_CYCLE, scores * backend.softmax_instructions / LANES
        cycles = np.hypot(exponentials, others) if self._is_paired(chip, backend) else exponentials + others
        softmax = cycles / chip.arch.max_clock_hz
        product = ops / (rate / chip.arch.num_sms)
        overlaps = backend.is_asynchronous and has_large
        step = np.sqrt(product**2 + softmax**2) if overlaps else product + softmax
        achieved = ops / step * busy
        clock = burst_clock_hz(chip, achieved, np.zeros(len(self)), self.datatype)
        return step * chip.arch.max_clock_hz / clock

    def _has_large(self, chip: Chip) -> bool:
        """Whether the tensor cores have instructions that are asynchronous."""
        shape = chip.arch.tensor_cores.datatypes.get(self.datatype)
        return shape is not None and shape.shape.m >= ASYNCHRONOUS_ROWS

    def _is_paired(self, chip: Chip, backend: Backend) -> bool:
        """Whether blocks have two tiles, whose warps for the softmax are not those that hold accumulators."""
        return backend.is_asynchronous and chip.arch.tensor_cores.accumulator_memory_bytes is not None

    def _splits(self, is_decode: Flags, blocks: Ints, longest: Floats, slots: int) -> Floats:
        most = np.maximum(longest / MIN_SPLIT_STEPS, 1.0)
        return np.where(is_decode, np.clip(np.floor(slots / blocks), 1.0, most), 1.0)

    def _bytes(self, visible: Ints) -> tuple[Floats, Floats]:
        bits = DATATYPE_BITS[self.datatype]
        kv_bits = DATATYPE_BITS[self.kv_datatype or self.datatype]
        queries = 1.0 * self.batch * self.query_len * self.query_heads * self.head_dim * bits / 8
        reach = np.minimum(visible + self.query_len - 1, self.kv_len)
        keys = 2.0 * self.batch * reach * self.kv_heads * self.head_dim * kv_bits / 8
        return queries + keys, queries

    def _append(self, chip: Chip) -> Floats:
        """Time of the kernel that rotates Q and K and writes K and V to their place."""
        bits = DATATYPE_BITS[self.datatype]
        heads = self.query_heads + 2 * self.kv_heads
        moved = 1.0 * self.batch * self.query_len * heads * self.head_dim * bits / 8
        misses = 1.0 - self._hits(chip, 2 * moved)
        stream = stream_time_s(chip, moved * misses, moved * misses)
        issued = 1.0 * self.batch * self.query_len * self.query_heads * ROTARY_INSTRUCTIONS * WARP
        issue = issued / (LANES * chip.arch.num_sms * chip.arch.max_clock_hz)
        return np.sqrt(stream**2 + issue**2)

    def _hits(self, chip: Chip, footprint: Floats) -> Floats:
        """Share of a warm loop's accesses that hit."""
        if not self.kv_in_cache:
            return np.zeros(len(self))
        return hit_share(footprint, chip.arch.l2)

    def _ops(self, visible: Ints) -> Floats:
        pairs = (1.0 * self.query_len * visible).astype(np.float64)
        if self.is_causal:
            hidden = 1.0 * self.query_len * (self.query_len - 1) / 2
            pairs = np.where(self.window > 0, pairs, pairs - hidden)
        return (pairs * (4.0 * self.batch * self.query_heads * self.head_dim)).astype(np.float64)


def _choices(blocks: Floats, splits: Floats) -> tuple[str, ...]:
    """`64 blocks, 8 splits` per kernel; each text is made once."""
    known: dict[tuple[float, float], str] = {}
    found: list[str] = []
    for key in zip(blocks.tolist(), splits.tolist(), strict=True):
        if key not in known:
            known[key] = f"{key[0]:.0f} blocks" + (f", {key[1]:.0f} splits" if key[1] > 1 else "")
        found.append(known[key])
    return tuple(found)


def backend_of(name: BackendName) -> Backend:
    """How a backend's kernels are made.

    Raises:
        ModelError: Unknown backend.
    """
    if name not in BACKENDS:
        raise ModelError(
            f"unknown attention backend '{name}'{nearest_hint(name, BACKENDS)}; known: {', '.join(BACKENDS)}"
        )
    return BACKENDS[name]
