"""Convolutions on NHWC tensors: implicit GEMM on tensor cores, depthwise on the vector units.

A dense convolution is the product of a matrix of patches [B x OY x OX, FY x FX x C] and the weights [K, FY x FX x C]; the
patches are gathered while they are loaded, so main memory moves the input once and not once per tap. Its costs are those of
`Gemms` with that many input bytes, and those of the gather: tables of offsets before the first load, and threads that compute
addresses where a GEMM's tiles are fetched in bulk (`gather_efficiency`). With one tap at every pixel only the tables are left.

Tensor-core kernels load 16 bytes of channels at once. An input with fewer channels than that (the first convolution of an
image network) is computed on the vector units; other counts are padded to a multiple. Depthwise convolutions have nothing to
multiply matrices of: each output takes FY x FX loads and multiply-adds, beside one pass over input and output.

Limits: no dilation; no Winograd or FFT kernels, which cuDNN has for fp32 only where channels last; fused bias and activation
are free.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ...archdsl import DATATYPE_BITS, ModelError, nearest_hint
from .chip import Chip
from .energy import with_energy
from .facts import CACHE_LATENCY_CYCLES, LANES
from .gemm import Gemms
from .memory_bound import stream_time_s
from .times import Floats, Ints, KernelTimes

VECTOR_BYTES: Final = 16
"""Bytes of channels that a load takes. Source: NVIDIA, Convolutional Layers User's Guide: channels in multiples of 8 (fp16)."""

GATHER_TRIPS: Final = 4
"""Trips to the L2 before the first load beside a GEMM's: offsets of the taps and their bounds are tables (cuDNN, CUTLASS)."""

TAP_INSTRUCTIONS: Final = 5
"""Instructions per tap of a depthwise output: bounds, two loads, conversion and multiply-add (assumption)."""

