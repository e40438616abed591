"""How close compiled networks come to what their layers need at least, layer by layer, and what keeping results on
chip (fusion), cutting layers together (depth first) and loading ahead (prefetch) save.

The bound of a layer is the larger of its cycles on all PEs and of its inputs, weights and outputs on the bus, each once.
Cycles of a layer are those from the end of the one before to its own end, by the compiler's recurrence; those of the network
are replayed, or with `--rtl` run on the RTL, which takes the same. Networks are `.onnx` files, or names of generators.

    python benchmarks/network_quality.py [resnet8 dscnn mobilenet autoencoder | FILE.onnx ...] [--arch tpe_8x8 ...] [--rtl]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from networks import GENERATORS, SMALL

from tileloom.archdsl import ProgramImage, SpatialArch, load_arch
from tileloom.compiler.compilation import CompileOptions, compile_network
from tileloom.models import replay
from tileloom.rtl import Job, run_programs

if TYPE_CHECKING:
    from onnx import ModelProto

WAYS: Mapping[str, CompileOptions] = {
    "all": CompileOptions(),
    "no depth first": CompileOptions(is_depth_first=False),
    "no prefetch": CompileOptions(loads_ahead=0),
    "no fusion": CompileOptions(keeps_on_chip=False),
    "none of them": CompileOptions(keeps_on_chip=False, is_depth_first=False, loads_ahead=0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A compiled network.

    Attributes:
        images: Its programs.
        compile_s: What compiling them took.
    """

    images: tuple[ProgramImage, ...]
    compile_s: float


def compiled(source: Path | ModelProto, arch: SpatialArch, options: CompileOptions) -> Built:
    """Compiles a network."""
    begin = time.perf_counter()
    network = compile_network(source, arch, options).network
    assert network is not None
    return Built(images=tuple(network.images.values()), compile_s=time.perf_counter() - begin)


def cycles_of(image: ProgramImage, *, with_rtl: bool) -> int:
    """Cycles of a program on the main memory of its architecture."""
    array = image.array
    if not with_rtl:
        return replay(array, image.program).cycles
    job = Job(
        program=image.program, memory=image.memory(), latency_cycles=array.latency_cycles,
        cycles_per_beat=array.cycles_per_beat, max_cycles=1_000_000_000,
    )  # fmt: skip
    return run_programs(array, [job])[0].cycles


def print_layers(images: tuple[ProgramImage, ...]) -> float:
    """The table of layers; returns the sum of their bounds."""
    print(f"  {'layer':<34}{'kind':<18}{'dims':<42}{'bound':>11}{'cycles':>11}{'ratio':>7}")
    total = 0.0
    for op in (op for image in images for op in image.manifest.ops):
        bound, cycles = op.bound_cycles or 0.0, op.predicted_cycles or 0.0
        dims = " ".join(f"{name}={size}" for name, size in op.dims.items())
        ratio = f"{cycles / bound:.2f}" if bound else "-"
        print(f"  {op.name[:33]:<34}{op.kind:<18}{dims:<42}{bound:>11,.0f}{cycles:>11,.0f}{ratio:>7}")
        total += bound
    return total


def main() -> int:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=SMALL, help=f"files, or of {', '.join(GENERATORS)}")
    parser.add_argument("--arch", nargs="+", default=("tpe_8x8", "tpe_16x16"), help="presets or files")
    parser.add_argument("--rtl", action="store_true", help="run the RTL instead of the event replay")
    options = parser.parse_args()
    for network in options.networks:
        source = GENERATORS[network](0) if network in GENERATORS else Path(network)
        for name in options.arch:
            arch = load_arch(name)
            assert isinstance(arch, SpatialArch)
            built = {way: compiled(source, arch, chosen) for way, chosen in WAYS.items()}
            best = built["all"]
            print(f"{network} on {name}: compiled in {best.compile_s:.1f} s")
            bound = print_layers(best.images)
            for way, one in built.items():
                cycles = sum(cycles_of(image, with_rtl=options.rtl) for image in one.images)
                predicted = sum(op.predicted_cycles or 0 for image in one.images for op in image.manifest.ops)
                print(
                    f"  {way:<34}{'':<60}{bound:>11,.0f}{cycles:>11,}{cycles / bound:>7.2f}"
                    f"  recurrence {predicted / cycles - 1:+.2%}",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
