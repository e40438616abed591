"""Convolutions on NHWC tensors: implicit GEMM on tensor cores; odd channels and depthwise on the vector units.

A dense convolution is the product of a matrix of patches [B x OY x OX, FY x FX x C] and the weights [K, FY x FX x C]; the
patches are gathered while they are loaded, so main memory moves the input once and not once per tap (`implicit_gemm`). With
one tap at every pixel the patches are the rows of the input; otherwise threads compute addresses beside the products
(`gather_efficiency`).

Tensor-core kernels load 16 bytes of channels at once. Other counts of channels are padded to a multiple by kernels before; odd
ones in bf16, and depthwise convolutions, which have nothing to multiply matrices of, have kernels of their own
(`vector_convolution`).

Limits: no dilation; no Winograd or FFT kernels, which cuDNN has for fp32 only where channels last; fused bias and activation
are free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ...archdsl import DATATYPE_BITS, ModelError, nearest_hint
from .cache import hit_share
from .chip import Chip
from .energy import with_energy
from .implicit_gemm import ImplicitGemms
from .memory_bound import Flags, stream_time_s
from .times import Floats, Ints, KernelTimes
from .vector_convolution import depthwise_times, vector_times

VECTOR_BYTES: Final = 16
"""Bytes of channels that a load takes. Source: NVIDIA, Convolutional Layers User's Guide: channels in multiples of 8 (fp16)."""

PADDING_KERNELS: Final = 2
"""Kernels before one with padded channels: they copy input and weights (traces of cuDNN show `nhwcAddPaddingKernel` twice)."""

