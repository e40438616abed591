"""Modules of one op on rows, and what real numbers say of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from onnx import ModelProto
from xdsl.dialects.builtin import ModuleOp

from tileloom.archdsl import SpatialArch, load_arch
from tileloom.compiler.codegen.compiled import CompiledNetwork, images_of
from tileloom.compiler.frontend.network import read_network
from tileloom.compiler.interpreters.modules import interpret
from tileloom.compiler.ir.data import InputOp
from tileloom.compiler.ir.store import DataStore
from tileloom.compiler.passes.base import PassContext
from tileloom.compiler.passes.convert_qnn_to_tile import ConvertQnnToTile
from tileloom.compiler.passes.convert_rows_to_qnn import ConvertRowsToQnn
from tileloom.compiler.passes.convert_tile_to_pe import ConvertTileToPe
from tileloom.compiler.pipeline import FRONT_PASSES, run_passes

from .qdq import Network

Array = npt.NDArray[Any]
Reals = npt.NDArray[np.float64]
Kind = Literal["softmax", "layer_norm"]
ALL_PASSES = tuple(
    ConvertRowsToQnn(takes_last_softmax=True) if isinstance(each, ConvertRowsToQnn) else each for each in FRONT_PASSES
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOp:
    """One op between int8 tensors.

    Attributes:
        kind: Which.
        shape: [..., C].
        input_scale, output_scale, output_zero: Of the tensors.
        epsilon: Of a normalisation.
    """

    kind: Kind
    shape: tuple[int, ...]
    input_scale: float = 0.05
    output_scale: float = 1 / 256
    output_zero: int = -128
    epsilon: float = 1e-5

    def model(self) -> tuple[ModelProto, Reals, Reals]:
        """The network, and gain and bias of the normalisation."""
        net, channels = Network(), self.shape[-1]
        gain, bias = net.rng.normal(0.8, 0.5, channels).astype(np.float32), net.rng.normal(0, 0.5, channels)
        value = net.real_input(self.shape, self.input_scale)
        if self.kind == "softmax":
            value = net.node("Softmax", [value], axis=-1)
        else:
            constants = [net.constant(gain), net.constant(bias)]
            value = net.node("LayerNormalization", [value, *constants], axis=-1, epsilon=self.epsilon)
        model = net.model(net.quantize(value, self.output_scale, self.output_zero))
        return model, gain.astype(np.float64), bias.astype(np.float32).astype(np.float64)

    def lowered(self) -> tuple[ModuleOp, DataStore]:
        """The network as one `qnn` op."""
        module, store = read_network(self.model()[0])
        return run_passes(module, PassContext(store=store), ALL_PASSES), store

    def expected(self, rows: Array) -> Reals:
        """What real numbers give, in steps of the result, within its limits."""
        _, gain, bias = self.model()
        x = rows.astype(np.float64) * self.input_scale
        if self.kind == "softmax":
            exps = np.exp(x - x.max(axis=-1, keepdims=True))
            real = exps / exps.sum(axis=-1, keepdims=True)
        else:
            centred = x - x.mean(axis=-1, keepdims=True)
            deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + self.epsilon)
            real = centred / deviation * gain + bias
        return np.clip(real / self.output_scale + self.output_zero, -128, 127)


def layer_norm(shape: tuple[int, ...], input_scale: float = 0.05) -> RowOp:
    """A normalisation with a usual output."""
    return RowOp(kind="layer_norm", shape=shape, input_scale=input_scale, output_scale=0.0313, output_zero=5)


def softmax(shape: tuple[int, ...], input_scale: float = 0.05) -> RowOp:
    """A softmax with the usual output."""
    return RowOp(kind="softmax", shape=shape, input_scale=input_scale)


def arch_of(name: str, overrides: dict[str, object] | None = None) -> SpatialArch:
    """A preset, or one of its kin."""
    arch = load_arch(name, overrides)
    assert isinstance(arch, SpatialArch)
    return arch


def tiny_arch() -> SpatialArch:
    """4 x 4 PEs with little memory."""
    sizes = {"rows": 4, "cols": 4, "bus_bytes": 4, "scratchpad": "16 KiB", "accumulator_vectors": 64}
    return arch_of("tpe_16x16", {f"parameters.{name}": value for name, value in sizes.items()})


def compiled(op: RowOp, arch: SpatialArch, *, keeps_on_chip: bool = True) -> tuple[ModuleOp, CompiledNetwork]:
    """An op as `tile` and as programs."""
    module, store = op.lowered()
    ctx = PassContext(store=store, arch=arch)
    tiled = run_passes(module, ctx, (ConvertQnnToTile(keeps_on_chip=keeps_on_chip),))
    made = run_passes(tiled, ctx, (ConvertTileToPe(),))
    return tiled, CompiledNetwork(module=made, store=store, images=images_of(made, arch, store))


def interpreted(module: ModuleOp, store: DataStore, rows: Array) -> Array:
    """What a module makes of its only input."""
    (source,) = (op for op in module.body.block.ops if isinstance(op, InputOp))
    (found,) = interpret(module, store, {source.input_name.data: rows}).values()
    return found
