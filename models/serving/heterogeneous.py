"""Attention on GPUs, feed-forward networks on chips of another kind: each layer's activations cross a link twice.

The other chips hold the weights of the feed-forward networks where they multiply them (a GPU's main memory, an LPU's
scratchpads), and are priced by their rate and that memory's bandwidth alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ...archdsl import (
    GpuArch,
    Infeasible,
    LanguageModel,
    ModelError,
    SpatialArch,
    TensorRole,
    WeightRole,
    nearest_hint,
    weight_tensors,
)
from ..gpu.times import Floats
from .graph import split_ops
from .numerics import Numerics, weight_bytes
from .ops import GroupedProduct, Product, StepOp
from .steps import Steps, StepTimes
from .timing import GpuStepTimer

FEED_FORWARD_ROLES: frozenset[WeightRole] = frozenset({"feed_forward", "experts", "shared_experts", "router"})
"""Roles whose weights the other chips hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedForwardPool:
    """Chips that do the feed-forward networks.

    Attributes:
        name: Name of the chip.
        num_chips: How many there are; they hold all layers.
        chips_per_layer: Over how many each layer is divided; the layers are dealt out to groups of so many.
        ops_per_s: Rate of one chip by datatype, 2 per multiply-accumulate [op/s].
        weight_bytes_per_s: Bandwidth at which one chip reads the weights that it holds [B/s].
        weight_capacity_bytes: Weights that one chip holds.
        link_bytes_per_s: Between the GPUs of an instance and a group of these chips, per direction [B/s].
        link_latency_s: Time of the first byte there [s].
        micro_batches: Parts that a batch is cut into, so that both kinds of chips work at once.
    """

    name: str
    num_chips: int
    chips_per_layer: int
    ops_per_s: dict[str, float]
    weight_bytes_per_s: float
    weight_capacity_bytes: int
    link_bytes_per_s: float
    link_latency_s: float
    micro_batches: int = 2

    def __post_init__(self) -> None:
        if self.chips_per_layer < 1 or self.num_chips % self.chips_per_layer:
            raise ModelError(f"{self.num_chips} chips are no multiple of the {self.chips_per_layer} chips of a layer")
        if self.micro_batches < 1:
            raise ModelError(f"{self.micro_batches} micro-batches; at least 1")

    def rate(self, datatype: str) -> float:
        """Rate of one chip [op/s].

        Raises:
            ModelError: It does not multiply that datatype.
        """
        if datatype not in self.ops_per_s:
            raise ModelError(
                f"{self.name}: no datatype '{datatype}'{nearest_hint(datatype, self.ops_per_s)}; name one with --quantisation"
            )
        return self.ops_per_s[datatype]


def pool_of(
    arch: GpuArch | SpatialArch,
    num_chips: int,
    *,
    chips_per_layer: int,
    link_bytes_per_s: float,
    link_latency_s: float,
    micro_batches: int = 2,
) -> FeedForwardPool:
    """A pool of chips of one architecture; of a spatial one, weights stay in its largest memory on the chip.

    Raises:
        ModelError: A spatial architecture has no bounded memory on the chip that keeps weights.
    """
    if isinstance(arch, GpuArch):
        rates = {name: kind.dense_ops_per_s for name, kind in arch.tensor_cores.datatypes.items()}
        bandwidth = arch.main_memory.bandwidth.bytes_per_s(arch.clock_hz)
        capacity = arch.main_memory.capacity_bytes
    else:
        rates, bandwidth, capacity = _spatial_roof(arch)
    return FeedForwardPool(
        name=arch.name,
        num_chips=num_chips,
        chips_per_layer=chips_per_layer,
        ops_per_s=rates,
        weight_bytes_per_s=bandwidth,
        weight_capacity_bytes=capacity,
        link_bytes_per_s=link_bytes_per_s,
        link_latency_s=link_latency_s,
        micro_batches=micro_batches,
    )


