"""What the closed-form timing model needs of a kernel: its tiles, taps and beats as plain numbers."""

from __future__ import annotations

from ...archdsl import PeArray, ceil_div
from ...models import KernelTiming
from .builder import ProgramBuilder
from .convolution import ConvKernel, ConvLayout, ConvShape


def kernel_timing(array: PeArray, shape: ConvShape, layout: ConvLayout) -> KernelTiming:
    """The numbers on which a kernel's cycles depend; nothing is emitted.

    Args:
        array: The PE array.
        shape: The convolution or matrix product.
        layout: Its data in main memory.

    Raises:
        CompileError: The kernel does not fit the array's memories.
    """
    kernel = ConvKernel(ProgramBuilder(array), shape, layout)
    bus_bytes, cols = array.bus_bytes, array.cols
    needed = [kernel.input_beats(tap_idx) for tap_idx in range(len(kernel.taps))]
    widths = (min(cols, shape.outputs - output * cols) for output in range(kernel.num_output_tiles))
    return KernelTiming(
        tile_vectors=tuple(tile.num_x * tile.num_y for tile in kernel.tiles),
        tile_rows=tuple(tile.num_rows for tile in kernel.tiles),
        weight_beats=tuple(num_bytes // bus_bytes for num_bytes in layout.tap_bytes),
        input_beats=tuple(last - first for first, last in needed),
        output_beats=tuple(ceil_div(width, bus_bytes) for width in widths),
        parameter_beats=array.slot_beats,
        ahead=kernel.ahead,
    )
