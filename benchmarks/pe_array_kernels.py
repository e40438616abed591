"""How close kernels come to the roofline on the tensor PE arrays: utilization, and cycles against the larger of what the array and the bus need.

The roofline is max(MACs / PEs, compulsory bytes / bus): every input, weight and output crosses the bus once. Cycles are
those of the closed form; with `--replay` those of the event replay, which must be the same.

    python benchmarks/pe_array_kernels.py [--replay] [--latency 100] [--cycles-per-beat 1]
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

from tileloom.archdsl import PeArray, SpatialArch, load_arch, pe_array
from tileloom.compiler import ConvKernel, ConvShape, ProgramBuilder, gemm_shape, kernel_timing, layout_of
from tileloom.models import replay, time_kernel


def conv(size: int, channels: int, outputs: int, kernel: int = 1, stride: int = 1) -> ConvShape:
    """A convolution over a square image, padded by half the window."""
    output = (size - 1) // stride + 1
    return ConvShape(
        height=size, width=size, channels=channels, outputs=outputs, kernel_height=kernel, kernel_width=kernel, stride=stride,
        pad_top=kernel // 2, pad_left=kernel // 2, output_height=output, output_width=output,
    )  # fmt: skip


SHAPES = {
    "gemm 4096x512x64": gemm_shape(4096, 512, 64),
    "gemm 1024x1024x1024": gemm_shape(1024, 1024, 1024),
    "gemm 256x256x256": gemm_shape(256, 256, 256),
    "gemm 64x256x64": gemm_shape(64, 256, 64),
    "gemm 64x40000x64": gemm_shape(64, 40_000, 64),
    "gemm 1x1024x1000": gemm_shape(1, 1024, 1000),
    "7x7/2 224x224x3-64": conv(224, 3, 64, kernel=7, stride=2),
    "3x3 56x56x64-64": conv(56, 64, 64, kernel=3),
    "3x3 14x14x256-256": conv(14, 256, 256, kernel=3),
    "3x3/2 28x28x256-256": conv(28, 256, 256, kernel=3, stride=2),
    "3x3 7x7x512-512": conv(7, 512, 512, kernel=3),
    "1x1 56x56x64-256": conv(56, 64, 256),
    "1x1/2 56x56x256-512": conv(56, 256, 512, stride=2),
    "1x1 14x14x1024-256": conv(14, 1024, 256),
    "1x1 7x7x2048-512": conv(7, 2048, 512),
}


def bound_cycles(array: PeArray, shape: ConvShape) -> float:
    """The roofline: cycles of MACs on all PEs, or of compulsory bytes on the bus."""
    inputs = shape.height * shape.width * shape.channels
    weights = shape.kernel_height * shape.kernel_width * shape.channels * shape.outputs
    outputs = shape.output_height * shape.output_width * shape.outputs
    bus_cycles = (inputs + weights + outputs) / array.bus_bytes * array.cycles_per_beat
    return max(shape.macs / (array.rows * array.cols), bus_cycles)


def main() -> int:
    """Prints the table; returns 1 when a replay takes other cycles than the closed form."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replay", action="store_true", help="replay every program too: minutes")
    parser.add_argument("--latency", type=int, help="main memory's latency [cycles]; the array's unless given")
    parser.add_argument("--cycles-per-beat", type=int, help="main memory's cycles per beat; the array's unless given")
    options = parser.parse_args()
    print(f"{'kernel':<22}{'array':>9}{'cycles':>13}{'utilization':>13}{'of roofline':>13}{'plan':>10}")
    is_equal = True
    for preset in ("tpe_8x8", "tpe_16x16"):
        arch = load_arch(preset)
        assert isinstance(arch, SpatialArch)
        array = pe_array(arch)
        array = replace(
            array,
            latency_cycles=array.latency_cycles if options.latency is None else options.latency,
            cycles_per_beat=options.cycles_per_beat or array.cycles_per_beat,
        )
        for name, shape in SHAPES.items():
            layout = layout_of(array, shape)
            begin = time.perf_counter()
            kernel = kernel_timing(array, shape, layout)
            plan_s = time.perf_counter() - begin
            cycles = time_kernel(kernel, array).amount
            row = (
                f"{name:<22}{preset:>9}{cycles:>13,.0f}{shape.macs / (array.rows * array.cols * cycles):>13.1%}"
                f"{bound_cycles(array, shape) / cycles:>13.1%}{plan_s * 1e3:>7.1f} ms"
            )
            if options.replay:
                builder = ProgramBuilder(array)
                ConvKernel(builder, shape, layout).emit()
                replayed = replay(array, builder.finish()).cycles
                is_equal = is_equal and replayed == cycles
                row += "  equal to replay" if replayed == cycles else f"  replay: {replayed:,}"
            print(row, flush=True)
    return 0 if is_equal else 1


if __name__ == "__main__":
    raise SystemExit(main())
