"""Decode in TensorRT-LLM before Blackwell: which kernel, how many blocks, and in how many rounds they run.

Two kernels share the work, both of them cut long sequences into parts for several blocks, and the last block combines them:

    grouped   (XQA)          a block per sequence, KV head and part; it fills an SM. Cut by the length, up to eight waves.
    per head  (masked MHA)   a block per sequence, query head and part, of 256 to 1,024 threads so that all SMs are busy. Its
                             logits stay in shared memory, so that long sequences leave room for fewer blocks or have to be cut.

Parts are rounded up to fill the SMs, so that often a few blocks are left over for a second round, which main memory serves
only as fast as few SMs can ask for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from .chip import Chip
from .times import Floats, Ints

Flags = npt.NDArray[np.bool_]

PART_TOKENS: Final = 128
"""Tokens that a part of a sequence has at least in the grouped kernel."""
FEWEST_BLOCKS: Final = 0.25
"""Blocks over SMs from which on the grouped kernel is used."""
TARGET_WAVES: Final = 8
"""Blocks over SMs up to which the grouped kernel cuts sequences."""
MOST_PARTS: Final = 6000
"""Parts of all sequences that the grouped kernel has a workspace for."""
HEAD_WARPS: Final = 32
"""Warps of the per-head kernel that an SM's registers hold."""
LEAST_WARPS: Final = 8
"""Warps of its smallest block; the largest takes all of `HEAD_WARPS`."""
VECTOR_BYTES: Final = 16
"""Bytes that a thread of it loads at once."""
UNROLLED: Final = 8
"""Tokens that each group of its threads loads in one step; a part is no shorter than one step of the block."""
LOGIT_BYTES: Final = 6
"""Bytes of shared memory per token: the logit in fp32 and again in 16 bits.

Source for these: NVIDIA, TensorRT-LLM, decoderXQAConstants.h and `computeMultiBlockCount` of decoderXQAImplCommon.h; `mmha_launch_kernel_ex`,
`multi_block_grid_setup` and `smem_size_in_bytes` of decoderMaskedMultiheadAttentionLaunch.h."""
FULL_SM_BYTES_PER_CYCLE: Final = 26.0
"""Bytes per cycle that an SM full of such warps draws from main memory while others are idle: a vector of each thread
under way for 630 cycles.

Source: Luo et al., IPDPSW 2024: 466 to 479 cycles to main memory without load; the rest inferred from rows of A100 and H100 that no test holds back,
36 and 50 GB/s."""

