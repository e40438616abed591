"""Times of a step's kernels by the models of GPUs and of systems.

This is the one place where serving meets kernel and link models. Products go to `gpu.gemm`, attention to `gpu.attention` with
the kernels of inference frameworks, exchanges to `exchanges` (TensorRT-LLM's all-reduce, NCCL); each as one batch over all
steps and layouts. What has no model of its own is a roof: element-wise kernels (streams, with what the cache holds), and
attention to latent vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...archdsl import DATATYPE_BITS, LanguageModel, LatentAttention
from ..gpu.attention import Attentions
from ..gpu.cache import hit_share
from ..gpu.calibrations import Mode
from ..gpu.chip import Chip
from ..gpu.energy import byte_energy_j, idle_power_w, op_energy_j
from ..gpu.gemm import Gemms
from ..gpu.memory_bound import stream_time_s
from ..gpu.times import Floats, Ints, KernelTimes
from .exchanges import exchange_times
from .fabric import Fabric
from .graph import DEFAULT_LOAD_IMBALANCE, step_ops
from .numerics import Numerics
from .ops import PARTS, Attention, ElementWise, Exchange, GroupedProduct, Product, StepOp
from .routing import rows_of_experts
from .steps import Steps, StepTimes

MAX_HEAD_DIM = 256
"""Largest head of the attention kernels that are modelled."""
KV_DATATYPES = {16: "bf16", 8: "fp8", 4: "fp4"}

PRODUCTS = "products by models.gpu.gemm"
EXPERTS = (
    "products of experts by models.gpu.gemm, as one kernel of equal products, at three quantiles of an expert's rows"
)
ATTENTION = "attention to keys and values by models.gpu.attention: kernels of TensorRT-LLM, which rotate and append"
ROOF = "attention to latent vectors, or with larger heads: a roof of sustained bandwidth and rate, one launch"
ELEMENT_WISE = "element-wise kernels: streams of main memory and cache, one launch each"
EXCHANGES = (
    "exchanges by models.systems: TensorRT-LLM's all-reduce where it serves the chips, else NCCL; none overlaps kernels"
)
ENERGY = "energy above idle power by models.gpu.energy; bytes over links and in caches cost none of their own"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuStepTimer:
    """Steps of one model on the GPUs of one system.

    Attributes:
        model: The model.
        numerics: Its datatypes.
        chip: The GPU with its constants.
        fabric: Its links.
        load_imbalance: Rows of the fullest chip over the mean, among chips that share experts.
    """

    model: LanguageModel
    numerics: Numerics
    chip: Chip
    fabric: Fabric
    load_imbalance: float = DEFAULT_LOAD_IMBALANCE

    @property
    def exchange_mode(self) -> Mode:
        """Where the constants of exchanges come from: a calibrated chip's are calibrated as well.

        A chip that merely tries other values, as a fit does, has no named calibration, and its exchanges stay as published.
        """
        return "calibrated" if self.chip.calibration else "datasheet"

    def times(self, steps: Steps) -> StepTimes:
        """What each step costs."""
        return self.price(step_ops(self.model, self.numerics, steps, self.load_imbalance), len(steps))

    def price(self, ops: Sequence[StepOp], num_steps: int) -> StepTimes:
        """What some kernels of each step cost."""
        total = _Total(num_steps)
        products = [op for op in ops if isinstance(op, Product)]
        for datatype, weight_bits in sorted({(op.datatype, op.weight_bits) for op in products}):
            same = [op for op in products if (op.datatype, op.weight_bits) == (datatype, weight_bits)]
            self._products(same, datatype, weight_bits, total)
        for op in ops:
            if isinstance(op, GroupedProduct):
                self._grouped_product(op, total)
            elif isinstance(op, Attention):
                self._attention(op, total)
            elif isinstance(op, ElementWise):
                self._element_wise(op, total)
            elif isinstance(op, Exchange):
                self._exchange(op, total)
        notes = (*self.chip.notes, *total.notes, ENERGY)
        return StepTimes(
            parts_s={name: total.parts_s[name] for name in PARTS if name in total.parts_s},
            ops=total.ops,
            main_memory_bytes=total.main_memory_bytes,
            dynamic_j=total.dynamic_j,
            link_bytes=total.link_bytes,
            notes=tuple(dict.fromkeys(notes)),
        )

    def _products(self, products: Sequence[Product], datatype: str, weight_bits: int, total: _Total) -> None:
        """All products of one datatype, over all steps, as one batch; equal shapes are priced once."""
        total.notes.append(PRODUCTS)
        self.chip.tensor_ops_per_s(datatype)  # a chip without it is an error, whatever else might multiply it
        shapes = np.stack([_whole(np.concatenate([getattr(op, dim) for op in products])) for dim in "mnk"])
        shapes, inverse = _unique_columns(shapes)
        m, n, k = shapes
        runs = m > 0
        input_bytes = m * k * DATATYPE_BITS[datatype] / 8
        batch = Gemms(
            m=m[runs],
            n=n[runs],
            k=k[runs],
            datatype=datatype,
            weight_bits=weight_bits if weight_bits != DATATYPE_BITS[datatype] else None,
            output_bits=self.numerics.plain_bits,
            weights_in_cache=np.zeros(int(runs.sum()), dtype=np.bool_),
            # The kernel before has just written them.
            inputs_in_cache=(input_bytes < self.chip.arch.l2.capacity_bytes / 2)[runs],
        )
        columns = np.zeros((4, len(m)))
        columns[:, runs] = self._columns_of(batch.times(self.chip), total)
        per_op = columns[:, inverse.reshape(len(products), -1)]
        for idx, op in enumerate(products):
            time_s, ops, moved, dynamic_j = per_op[:, idx] * op.copies
            total.add(op.part, time_s, ops, moved, dynamic_j)

    def _grouped_product(self, op: GroupedProduct, total: _Total) -> None:
        """One kernel with a product for each expert that has rows, the mean over quantiles of their number.

        A part of an expert is no product: whole numbers of experts on both sides are priced.
        """
        total.notes.append(EXPERTS)
        self.chip.tensor_ops_per_s(op.datatype)
        runs = op.rows > 0
        active = np.maximum(1.0, op.experts[runs])
        rows = rows_of_experts(op.rows[runs], active, op.held[runs])
        counts = np.stack([np.floor(active), np.ceil(active)])
        shapes = np.broadcast_arrays(rows[:, None], _whole(op.n[runs]), _whole(op.k[runs]), counts.astype(np.int64))
        flat = np.stack([one.reshape(-1) for one in shapes])
        (m, n, k, count), inverse = _unique_columns(flat)
        input_bytes = count * m * k * DATATYPE_BITS[op.datatype] / 8
        batch = Gemms(
            m=m,
            n=n,
            k=k,
            batch=count,
            datatype=op.datatype,
            weight_bits=op.weight_bits if op.weight_bits != DATATYPE_BITS[op.datatype] else None,
            output_bits=self.numerics.plain_bits,
            weights_in_cache=np.zeros(len(m), dtype=np.bool_),
            inputs_in_cache=input_bytes < self.chip.arch.l2.capacity_bytes / 2,
        )
        priced = self._columns_of(batch.times(self.chip), total)[:, inverse.reshape(shapes[0].shape)].mean(axis=1)
        between = active - counts[0]
        columns = np.zeros((4, len(runs)))
        columns[:, runs] = priced[:, 0] + between * (priced[:, 1] - priced[:, 0])
        time_s, _, moved, dynamic_j = columns * op.copies
        total.add(op.part, time_s, op.copies * 2 * op.rows * op.n * op.k, moved, dynamic_j)

    def _columns_of(self, times: KernelTimes, total: _Total) -> Floats:
        """Time, arithmetic, bytes of main memory and energy above idle power of some kernels `[4, n]`."""
        assert times.energy_j is not None
        total.notes += times.notes
        dynamic_j = times.energy_j - idle_power_w(self.chip) * times.time_s
        return np.stack([times.time_s, times.ops, times.main_memory_bytes, dynamic_j])

    def _attention(self, op: Attention, total: _Total) -> None:
        moved = op.kv_bytes + op.other_bytes
        heads = op.heads
        runs = op.ops > 0
        time_s = np.zeros(len(runs))
        dynamic_j = self._dynamic_j(op.ops, moved, op.datatype)
        is_modelled = heads.head_dim == heads.value_dim <= MAX_HEAD_DIM
        total.notes.append(ATTENTION if is_modelled else ROOF)
        if is_modelled:
            # Means are no whole numbers; a kernel of whole sequences is priced, and its time scaled back.
            sequences = _whole(op.sequences[runs])
            queries = _whole(op.query_tokens[runs])
            batch = Attentions(
                batch=sequences,
                query_heads=_whole(heads.query_heads[runs]),
                kv_heads=_whole(heads.kv_heads[runs]),
                head_dim=np.full(len(sequences), heads.head_dim),
                query_len=queries,
                kv_len=np.maximum(queries, _whole(op.key_tokens[runs])),
                window=np.full(len(sequences), op.window or 0),
                datatype=op.datatype,
                kv_datatype=KV_DATATYPES[self.numerics.kv_bits],
                backend="framework",
            )
            share = np.minimum(1.0, op.sequences[runs] / sequences)
            columns = self._columns_of(batch.times(self.chip), total) * np.where(sequences > 1, share, 1.0)
            time_s[runs], dynamic_j[runs] = columns[0], columns[3]
        else:
            time_s[runs] = self._roof(op.ops[runs], moved[runs], op.datatype) + self._floor_s
        total.add(op.part, op.copies * time_s, op.copies * op.ops, op.copies * moved, op.copies * dynamic_j)

    def _element_wise(self, op: ElementWise, total: _Total) -> None:
        """What the kernel before wrote is read from the cache as far as it holds both."""
        total.notes.append(ELEMENT_WISE)
        if op.is_of_attention and self._appends:
            zero = np.zeros_like(op.moved_bytes)
            total.add(op.part, zero, zero, op.copies * op.moved_bytes, zero)
            return
        hits = hit_share(op.moved_bytes, self.chip.arch.l2)
        missed = op.moved_bytes * (1 - hits) / 2
        cache_s = op.moved_bytes * hits / self._cache_bytes_per_s
        time_s = np.where(op.moved_bytes > 0, stream_time_s(self.chip, missed, missed) + cache_s + self._floor_s, 0.0)
        moved = op.copies * 2 * missed
        total.add(op.part, op.copies * time_s, np.zeros_like(time_s), moved, moved * byte_energy_j(self.chip))

    def _exchange(self, op: Exchange, total: _Total) -> None:
        found = exchange_times(op, self.fabric.system, self.exchange_mode)
        zero = np.zeros_like(found.time_s)
        total.add(op.part, op.copies * found.time_s, zero, zero, zero, op.copies * found.sent_bytes)
        total.notes += (EXCHANGES, *found.notes)

    @property
    def _appends(self) -> bool:
        """Whether the attention kernels rotate and append, as those that are modelled do."""
        attention = self.model.attention
        return not isinstance(attention, LatentAttention) and attention.head_dim <= MAX_HEAD_DIM

    @property
    def _cache_bytes_per_s(self) -> float:
        arch = self.chip.arch
        return self.chip.constants["l2_bytes_per_cycle_sm"] * arch.num_sms * arch.max_clock_hz

    def _roof(self, ops: Floats, moved: Floats, datatype: str) -> Floats:
        rate = self.chip.tensor_ops_per_s(datatype) * self.chip.constants["tensor_efficiency"]
        return np.maximum(ops / rate, moved / self._bytes_per_s)

    def _dynamic_j(self, ops: Floats, moved: Floats, datatype: str) -> Floats:
        """Energy above idle power of kernels without a model of their own, at the highest clock [J]."""
        return ops * op_energy_j(self.chip, datatype) + moved * byte_energy_j(self.chip)

    @property
    def _bytes_per_s(self) -> float:
        return self.chip.memory_bytes_per_s * self.chip.constants["memory_efficiency"]

    @property
    def _floor_s(self) -> float:
        return self.chip.arch.launch.floor_s + self.chip.constants["memory_latency_s"]


class _Total:
    """Sums over the ops of a step."""

    def __init__(self, num_steps: int) -> None:
        self.num_steps = num_steps
        self.parts_s: dict[str, Floats] = {}
        self.ops: Floats = np.zeros(num_steps)
        self.main_memory_bytes: Floats = np.zeros(num_steps)
        self.dynamic_j: Floats = np.zeros(num_steps)
        self.link_bytes: Floats = np.zeros(num_steps)
        self.notes: list[str] = []

    def add(
        self, part: str, time_s: Floats, ops: Floats, moved: Floats, dynamic_j: Floats, sent: Floats | float = 0.0
    ) -> None:
        """One op of every step."""
        self.parts_s[part] = self.parts_s.get(part, np.zeros(self.num_steps)) + time_s
        self.ops = self.ops + ops
        self.main_memory_bytes = self.main_memory_bytes + moved
        self.dynamic_j = self.dynamic_j + dynamic_j
        self.link_bytes = self.link_bytes + sent


def _unique_columns(columns: Ints) -> tuple[Ints, Ints]:
    """What `np.unique(columns, axis=1, return_inverse=True)` returns, which sorts columns as bytes and takes ten times as long."""
    order = np.lexsort(columns[::-1])
    ordered = columns[:, order]
    is_first = np.append(True, np.any(ordered[:, 1:] != ordered[:, :-1], axis=0))
    inverse = np.empty(len(order), dtype=np.int64)
    inverse[order] = np.cumsum(is_first) - 1
    return ordered[:, is_first], inverse


def _whole(values: Floats) -> Ints:
    """Sizes as whole numbers, rounded up; rounding errors of divisions do not count."""
    return np.ceil(values - 1e-6).astype(np.int64)
