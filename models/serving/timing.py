"""Times of a step's kernels: GEMMs by `models.gpu`, everything else by simple roofs.

This is the one place where serving meets kernel and link models. Products go to `gpu.gemm.Gemms`, one batch per datatype
over all steps and layouts. Attention, memory-bound kernels, grouped products and exchanges are roofs: bytes over sustained
bandwidth against operations over the sustained rate, and a launch. A better model of a kind replaces one function here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...archdsl import DATATYPE_BITS, LanguageModel
from ..gpu.chip import Chip
from ..gpu.gemm import Gemms
from ..gpu.times import Floats, Ints
from .fabric import Fabric
from .graph import DEFAULT_LOAD_IMBALANCE, step_ops
from .numerics import Numerics
from .ops import PARTS, Attention, ElementWise, Exchange, GroupedProduct, Product, StepOp
from .steps import Steps, StepTimes

TILE_ROWS = 64
"""Rows of a tile of grouped products: those of an expert are padded to it. Source: the smallest m of wgmma, PTX ISA."""

APPROXIMATIONS = (
    "attention, element-wise kernels, grouped products and exchanges: roofs of sustained bandwidth and rate, one launch each",
    "one-shot or two-shot all-reduce, whichever is faster; no exchange overlaps kernels",
)


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
        notes = (*self.chip.notes, *APPROXIMATIONS, *total.notes)
        return StepTimes(
            parts_s={name: total.parts_s[name] for name in PARTS if name in total.parts_s},
            ops=total.ops,
            main_memory_bytes=total.main_memory_bytes,
            link_bytes=total.link_bytes,
            notes=tuple(dict.fromkeys(notes)),
        )

    def _products(self, products: Sequence[Product], datatype: str, weight_bits: int, total: _Total) -> None:
        """All products of one datatype, over all steps, as one batch; equal shapes are priced once."""
        self.chip.tensor_ops_per_s(datatype)  # a chip without it is an error, whatever else might multiply it
        shapes = np.stack([_whole(np.concatenate([getattr(op, dim) for op in products])) for dim in "mnk"])
        shapes, inverse = np.unique(shapes, axis=1, return_inverse=True)
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
        times = batch.times(self.chip)
        columns = np.zeros((3, len(m)))
        columns[:, runs] = (times.time_s, times.ops, times.main_memory_bytes)
        per_op = columns[:, inverse.reshape(len(products), -1)]
        for idx, op in enumerate(products):
            total.add(op.part, *(per_op[:, idx] * op.copies))
        total.notes.extend(times.notes)

    def _grouped_product(self, op: GroupedProduct, total: _Total) -> None:
        """Each expert's rows are padded to tiles; weights of the experts that have rows are read once."""
        per_expert = np.divide(op.rows, op.experts, out=np.zeros_like(op.rows), where=op.experts > 0)
        padded = op.experts * np.ceil(per_expert / TILE_ROWS) * TILE_ROWS
        weights = op.experts * op.n * op.k * op.weight_bits / 8
        moved = weights + op.rows * (op.k * DATATYPE_BITS[op.datatype] + op.n * self.numerics.plain_bits) / 8
        overhead = self.chip.arch.launch.floor_s + self.chip.constants["tile_overhead_s"]
        time_s = self._roof(2 * padded * op.n * op.k, moved, op.datatype) + overhead
        total.add(op.part, op.copies * time_s, op.copies * 2 * op.rows * op.n * op.k, op.copies * moved)

    def _attention(self, op: Attention, total: _Total) -> None:
        moved = op.kv_bytes + op.other_bytes
        time_s = np.where(op.ops > 0, self._roof(op.ops, moved, op.datatype) + self._floor_s, 0.0)
        total.add(op.part, op.copies * time_s, op.copies * op.ops, op.copies * moved)

    def _element_wise(self, op: ElementWise, total: _Total) -> None:
        time_s = np.where(op.moved_bytes > 0, op.moved_bytes / self._bytes_per_s + self._floor_s, 0.0)
        total.add(op.part, op.copies * time_s, np.zeros_like(time_s), op.copies * op.moved_bytes)

    def _exchange(self, op: Exchange, total: _Total) -> None:
        time_s, sent = exchange_times(op, self.fabric, self.chip.arch.launch.floor_s)
        total.add(op.part, op.copies * time_s, np.zeros_like(time_s), np.zeros_like(time_s), op.copies * sent)

    def _roof(self, ops: Floats, moved: Floats, datatype: str) -> Floats:
        rate = self.chip.tensor_ops_per_s(datatype) * self.chip.constants["tensor_efficiency"]
        return np.maximum(ops / rate, moved / self._bytes_per_s)

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
        self.link_bytes: Floats = np.zeros(num_steps)
        self.notes: list[str] = []

    def add(self, part: str, time_s: Floats, ops: Floats, moved: Floats, sent: Floats | float = 0.0) -> None:
        """One op of every step."""
        self.parts_s[part] = self.parts_s.get(part, np.zeros(self.num_steps)) + time_s
        self.ops = self.ops + ops
        self.main_memory_bytes = self.main_memory_bytes + moved
        self.link_bytes = self.link_bytes + sent


def exchange_times(op: Exchange, fabric: Fabric, launch_s: float) -> tuple[Floats, Floats]:
    """Time of one run of an exchange and the bytes that a chip sends in it `[n]`.

    Every chip reaches every other of its domain through the switch at once, so a phase costs one latency to make the
    data visible and one to signal it. One-shot all-reduce: each chip reads all others' vectors. Two-shot: each sums its
    slice and all gather the sums. A group larger than a domain goes at the pace of the links out of it.

    Source: alpha-beta costs, Thakur, Rabenseifner, Gropp, Optimization of Collective Communication Operations in MPICH,
    2005; one-shot and two-shot as in TensorRT-LLM's custom all-reduce.
    """
    group, payload = op.group, op.payload_bytes
    is_outer = group > fabric.domain_chips
    bytes_per_s = np.where(is_outer, fabric.outer_bytes_per_s, fabric.link_bytes_per_s)
    latency_s = np.where(is_outer, fabric.outer_latency_s, fabric.link_latency_s)
    share = np.where(group > 1, (group - 1) / np.maximum(group, 1.0), 0.0)
    if op.kind == "all_reduce":
        one_shot = 2 * latency_s + (group - 1) * payload / bytes_per_s
        two_shot = 4 * latency_s + 2 * share * payload / bytes_per_s
        time_s = np.minimum(one_shot, two_shot)
        sent = np.where(one_shot <= two_shot, (group - 1) * payload, 2 * share * payload)
    elif op.kind == "transfer":
        time_s, sent = latency_s + payload / bytes_per_s, payload
    else:
        sent = share * payload
        time_s = 2 * latency_s + sent / bytes_per_s
    runs = (group > 1) & (payload > 0)
    return np.where(runs, launch_s + time_s, 0.0), np.where(runs, sent, 0.0)


def _whole(values: Floats) -> Ints:
    """Sizes as whole numbers, rounded up; rounding errors of divisions do not count."""
    return np.ceil(values - 1e-6).astype(np.int64)