PACKED_CHANNELS: Final = 64
"""Channels of the groups that a tile takes together, at most `MOST_PACKED`: 2 of 32 channels to 8 of 8.

Source: names of cuDNN 9's kernels, `xmma_fprop_implicit_gemm_bf16bf16_..._tilesize64x64x64_..._g2` to `_g16`. Products of one group's
pixels and another's weights are counted, as tiles wait for their operands anyway (assumption)."""
MOST_PACKED: Final = 16


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
        depthwise, vector = self._is_depthwise, self._is_on_vector_units
        kinds = ((~(depthwise | vector), self._dense), (depthwise, self._depthwise), (vector, self._vector))
        parts = [
            (rows, price(rows, chip))
            for rows, price in ((np.flatnonzero(kind), price) for kind, price in kinds)
            if len(rows)
        ]
        return with_energy(_together(parts, self._ops, self._notes(chip)), chip, self.datatype)

    @property
    def _is_depthwise(self) -> Flags:
        return (self.groups > 1) & (self.groups == self.in_channels)

    @property
    def _is_on_vector_units(self) -> Flags:
        """Tensor-core kernels load pairs of bf16 channels at least, and only fp16 has ones for first layers."""
        return (self.in_channels // self.groups % 2 != 0) & ~self._is_depthwise & (self.datatype == "bf16")

    @property
    def _padded_channels(self) -> Ints:
        """Channels of a group as tensor-core kernels load them `[n]`."""
        channels = self.in_channels // self.groups
        vector = 8 * VECTOR_BYTES // DATATYPE_BITS[self.datatype]
        # What is loaded at once may belong to several groups, down to those that fill a tile together.
        vector = np.where(self.groups > 1, min(vector, PACKED_CHANNELS // MOST_PACKED), vector)
        return -(-channels // vector) * vector

    @property
    def _packed_groups(self) -> Ints:
        """Groups that a tile takes together `[n]`."""
        width = np.maximum(self._padded_channels, self.out_channels // self.groups)
        packed = 2 ** np.floor(np.log2(np.clip(PACKED_CHANNELS / width, 1, MOST_PACKED))).astype(np.int64)
        return np.minimum(packed, self.groups)

    @property
    def _is_padded(self) -> Flags:
        is_dense = ~(self._is_depthwise | self._is_on_vector_units)
        return (self._padded_channels * self.groups > self.in_channels) & is_dense

    @property
    def _ops(self) -> Floats:
        taps = self.kernel**2 * (self.in_channels // self.groups)
        return (2.0 * self.batch * self.out_size**2 * self.out_channels * taps).astype(np.float64)

    def _notes(self, chip: Chip) -> tuple[str, ...]:
        notes: list[str] = []
        if self._is_padded.any():
            notes.append(f"channels are padded to a multiple of {VECTOR_BYTES} bytes, by kernels before")
        if self._is_on_vector_units.any():
            notes.append("odd channels in bf16 are multiplied on the vector units, as no tensor-core kernel takes them")
        return tuple(f"{chip.arch.name}: {note}" for note in notes)

    def _check(self) -> None:
        if self.datatype not in DATATYPE_BITS:
            raise ModelError(f"unknown datatype '{self.datatype}'{nearest_hint(self.datatype, DATATYPE_BITS)}")
        wrong = (self.in_channels % self.groups != 0) | (self.out_channels % self.groups != 0)
        if wrong.any():
            idx = int(np.flatnonzero(wrong)[0])
            raise ModelError(f"{self.label(idx)}: {self.groups[idx]} groups do not divide the channels")

    def _input_bytes(self, channels: Ints) -> Floats:
        """Bytes of an input of some channels that are read: with a stride above the taps, only the pixels that are used."""
        touched = np.minimum(1.0, self.kernel / self.stride) ** 2
        pixels = self.batch * self.in_size**2 * channels
        return (pixels * touched * DATATYPE_BITS[self.datatype] / 8).astype(np.float64)

    @property
    def _output_bytes(self) -> Floats:
        return (1.0 * self.batch * self.out_size**2 * self.out_channels * DATATYPE_BITS[self.datatype] / 8).astype(
            np.float64
        )

    def _dense(self, rows: Ints, chip: Chip) -> KernelTimes:
        channels, is_padded = self._padded_channels, self._is_padded
        read, written = self._input_bytes(channels * self.groups), self._output_bytes
        weights = self.out_channels * channels * self.kernel**2 * DATATYPE_BITS[self.datatype] / 8
        # What was just written, or padded, is in the cache as far as it fits beside what is written now.
        hits = np.where(is_padded | self.inputs_in_cache, hit_share(read + written, chip.arch.l2), 0.0)
        kept = hits if self.inputs_in_cache else np.zeros(len(self))
        packed = self._packed_groups
        product = ImplicitGemms(
            m=(self.batch * self.out_size**2)[rows],
            n=(self.out_channels // self.groups * packed)[rows],
            k=(channels * packed * self.kernel**2)[rows],
            groups=(-(-self.groups // packed))[rows],
            has_taps=(self.kernel > 1)[rows],
            gathers=((self.kernel > 1) | (self.stride > 1))[rows],
            datatype=self.datatype,
            read_bytes=(read * (1 - hits) + weights)[rows],
            written_bytes=(written * (1 - kept))[rows],
        ).times(chip)
        padding, copied = self._padding(chip)
        return replace(
            product,
            serial_s={**product.serial_s, "padding channels": np.where(is_padded, padding, 0.0)[rows]},
            main_memory_bytes=product.main_memory_bytes + np.where(is_padded, copied, 0.0)[rows],
        )

    def _padding(self, chip: Chip) -> tuple[Floats, Floats]:
        """Time of the kernels that pad channels `[n]` [s], and their bytes of main memory."""
        pixels = 1.0 * self.batch * self.in_size**2 * DATATYPE_BITS[self.datatype] / 8
        read = (pixels * self.in_channels).astype(np.float64)
        written = (pixels * self._padded_channels * self.groups).astype(np.float64)
        if self.inputs_in_cache:
            read = read * (1 - hit_share(read + written, chip.arch.l2))
        each = chip.arch.launch.floor_s + chip.constants["tile_overhead_s"]
        return PADDING_KERNELS * each + stream_time_s(chip, read, written), read + written

    def _vector(self, rows: Ints, chip: Chip) -> KernelTimes:
        """Products that no tensor-core kernel takes."""
        channels = self.in_channels // self.groups
        read, written = self._input_bytes(self.in_channels)[rows], self._output_bytes[rows]
        weights = (self.out_channels * channels * self.kernel**2 * DATATYPE_BITS[self.datatype] / 8)[rows]
        return vector_times(
            chip=chip,
            m=(self.batch * self.out_size**2)[rows],
            n=(self.out_channels // self.groups)[rows],
            k=(channels * self.kernel**2)[rows],
            groups=self.groups[rows],
            read_bytes=self._cold(read, written, chip) + weights,
            written_bytes=written,
        )

    def _depthwise(self, rows: Ints, chip: Chip) -> KernelTimes:
        read, written = self._input_bytes(self.in_channels)[rows], self._output_bytes[rows]
        return depthwise_times(
            chip=chip,
            batch=self.batch[rows],
            channels=self.out_channels[rows],
            out_size=self.out_size[rows],
            taps=self.kernel[rows],
            input_bytes=read,
            read_bytes=self._cold(read, written, chip),
            written_bytes=written,
        )

    def _cold(self, read: Floats, written: Floats, chip: Chip) -> Floats:
        """Bytes of the input that come from main memory."""
        return read * (1 - hit_share(read + written, chip.arch.l2)) if self.inputs_in_cache else read


def _together(parts: Sequence[tuple[Ints, KernelTimes]], ops: Floats, notes: tuple[str, ...]) -> KernelTimes:
    """Batches of some rows each, as one batch of all rows; a part that a row lacks lasts no time."""
    count = len(ops)
    serial: dict[str, Floats] = {}
    overlapped: dict[str, dict[str, Floats]] = {}
    regime, moved, choices = np.zeros(count, dtype=np.int64), np.zeros(count), [""] * count
    for rows, times in parts:
        for name, column in times.serial_s.items():
            serial.setdefault(name, np.zeros(count))[rows] = column
        for part, inside in times.overlapped_s.items():
            for name, column in inside.items():
                overlapped.setdefault(part, {}).setdefault(name, np.zeros(count))[rows] = column
        regime[rows], moved[rows] = times.regime, times.main_memory_bytes
        for row, choice in zip(rows.tolist(), times.choices, strict=False):
            choices[row] = choice
    return KernelTimes(
        serial_s=serial,
        overlapped_s=overlapped,
        regime=regime,
        ops=ops,
        main_memory_bytes=moved,
        choices=tuple(choices),
        notes=tuple(dict.fromkeys((*notes, *(note for _, times in parts for note in times.notes)))),
    )