OUTPUT_INSTRUCTIONS: Final = 20
"""Instructions per depthwise output beside its taps: its place in four dimensions, conversion, store (assumption)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolutions:
    """Square convolutions with `kernel // 2` of padding, many of one datatype.

    Attributes:
        batch: Images `[count]`.
        in_channels: Channels of the input `[count]`.
        out_channels: Channels of the output `[count]`.
        kernel: Taps in each direction `[count]`.
        stride: Step in each direction `[count]`.
        in_size: Rows and columns of the input `[count]`.
        groups: Groups of channels `[count]`; as many as channels is depthwise.
        datatype: Datatype of input, weights and output.
        inputs_in_cache: Whether the input was just written.
    """

    batch: Ints
    in_channels: Ints
    out_channels: Ints
    kernel: Ints
    stride: Ints
    in_size: Ints
    groups: Ints
    datatype: str
    inputs_in_cache: bool = False

    def __len__(self) -> int:
        return len(self.batch)

    def label(self, idx: int) -> str:
        """`bf16 b8 64->256 3x3/1 56x56 g1`: datatype, batch, channels, taps, stride, input size and groups."""
        taps, size = self.kernel[idx], self.in_size[idx]
        shape = f"{self.in_channels[idx]}->{self.out_channels[idx]} {taps}x{taps}/{self.stride[idx]} {size}x{size}"
        return f"{self.datatype} b{self.batch[idx]} {shape} g{self.groups[idx]}"

    @property
    def out_size(self) -> Ints:
        """Rows and columns of the output `[n]`."""
        return (self.in_size + 2 * (self.kernel // 2) - self.kernel) // self.stride + 1

    def times(self, chip: Chip) -> KernelTimes:
        """What each convolution costs.

        Raises:
            ModelError: Unknown datatype, or groups that do not divide the channels.
        """
        self._check()
        kind = np.where(self._is_depthwise, 2, np.where(self._is_thin, 1, 0))
        total = np.zeros((3, len(self)))
        regime = np.zeros(len(self), dtype=np.int64)
        moved, choices = np.zeros(len(self)), [""] * len(self)
        for which in (0, 1, 2):
            rows = np.flatnonzero(kind == which)
            if not len(rows):
                continue
            times = self._depthwise(rows, chip) if which == 2 else self._dense(rows, chip, is_thin=which == 1)
            total[which, rows], regime[rows], moved[rows] = times.time_s, times.regime, times.main_memory_bytes
            for place, choice in zip(rows, times.choices or [""] * len(rows), strict=True):
                choices[place] = choice
        slower = 1 / chip.constants["gather_efficiency"] - 1
        work = np.maximum(total[0] + total[1] - chip.arch.launch.floor_s, 0.0)
        trips = GATHER_TRIPS * CACHE_LATENCY_CYCLES / chip.arch.max_clock_hz
        # One tap at every pixel needs no gathering: its patches are the rows of the input.
        gathers = (kind != 2) & ((self.kernel > 1) | (self.stride > 1))
        gather = np.where(gathers, slower * work, 0.0) + np.where(kind != 2, trips, 0.0)
        times = KernelTimes(
            serial_s={
                "implicit GEMM": total[0],
                "on vector units": total[1],
                "depthwise": total[2],
                "gathering": gather,
            },
            regime=regime,
            ops=self._ops,
            main_memory_bytes=moved,
            choices=tuple(choices),
            notes=self._notes(chip),
        )
        return with_energy(times, chip, self.datatype)

    @property
    def _is_depthwise(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return (self.groups > 1) & (self.groups == self.in_channels)

    @property
    def _is_thin(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return self.in_channels // self.groups * DATATYPE_BITS[self.datatype] < 8 * VECTOR_BYTES

    @property
    def _ops(self) -> Floats:
        taps = self.kernel**2 * (self.in_channels // self.groups)
        return (2.0 * self.batch * self.out_size**2 * self.out_channels * taps).astype(np.float64)

    def _notes(self, chip: Chip) -> tuple[str, ...]:
        if not (self._is_thin & ~self._is_depthwise).any():
            return ()
        return (
            f"{chip.arch.name}: convolutions of fewer than {VECTOR_BYTES} bytes of channels run on the vector units",
        )

    def _check(self) -> None:
        if self.datatype not in DATATYPE_BITS:
            raise ModelError(f"unknown datatype '{self.datatype}'{nearest_hint(self.datatype, DATATYPE_BITS)}")
        wrong = (self.in_channels % self.groups != 0) | (self.out_channels % self.groups != 0)
        if wrong.any():
            idx = int(np.flatnonzero(wrong)[0])
            raise ModelError(f"{self.label(idx)}: {self.groups[idx]} groups do not divide the channels")

    def _input_bytes(self, rows: Ints) -> Floats:
        """Bytes of the input that are read: with a stride above the taps, only the pixels that are used."""
        touched = np.minimum(1.0, self.kernel[rows] / self.stride[rows]) ** 2
        pixels = self.batch[rows] * self.in_size[rows] ** 2 * self.in_channels[rows]
        return (pixels * touched * DATATYPE_BITS[self.datatype] / 8).astype(np.float64)

    def _dense(self, rows: Ints, chip: Chip, is_thin: bool) -> KernelTimes:
        vector = 8 * VECTOR_BYTES // DATATYPE_BITS[self.datatype]
        channels = self.in_channels[rows] // self.groups[rows]
        padded = channels if is_thin else -(-channels // vector) * vector
        return Gemms(
            m=self.batch[rows] * self.out_size[rows] ** 2,
            n=self.out_channels[rows] // self.groups[rows],
            k=padded * self.kernel[rows] ** 2,
            batch=self.groups[rows],
            datatype="fp32" if is_thin else self.datatype,
            output_bits=DATATYPE_BITS[self.datatype],
            weights_in_cache=np.zeros(len(rows), dtype=np.bool_),
            inputs_in_cache=np.full(len(rows), self.inputs_in_cache),
            input_bytes=self._input_bytes(rows),
        ).times(chip)

    def _depthwise(self, rows: Ints, chip: Chip) -> KernelTimes:
        outputs = (1.0 * self.batch * self.out_size**2 * self.out_channels)[rows]
        read = np.where(self.inputs_in_cache, 0.0, self._input_bytes(rows))
        written = outputs * DATATYPE_BITS[self.datatype] / 8
        stream = stream_time_s(chip, read, written)
        issued = outputs * (OUTPUT_INSTRUCTIONS + TAP_INSTRUCTIONS * self.kernel[rows] ** 2)
        issue = issued / (LANES * chip.arch.num_sms * chip.arch.max_clock_hz)
        return KernelTimes(
            serial_s={
                "launch": np.full(len(rows), chip.arch.launch.floor_s),
                "work": np.sqrt(stream**2 + issue**2),
            },
            regime=np.where(issue > stream, 0, 1),
            ops=self._ops[rows],
            main_memory_bytes=read + written,
        )
