"""The analytical model of sweeps against compiled programs: cycles of layers as the mapper estimates them, and as they are.

Two independent answers to the same question from one architecture file: the mapper's best mapping under the detailed
latency, each layer by itself, and the event replay of the compiled program, which takes the cycles of the RTL. The model
knows no layer fusion, so that programs are compiled without it, too. Layers of one shape count once.

    python benchmarks/model_against_programs.py [resnet8 dscnn mobilenet autoencoder resnet50] [--arch tpe_8x8 ...] [--layers]
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from networks import GENERATORS, SMALL

from tileloom.archdsl import Op, SpatialArch, load_arch
from tileloom.compiler import Constraints, Mapper, MappingResult, load_workload
from tileloom.compiler.compilation import CompileOptions, compile_network
from tileloom.sweeps.image_runs import RunOptions
from tileloom.sweeps.layers import network_layers
from tileloom.sweeps.network_runs import replay_programs

if TYPE_CHECKING:
    from onnx import ModelProto

MAX_CYCLES = 10_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer: its op, and cycles as modelled and as replayed, with fusion and without."""

    op: Op
    model: float
    alone: float
    fused: float


def layers_of(model: ModelProto, arch: SpatialArch) -> list[Layer]:
    """The layers with multiply-accumulates of a network, one of each shape."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        path.write_bytes(model.SerializeToString())
        workload = load_workload(str(path))
    cycles: list[dict[str, float]] = []
    # Layers are compared one by one, so that none are cut together.
    for options in (CompileOptions(keeps_on_chip=False, is_depth_first=False), CompileOptions(is_depth_first=False)):
        network = compile_network(model, arch, options).network
        assert network is not None
        replays = replay_programs(network.images, RunOptions(max_cycles=MAX_CYCLES))
        cycles.append({layer.op.name: layer.cycles for layer in network_layers(network.images, replays)})
    found: dict[object, Layer] = {}
    for op in workload.ops:
        if not isinstance(op, Op) or op.name not in cycles[0] or (op.dims, op.tensors) in found:
            continue
        # Vectors of inputs are neighbours in memory: columns and channels of a window, not its rows.
        rows = ("FX", "C") if "FX" in op.sizes else ("K",)
        constraints = Constraints(spatial=(("pe_array.rows", rows),))
        result = Mapper("latency", fidelity="detailed", constraints=constraints).map_op(op, arch)
        assert isinstance(result, MappingResult)
        alone, fused = (each[op.name] for each in cycles)
        found[op.dims, op.tensors] = Layer(op=op, model=result.estimate.latency_cycles, alone=alone, fused=fused)
    return list(found.values())


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=SMALL, help=f"of {', '.join(GENERATORS)}")
    parser.add_argument("--arch", nargs="+", default=("tpe_8x8", "tpe_16x16"), help="presets or files")
    parser.add_argument("--layers", action="store_true", help="print every layer")
    options = parser.parse_args()
    print(
        f"{'network':<14}{'arch':<12}{'layers':>7}{'model':>12}{'program':>12}{'model/program':>15}{'median':>9}{'fused':>12}"
    )
    for name in options.networks:
        for arch_name in options.arch:
            arch = load_arch(arch_name)
            assert isinstance(arch, SpatialArch)
            layers = layers_of(GENERATORS[name](0), arch)
            if options.layers:
                for layer in layers:
                    dims = " ".join(f"{dim}={size}" for dim, size in layer.op.dims if size > 1)
                    print(
                        f"  {layer.op.name:<12}{dims:<45}{layer.model:>10,.0f}{layer.alone:>12,.0f}{layer.model / layer.alone:>9.3f}"
                    )
            total, alone, fused = (
                sum(values) for values in zip(*((x.model, x.alone, x.fused) for x in layers), strict=True)
            )
            middle = median(abs(layer.model / layer.alone - 1) for layer in layers)
            print(
                f"{name:<14}{arch_name:<12}{len(layers):>7}{total:>12,.0f}{alone:>12,.0f}{total / alone:>15.3f}{middle:>9.1%}{fused:>12,.0f}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
