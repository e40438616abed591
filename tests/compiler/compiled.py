"""Compiled networks for tests: made once per process, run by what there is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided
from onnx import ModelProto
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue

from tileloom.archdsl import PeArray, ProgramImage, SpatialArch, load_arch, pe_array, place_array
from tileloom.compiler.codegen.compiled import CompiledNetwork
from tileloom.compiler.compilation import CompileOptions, compile_network, passes_of
from tileloom.compiler.frontend.network import read_network
from tileloom.compiler.generators import (
    quantised_autoencoder,
    quantised_dscnn,
    quantised_mobilenet,
    quantised_resnet8,
)
from tileloom.compiler.interpreters.modules import interpret
from tileloom.compiler.ir import qnn
from tileloom.compiler.ir.attributes import dtype_of, shape_of
from tileloom.compiler.ir.data import InputOp
from tileloom.compiler.ir.store import DataStore
from tileloom.compiler.ir.text import nodes_of
from tileloom.compiler.passes.base import PassContext
from tileloom.compiler.passes.manager import PassManager
from tileloom.compiler.tiling.activations import stored_format
from tileloom.compiler.tiling.movement import strides_of
from tileloom.models import FunctionalSimulator

from .arrays import arch_named

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]
GENERATORS: Mapping[str, Callable[[int], ModelProto]] = {
    "resnet8": quantised_resnet8, "dscnn": quantised_dscnn, "mobilenet": partial(quantised_mobilenet, size=32),
    "autoencoder": quantised_autoencoder,
}  # fmt: skip
FULL_SIZE: Mapping[str, Callable[[int], ModelProto]] = {**GENERATORS, "mobilenet": quantised_mobilenet}
"""With MobileNet for images of 96 x 96, where cycles are counted."""
COMPUTING = ("qnn.conv2d", "qnn.depthwise_conv2d", "qnn.matmul", "qnn.add", "qnn.pool2d")
PRESETS = ("tpe_8x8", "tpe_16x16")
TINY = ("resnet8_int8", "dscnn_kws_int8", "mobilenet_v1_025_vww_int8", "autoencoder_ad_int8")


SMALL: Mapping[str, object] = {
    "parameters.rows": 4, "parameters.cols": 4, "parameters.bus_bytes": 4, "parameters.scratchpad": "8 KiB",
    "parameters.accumulator_vectors": 64,
}  # fmt: skip
"""What makes `tpe_8x8` a small array."""
ARCHITECTURES: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "8x8": ("tpe_8x8", {}), "16x16": ("tpe_16x16", {}), "4x4": ("tpe_8x8", SMALL)
}  # fmt: skip


@cache
def arch_of(name: str) -> SpatialArch:
    """One of the architectures above."""
    preset, overrides = ARCHITECTURES[name]
    arch = load_arch(preset, overrides)
    assert isinstance(arch, SpatialArch)
    return arch


@cache
def generated(name: str, *, is_full: bool = False) -> ModelProto:
    """A generated network."""
    return (FULL_SIZE if is_full else GENERATORS)[name](0)


@cache
def compiled(name: str, arch: str, options: CompileOptions | None = None, *, is_full: bool = False) -> CompiledNetwork:
    """A generated network for a preset."""
    return compiled_for(generated(name, is_full=is_full), arch_named(arch), options)


@cache
def compiled_file(path: Path, arch: str) -> CompiledNetwork:
    """A network of a file for a preset."""
    return compiled_for(path, arch_named(arch))


def compiled_for(
    source: ModelProto | Path, arch: SpatialArch, options: CompileOptions | None = None
) -> CompiledNetwork:
    """A network for an architecture."""
    network = compile_network(source, arch, options).network
    assert network is not None
    return network


def lowered(
    source: ModelProto | Path, arch: SpatialArch, options: CompileOptions | None = None
) -> tuple[ModuleOp, ModuleOp, DataStore]:
    """The module of a network before and after it is cut into tiles."""
    module, store = read_network(source)
    module.attributes[qnn.ROUNDING] = StringAttr(pe_array(arch).rounding)
    passes, ctx = passes_of(options), PassContext(store=store, arch=arch)
    before = PassManager(passes=passes[:-2]).run(module, ctx).module
    return before, PassManager(passes=passes[-2:-1]).run(before, ctx).module, store


def drawn_inputs(module: ModuleOp, seed: int) -> dict[str, Array]:
    """Inputs of a module, drawn evenly from all integers of their types."""
    rng = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for op in module.body.block.ops:
        if isinstance(op, InputOp):
            dtype = dtype_of(op.result)
            limits = np.iinfo(dtype)
            found[op.input_name.data] = rng.integers(limits.min, limits.max + 1, shape_of(op.result)).astype(dtype)
    return found


def run_functional(network: CompiledNetwork, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Outputs by the functional simulator."""
    return network.run(inputs, lambda _, image, memory: FunctionalSimulator(image.array).run(image.program, memory))


def filled_memory(image: ProgramImage, seed: int) -> Bytes:
    """Main memory before a program, with inputs drawn at random."""
    rng, memory = np.random.default_rng(seed), image.memory()
    for symbol in image.symbols("input"):
        place_array(memory, symbol, rng.integers(-128, 128, symbol.shape))
    return memory


def only_image(network: CompiledNetwork) -> ProgramImage:
    """The image of a network's one program."""
    (image,) = network.images.values()
    return image


def predicted_cycles(image: ProgramImage) -> float:
    """What the recurrence over steps says."""
    return sum(op.predicted_cycles or 0 for op in image.manifest.ops)


def bound_cycles(image: ProgramImage) -> float:
    """What no program can be much faster than."""
    return sum(op.bound_cycles or 0 for op in image.manifest.ops)


def values_of(module: ModuleOp, store: DataStore, given: npt.ArrayLike) -> dict[SSAValue, Array]:
    """All values of a network with one input, by the integer interpreter."""
    (source,) = (op for op in module.body.block.ops if isinstance(op, InputOp))
    values: dict[SSAValue, Array] = {}
    array = np.asarray(given).astype(dtype_of(source.result))
    interpret(module, store, {source.input_name.data: array}, values=values)
    return values


def stored_layers(network: CompiledNetwork, module: ModuleOp, memory: Bytes) -> dict[Operation, Array]:
    """What layers have stored in main memory, by op of the module before it was cut into tiles.

    Args:
        network: Compiled with `keeps_layers`.
        module: Its `qnn` ops.
        memory: Main memory after its one program.
    """
    image = only_image(network)
    regions = {region.name: region for region in image.manifest.memory.regions}
    found: dict[Operation, Array] = {}
    for op in module.body.block.ops:
        if op.name not in COMPUTING:
            continue
        shape = shape_of(op.results[0])
        strides = strides_of(stored_format(image.array, shape), shape)
        begin = regions[nodes_of(op)[-1]].address
        found[op] = as_strided(memory[begin:].view(np.int8), shape, strides, writeable=False)
    return found


def describe(array: PeArray) -> str:
    """The sizes of an array that matter to programs, for messages of tests."""
    port = ", one port" if array.is_single_port else ""
    return (
        f"{array.rows}x{array.cols}, bus {array.bus_bytes} B / {array.cycles_per_beat} cycles, scratchpad "
        f"{array.scratchpad_bytes} B in {array.scratchpad_banks}{port}, {array.accumulator_vectors} vectors in "
        f"{array.accumulator_banks}, slots {array.parameter_slots}, latency {array.latency_cycles}"
    )
