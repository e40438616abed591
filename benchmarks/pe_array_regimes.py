"""Cycles of the tensor PE array on a 256 x 256 x 256 matrix product, where the array and where main memory is the limit.

Prints utilization, the share of the bus's bandwidth that compulsory bytes take, and the RTL's speed of simulation.
Run with `--rtl` to simulate the RTL too (the other numbers are the event replay's, which equals it).
"""

from __future__ import annotations

import argparse
import resource

import numpy as np

from tileloom.archdsl import SpatialArch, load_arch, pe_array
from tileloom.compiler import ConvKernel, ProgramBuilder, gemm_shape, layout_of
from tileloom.models import replay
from tileloom.rtl import Job, build, run_programs

SHAPE = gemm_shape(256, 256, 256)
REGIMES = (("fast memory", 20, 1), ("slow memory", 100, 8))


def children_s() -> float:
    """CPU time of ended child processes [s]."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rtl", action="store_true", help="simulate the RTL too")
    with_rtl = parser.parse_args().rtl
    print(
        "array   memory        latency  cycles/beat    cycles  utilization  of the bus  RTL cycles  thousand cycles/s"
    )
    for preset in ("tpe_8x8", "tpe_16x16", "tpe_32x32"):
        arch = load_arch(preset)
        assert isinstance(arch, SpatialArch)
        array = pe_array(arch)
        layout = layout_of(array, SHAPE)
        builder = ProgramBuilder(array)
        ConvKernel(builder, SHAPE, layout).emit()
        program = builder.finish()
        memory = np.zeros(-(-layout.end // array.bus_bytes) * array.bus_bytes, dtype=np.uint8)
        for name, latency, beat in REGIMES:
            found = replay(array, program, latency_cycles=latency, cycles_per_beat=beat)
            utilization = SHAPE.macs / (array.rows * array.cols * found.cycles)
            bus = 3 * 256 * 256 / array.bus_bytes * beat / found.cycles
            row = f"{array.rows}x{array.cols:<5} {name:<13} {latency:7} {beat:12} {found.cycles:9,} {utilization:12.1%} {bus:11.1%}"
            if with_rtl:
                build(array)
                before_s = children_s()
                job = Job(program=program, memory=memory, latency_cycles=latency, cycles_per_beat=beat)
                (result,) = run_programs(array, [job])
                row += f" {result.cycles:11,} {result.cycles / 1e3 / (children_s() - before_s):18.0f}"
            print(row)


if __name__ == "__main__":
    main()