def _spatial_roof(arch: SpatialArch) -> tuple[dict[str, float], float, int]:
    """Rates, bandwidth and capacity of the largest memory on the chip."""
    onchip = [
        (memory, memory.capacity_bytes * arch.instances(memory.name))
        for memory in arch.memories
        if memory.memory_class != "main_memory"
        and memory.capacity_bytes is not None
        and TensorRole.WEIGHT in memory.keeps
    ]
    if not onchip:
        raise ModelError(f"{arch.name}: no memory on the chip keeps weights")
    memory, capacity = max(onchip, key=lambda pair: pair[1])
    bandwidth = arch.read_bytes_per_cycle(memory) * arch.instances(memory.name) * arch.clock_hz
    rate = 2 * arch.num_pes * arch.clock_hz
    rates = {name: arch.compute.macs_per_cycle(name) * rate for name in arch.compute.datatypes}
    return rates, bandwidth, capacity


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitStepTimer:
    """Steps whose feed-forward networks run on other chips.

    Micro-batches go round: attention of a layer, the link, its feed-forward network, the link, the next layer. A step lasts
    as long as the busier side works on all micro-batches, or as one of them takes for its way round, whichever is longer.

    Limits: exchanges between the other chips of a layer are left out, and so is their power.

    Attributes:
        gpus: Prices what stays on the GPUs.
        pool: The other chips.
    """

    gpus: GpuStepTimer
    pool: FeedForwardPool

    def times(self, steps: Steps) -> StepTimes:
        """What each step costs."""
        parts = float(self.pool.micro_batches)
        cut = replace(
            steps,
            prompt_tokens=steps.prompt_tokens / parts,
            num_prompts=np.maximum(1.0, steps.num_prompts / parts),
            batch=steps.batch / parts,
        )
        model, numerics = self.gpus.model, self.gpus.numerics
        ops = split_ops(model, numerics, cut, self.gpus.load_imbalance)
        whole = split_ops(model, numerics, steps, self.gpus.load_imbalance)
        edges = self.gpus.price(whole.edges, len(steps))
        attention = self.gpus.price(ops.attention, len(steps))
        feed_forward_s = self._feed_forward_s(ops.feed_forward, steps)
        link_s = self._link_s(cut)
        round_s = attention.time_s + feed_forward_s + link_s
        total_s = np.maximum(round_s, parts * np.maximum(attention.time_s, feed_forward_s))
        return StepTimes(
            parts_s={
                **edges.parts_s,
                "attention side": attention.time_s,
                f"feed-forward on {self.pool.name}": feed_forward_s,
                "between the chips": link_s,
                "waiting for the busier side": total_s - round_s,
            },
            ops=edges.ops + parts * attention.ops,
            main_memory_bytes=edges.main_memory_bytes + parts * attention.main_memory_bytes,
            dynamic_j=edges.dynamic_j + parts * attention.dynamic_j,
            link_bytes=edges.link_bytes + parts * attention.link_bytes,
            notes=(
                *dict.fromkeys([*edges.notes, *attention.notes]),
                f"{self.pool.name}: roof of rate and bandwidth of its weights; exchanges among these chips are left out",
            ),
        )

    def _feed_forward_s(self, ops: tuple[StepOp, ...], steps: Steps) -> Floats:
        """All layers, each on its group of chips, products one after another; weights serve all groups of users at once."""
        layouts, group = steps.layouts, self.pool.chips_per_layer
        # The graph's shapes are those of one chip of the GPUs' layout; the pool does the work of all of them.
        total = np.zeros(len(steps))
        for op in ops:
            if isinstance(op, Product):
                chips = np.where(np.asarray(op.name == "router"), 1.0, layouts.tp)
                rows, users, weights = op.m, layouts.dp, op.n * op.k * op.weight_bits / 8
            elif isinstance(op, GroupedProduct):
                chips = layouts.expert_chips
                rows, users = op.rows, layouts.dp / layouts.expert_groups
                weights = op.experts * op.n * op.k * op.weight_bits / 8
            else:
                continue
            compute = 2 * rows * op.n * op.k * chips * users / (group * self.pool.rate(op.datatype))
            memory = np.where(rows > 0, weights * chips / (group * self.pool.weight_bytes_per_s), 0.0)
            total += op.copies * np.maximum(compute, memory)
        return total

    def _link_s(self, cut: Steps) -> Floats:
        """Both ways of every layer: the tokens of all groups share the link."""
        model, numerics = self.gpus.model, self.gpus.numerics
        moved = cut.tokens * cut.layouts.dp * model.hidden_size * numerics.plain_bits / 8
        return 2 * model.num_layers * (self.pool.link_latency_s + moved / self.pool.link_bytes_per_s)


def pool_shortage(model: LanguageModel, numerics: Numerics, pool: FeedForwardPool) -> Infeasible | None:
    """Why a pool does not hold the feed-forward networks, or None when it does."""
    terms = tuple(
        (role, weight_bytes(model, numerics, frozenset({role})))
        for role in sorted(FEED_FORWARD_ROLES & {tensor.role for tensor in weight_tensors(model)})
    )
    demand, limit = sum(amount for _, amount in terms), pool.num_chips * pool.weight_capacity_bytes
    if demand <= limit:
        return None
    needed = math.ceil(demand / (pool.weight_capacity_bytes * pool.chips_per_layer)) * pool.chips_per_layer
    return Infeasible(
        resource=f"memory for weights of {pool.num_chips} {pool.name}",
        demand=demand,
        limit=limit,
        unit="bytes",
        terms=terms,
        levers=(f"{needed:,} chips for feed-forward networks", "fewer bits: --quantisation"),
        op=model.name,
    )