HEAD_AROUND: Final = 1.35
"""`attention_block_s` of the per-head kernel over that of others: it rotates and appends on its way, without a kernel for that."""
HEAD_LATER: Final = 0.85
"""Share of that time that shows for blocks of later rounds; the rest passes while others end."""
GROUPED_LATER: Final = 0.5
"""The same for the grouped kernel."""
HEAD_COMBINING: Final = 0.6
"""The same for the last block of a sequence, which reads what the other blocks made."""
MERGED_SHARE: Final = 0.4
"""Trips to memory that merging a part takes in the grouped kernel; some are under way together.

Source for the five: assumptions, from rows of A100 and H100 that no test holds back; a fifth more or less of any changes their mean error by
less than one point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodePlan:
    """How each decode is laid out on the SMs.

    Attributes:
        is_grouped: Whether query heads of a group share a block `[count]`.
        splits: Parts of a sequence `[count]`.
        blocks: Blocks of the kernel `[count]`.
        slots: Blocks that all SMs hold at once `[count]`.
        warps: Warps of a block `[count]`.
    """

    is_grouped: Flags
    splits: Floats
    blocks: Floats
    slots: Floats
    warps: Floats

    @property
    def rounds(self) -> Floats:
        """Blocks that one slot works on, one after another `[count]`."""
        return np.ceil(self.blocks / self.slots)

    @property
    def resident(self) -> Floats:
        """Blocks that run at once `[count]`."""
        return np.minimum(self.blocks, self.slots)

    def around_s(self, chip: Chip) -> Floats:
        """Time of a block before its first and after its last step [s]."""
        return np.where(self.is_grouped, 1.0, HEAD_AROUND) * chip.constants["attention_block_s"]

    def later_s(self, chip: Chip) -> Floats:
        """What shows of that of the blocks of later rounds [s]."""
        share = np.where(self.is_grouped, GROUPED_LATER, HEAD_LATER)
        return share * (self.rounds - 1) * self.around_s(chip)

    def others_s(self, chip: Chip) -> Floats:
        """Time between kernels, and of the block that combines the parts of a sequence [s]."""
        between, is_split = chip.constants["tile_overhead_s"], self.splits > 1
        merging = is_split * (between + MERGED_SHARE * self.splits * chip.constants["memory_latency_s"])
        return np.where(self.is_grouped, between + merging, is_split * HEAD_COMBINING * self.around_s(chip))

    def stream_s(self, chip: Chip, stream_s: Floats, moved_bytes: Floats) -> Floats:
        """Time of main memory, where the SMs that have work may ask for less than it gives [s].

        Args:
            chip: The chip.
            stream_s: The time if all of them ask for all they can hold [s].
            moved_bytes: Bytes that are moved.
        """
        left = np.mod(self.blocks, self.slots) / self.blocks
        full_s = np.maximum((1 - left) * stream_s, (1 - left) * moved_bytes / self._asked(chip, self.slots))
        left_blocks = np.maximum(left * self.blocks, 1.0)
        left_s = np.maximum(left * stream_s, left * moved_bytes / self._asked(chip, left_blocks))
        return np.where(self.is_grouped, stream_s, full_s + left_s)

    def _asked(self, chip: Chip, blocks: Floats) -> Floats:
        """Bytes per second that so many blocks ask for."""
        full_sms = np.minimum(blocks * self.warps / HEAD_WARPS, chip.arch.num_sms)
        return full_sms * FULL_SM_BYTES_PER_CYCLE * chip.arch.max_clock_hz


def plan_decode(chip: Chip, batch: Ints, query_heads: Ints, kv_heads: Ints, head_dim: Ints, seen: Ints) -> DecodePlan:
    """Kernel, parts and blocks of decodes.

    Args:
        chip: The chip.
        batch: Sequences `[count]`.
        query_heads: Heads of Q `[count]`.
        kv_heads: Heads of K and V `[count]`.
        head_dim: Elements of a head `[count]`.
        seen: Keys that a query sees `[count]`.
    """
    sms = chip.arch.num_sms
    parts = np.maximum(seen // PART_TOKENS, 1)
    is_grouped = (query_heads > kv_heads) & (batch * kv_heads * parts >= FEWEST_BLOCKS * sms)
    grouped = _grouped_splits(batch, kv_heads, parts, sms)
    warps, slots, single = _head_blocks(chip, batch * query_heads, head_dim, seen)
    splits = np.where(is_grouped, grouped, single).astype(np.float64)
    return DecodePlan(
        is_grouped=is_grouped,
        splits=splits,
        blocks=batch * np.where(is_grouped, kv_heads, query_heads) * splits,
        slots=np.where(is_grouped, sms, slots).astype(np.float64),
        warps=np.where(is_grouped, LEAST_WARPS, warps).astype(np.float64),
    )


def _grouped_splits(batch: Ints, kv_heads: Ints, parts: Ints, sms: int) -> Floats:
    most = np.minimum(parts, np.round(np.sqrt(8.0 * parts)))
    waves = batch * kv_heads * most / sms
    most = np.where(waves > TARGET_WAVES, np.floor(most * TARGET_WAVES / waves), most)
    return np.maximum(np.minimum(np.maximum(most, 1.0), MOST_PARTS // batch), 1.0)


def _head_blocks(chip: Chip, units: Ints, head_dim: Ints, seen: Ints) -> tuple[Floats, Floats, Floats]:
    """Warps of a block, blocks that all SMs hold and parts of a sequence in the per-head kernel."""
    sms, most = chip.arch.num_sms, HEAD_WARPS // LEAST_WARPS
    larger = np.minimum(np.ceil(sms * most / units), most)
    warps = LEAST_WARPS * 2.0 ** np.floor(np.log2(larger))
    shared = float(chip.arch.sm.shared_memory_bytes)
    logits = 1.0 * LOGIT_BYTES * seen
    # What no SM can hold has to be cut.
    least = np.ceil(logits / shared)
    held = np.maximum(np.floor(shared / (logits / least)), 1.0)
    held = np.minimum(held, HEAD_WARPS / warps)
    threads_per_token = head_dim * 2 / VECTOR_BYTES
    step_tokens = warps * 32 / threads_per_token * UNROLLED
    wanted = np.ceil(sms * held / units)
    splits = np.clip(wanted, least, np.maximum(np.ceil((seen + 1) / step_tokens), least))
    splits = np.where((units >= most * sms) & (least == 1), 1.0, splits)
    held = np.minimum(np.maximum(np.floor(shared / (logits / splits)), 1.0), HEAD_WARPS / warps)
    return warps, sms * held, splits
