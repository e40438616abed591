"""Kernels of a network of ops: which kernel runs each op, all ops of one kind priced as one batch.

    contraction of two tensors      GEMM, batched over the dims that all three tensors have
    square convolution              implicit GEMM, depthwise or on vector units: `Convolutions`
    other convolution               GEMM of its size over the input's own bytes (noted)
    attention (`join_attention`)    one FlashAttention 2 kernel: `Attentions`
    vector work                     one pass over inputs and results at sustained bandwidth, or its instructions

Limits: ops run one after another as they stand; nothing else is fused. Ops know sizes, not rows, so that norms and softmax
are streams (`MemoryKernels` has their rows). Of masks only the size is known, so that attention leaves nothing out. A
result is in the cache for the next op as far as it fits; what takes the weight's role never is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...archdsl import DATATYPE_BITS, DimClass, ModelError, Op, TensorRole, VectorOp, nearest_hint
from ..parts import Part
from .attention import Attentions
from .attention_patterns import AttentionOp, KernelOp, extent
from .cache import hit_share
from .chip import Chip
from .convolution import Convolutions
from .energy import with_energy
from .facts import LANES
from .gemm import Gemms
from .memory_bound import stream_time_s
from .times import REGIMES, Floats, Ints, Kernels, KernelTimes, Regime
from .vector_convolution import OUTPUT_INSTRUCTIONS, TAP_INSTRUCTIONS

PASS_INSTRUCTIONS: Final = 6
"""Instructions of a vector operation on one element, with loads, conversions and the store (assumption: as `add` and `mul` in
`memory_bound.STRUCTURES`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelEstimate:
    """One op as a kernel; amounts are of one run.

    Attributes:
        op: The op.
        kernel: Shape of the kernel on one line.
        time: Time as a tree [s].
        regime: What limits it.
        ops: Useful arithmetic, 2 per multiply-accumulate.
        main_memory_bytes: Bytes to and from main memory.
        energy_j: Energy [J].
        choice: How the kernel is made (tile, split), where there is a choice.
        notes: Approximations.
    """

    op: KernelOp
    kernel: str
    time: Part
    regime: Regime
    ops: float
    main_memory_bytes: float
    energy_j: float
    choice: str
    notes: tuple[str, ...]


def estimate_kernels(ops: Sequence[KernelOp], chip: Chip) -> tuple[KernelEstimate, ...]:
    """Price the ops of a network, which run in their order.

    Args:
        ops: The ops.
        chip: The GPU.

    Raises:
        ModelError: The chip lacks a datatype, or an op is neither a product of two tensors nor vector work.
    """
    plans = [_plan(op, is_first=idx == 0) for idx, op in enumerate(ops)]
    found: dict[int, KernelEstimate] = {}
    for family in dict.fromkeys(plan.family for plan in plans):
        rows = [idx for idx, plan in enumerate(plans) if plan.family == family]
        kernels = family.kernels(np.array([plans[idx].columns for idx in rows], dtype=np.int64).T)
        times = kernels.times(chip)
        for place, idx in enumerate(rows):
            found[idx] = _estimate(ops[idx], plans[idx], kernels, times, place)
    return tuple(found[idx] for idx in range(len(ops)))


def _estimate(op: KernelOp, plan: _Plan, kernels: Kernels, times: KernelTimes, row: int) -> KernelEstimate:
    assert times.energy_j is not None  # every family gives energies
    return KernelEstimate(
        op=op,
        kernel=kernels.label(row),
        time=times.part(row),
        regime=REGIMES[int(times.regime[row])],
        ops=float(times.ops[row]),
        main_memory_bytes=float(times.main_memory_bytes[row]),
        energy_j=float(times.energy_j[row]),
        choice=times.choices[row] if times.choices else "",
        notes=tuple(dict.fromkeys((*plan.notes, *times.notes))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """Kernels that read and write each element once, with some instructions for each.

    Attributes:
        read_bytes: Bytes read `[count]`.
        written_bytes: Bytes written `[count]`.
        elements: Elements computed `[count]`.
        instructions: Instructions per element `[count]`.
        datatype: Datatype of the elements.
        inputs_in_cache: Whether the inputs were just written.
    """

    read_bytes: Ints
    written_bytes: Ints
    elements: Ints
    instructions: Ints
    datatype: str
    inputs_in_cache: bool

    def __len__(self) -> int:
        return len(self.elements)

    def label(self, idx: int) -> str:
        """`stream bf16 1048576 x 6`: datatype, elements and instructions for each."""
        return f"stream {self.datatype} {self.elements[idx]} x {self.instructions[idx]}"

    def times(self, chip: Chip) -> KernelTimes:
        """The longer of stream and instructions, and a launch; what hits in the cache costs its bandwidth."""
        read, written = self.read_bytes.astype(np.float64), self.written_bytes.astype(np.float64)
        hits = hit_share(read + written, chip.arch.l2) if self.inputs_in_cache else np.zeros(len(self))
        per_cycle = chip.arch.num_sms * chip.arch.max_clock_hz
        inside: dict[str, Floats] = {
            "main memory": stream_time_s(chip, read * (1 - hits), written * (1 - hits)),
            "cache": (read + written) / (chip.constants["l2_bytes_per_cycle_sm"] * per_cycle),
            "issue": self.elements.astype(np.float64) * self.instructions / (LANES * per_cycle),
        }
        work = np.array(list(inside.values()))
        launch = np.full(len(self), chip.arch.launch.floor_s)
        regime = np.where(work.argmax(axis=0) == 2, 0, 1)
        times = KernelTimes(
            serial_s={"launch": launch, "work": work.max(axis=0)},
            overlapped_s={"work": inside},
            regime=np.where(launch > work.max(axis=0), 2, regime),
            ops=self.elements.astype(np.float64),
            main_memory_bytes=(read + written) * (1 - hits),
        )
        return with_energy(times, chip, "fp32")


@dataclass(frozen=True, slots=True)
class _ProductFamily:
    datatype: str
    weight_bits: int | None
    output_bits: int
    is_first: bool
    has_own_input: bool = False

    def kernels(self, columns: Ints) -> Kernels:
        """Columns: m, n, k, batch and bytes of the input."""
        m, n, k, batch, input_bytes = columns
        return Gemms(
            m=m,
            n=n,
            k=k,
            batch=batch,
            datatype=self.datatype,
            weight_bits=self.weight_bits,
            output_bits=self.output_bits,
            weights_in_cache=np.zeros(len(m), dtype=np.bool_),
            inputs_in_cache=np.full(len(m), not self.is_first),
            # What was touched since the weights' last use is everything: they come from main memory.
            input_bytes=input_bytes.astype(np.float64) if self.has_own_input else None,
        )


@dataclass(frozen=True, slots=True)
class _ConvolutionFamily:
    datatype: str
    is_first: bool

    def kernels(self, columns: Ints) -> Kernels:
        """Columns: as `Convolutions` has them."""
        batch, in_channels, out_channels, kernel, stride, in_size, groups = columns
        return Convolutions(
            batch=batch,
            in_channels=in_channels,
            out_channels=out_channels,
            kernel=kernel,
            stride=stride,
            in_size=in_size,
            groups=groups,
            datatype=self.datatype,
            inputs_in_cache=not self.is_first,
        )


@dataclass(frozen=True, slots=True)
class _AttentionFamily:
    datatype: str

    def kernels(self, columns: Ints) -> Kernels:
        """Columns: heads, queries, keys and elements of a head."""
        heads, query_len, kv_len, head_dim = columns
        return Attentions(
            batch=np.ones_like(heads),
            query_heads=heads,
            kv_heads=heads,
            head_dim=head_dim,
            query_len=query_len,
            kv_len=kv_len,
            window=np.zeros_like(heads),
            datatype=self.datatype,
            is_causal=False,
        )


@dataclass(frozen=True, slots=True)
class _StreamFamily:
    datatype: str
    is_first: bool

    def kernels(self, columns: Ints) -> Kernels:
        """Columns: bytes read and written, elements, instructions for each."""
        read_bytes, written_bytes, elements, instructions = columns
        return Streams(
            read_bytes=read_bytes,
            written_bytes=written_bytes,
            elements=elements,
            instructions=instructions,
            datatype=self.datatype,
            inputs_in_cache=not self.is_first,
        )


@dataclass(frozen=True, slots=True)
class _Plan:
    """Which batch an op belongs to, and its row there."""

    family: _ProductFamily | _ConvolutionFamily | _AttentionFamily | _StreamFamily
    columns: tuple[int, ...]
    notes: tuple[str, ...] = ()


def _plan(op: KernelOp, *, is_first: bool) -> _Plan:
    if op.datatype not in DATATYPE_BITS:
        raise ModelError(f"{op.name}: unknown datatype '{op.datatype}'{nearest_hint(op.datatype, DATATYPE_BITS)}")
    if isinstance(op, VectorOp):
        return _vector_plan(op, is_first)
    if isinstance(op, AttentionOp):
        note = f"attention: one FlashAttention 2 kernel in place of {op.num_ops} ops, without what a mask leaves out"
        return _Plan(_AttentionFamily(op.datatype), (op.heads, op.query_len, op.kv_len, op.head_dim), (note,))
    if len(op.tensors) != 3:
        raise ModelError(
            f"{op.name} ({op.kind}) has {len(op.tensors)} tensors; kernels multiply two into a third: split it into such ops"
        )
    windows = _windows(op)
    if not windows:
        return _product_plan(op, is_first)
    return _square_plan(op, windows[0], is_first) if _is_square(windows) else _other_window_plan(op, windows, is_first)


def _vector_plan(op: VectorOp, is_first: bool) -> _Plan:
    read, written = (sum(amount for _, amount in moved) for moved in (op.read_bytes, op.write_bytes))
    note = f"{op.kind}: one pass over inputs and results; its rows are not known"
    columns = (read, written, op.elements, max(1, op.passes) * PASS_INSTRUCTIONS)
    return _Plan(_StreamFamily(op.datatype, is_first), columns, (note,) if op.passes > 1 else ())


def _product_plan(op: Op, is_first: bool) -> _Plan:
    bits = DATATYPE_BITS[op.datatype]
    weight = next((tensor for tensor in op.tensors if tensor.role is TensorRole.WEIGHT), op.tensors[1])
    family = _ProductFamily(
        op.datatype, weight.bits if weight.bits != bits else None, op.output.bits, is_first, has_own_input=False
    )
    sides = (extent(op, c) for c in (DimClass.PIXEL, DimClass.OUTPUT_CHANNEL, DimClass.REDUCTION, DimClass.GROUP))
    return _Plan(family, (*sides, 0))


@dataclass(frozen=True, slots=True)
class _Window:
    """One axis of the input over which a window slides."""

    out_size: int
    taps: int
    stride: int
    dilation: int


def _windows(op: Op) -> tuple[_Window, ...]:
    """Axes with windows or strides; none of a plain product."""
    sizes = op.sizes
    found: list[_Window] = []
    for axis in op.tensors[0].axes:
        outer = [(sizes[dim], step) for dim, step in axis.terms if op.dim_class(dim) is not DimClass.REDUCTION]
        inner = [(sizes[dim], step) for dim, step in axis.terms if op.dim_class(dim) is DimClass.REDUCTION]
        if len(axis.terms) > 1 or (outer and outer[0][1] > 1):
            out_size, stride = outer[0] if outer else (1, 1)
            taps, dilation = inner[0] if inner else (1, 1)
            found.append(_Window(out_size, taps, stride, dilation))
    return tuple(found)


def _is_square(windows: tuple[_Window, ...]) -> bool:
    window = windows[0]
    return len(windows) == 2 and windows[1] == window and window.dilation == 1 and window.taps % 2 == 1


def _square_plan(op: Op, window: _Window, is_first: bool) -> _Plan:
    groups = extent(op, DimClass.GROUP)
    columns = (
        extent(op, DimClass.PIXEL) // window.out_size**2,
        groups * (extent(op, DimClass.REDUCTION) // window.taps**2),
        groups * extent(op, DimClass.OUTPUT_CHANNEL),
        window.taps,
        window.stride,
        window.out_size * window.stride,
        groups,
    )
    is_wide = op.output.bits != DATATYPE_BITS[op.datatype]
    note = f"{op.output.bits}-bit results are counted as {op.datatype}"
    return _Plan(_ConvolutionFamily(op.datatype, is_first), columns, (note,) if is_wide else ())


def _other_window_plan(op: Op, windows: tuple[_Window, ...], is_first: bool) -> _Plan:
    groups, filters = extent(op, DimClass.GROUP), extent(op, DimClass.OUTPUT_CHANNEL)
    taps = math.prod(window.taps for window in windows)
    read = op.tensor_bytes(op.tensors[0])
    if groups > 1 and filters == 1 and extent(op, DimClass.REDUCTION) == taps:
        elements = extent(op, DimClass.PIXEL) * groups
        columns = (read, op.tensor_bytes(op.output), elements, OUTPUT_INSTRUCTIONS + TAP_INSTRUCTIONS * taps)
        note = "depthwise, not square: the longer of its stream and its instructions"
        return _Plan(_StreamFamily(op.datatype, is_first), columns, (note,))
    family = _ProductFamily(op.datatype, None, op.output.bits, is_first, has_own_input=True)
    note = "convolution that is not square, or dilated: a product of its size; gathering is not counted"
    columns = (extent(op, DimClass.PIXEL), filters, extent(op, DimClass.REDUCTION), groups, read)
    return _Plan(family, columns, (note,))
