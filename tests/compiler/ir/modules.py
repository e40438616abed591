"""Random modules of quantised ops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue

from tileloom.compiler.ir import qnn
from tileloom.compiler.ir.attributes import shape_of, tensor_type
from tileloom.compiler.ir.data import ConstantOp, InputOp, OutputOp
from tileloom.compiler.ir.store import DataStore

NAMES = ("conv1", "block/conv;relu", 'a "name"', "back\\slash", "línea", "行\n2 \x7f", "")


class ModuleMaker:
    """Ops on top of each other."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.store = DataStore()
        self.ops: list[Operation] = []

    def add(self, op: Operation) -> SSAValue:
        self.ops.append(op)
        return op.results[0]

    def draw(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def constant(self, shape: tuple[int, ...], dtype: str) -> SSAValue:
        limits = np.iinfo(dtype)
        array = self.rng.integers(limits.min, limits.max, shape).astype(dtype)
        return self.add(ConstantOp.of(array, self.store, self.names()))

    def names(self) -> list[str]:
        return [str(self.rng.choice(NAMES)) for _ in range(self.draw(0, 3))]

    def requantisation(self, channels: int) -> qnn.Requantisation:
        dtypes = ("int32", "int32", "int8")
        bias, multiplier, shift = (self.constant((channels,), dtype) for dtype in dtypes)
        scale = float(np.exp(self.rng.standard_normal()))
        low = self.draw(-128, 0)
        return qnn.Requantisation(
            bias=bias, multiplier=multiplier, shift=shift, scale=scale, zero_point=self.draw(-128, 127), low=low
        )

    def module(self, num_ops: int) -> ModuleOp:
        """Input, that many random ops one after the other, output."""
        value = self.add(InputOp("input ✓", tensor_type((1, 9, 8, 3), "int8")))
        for _ in range(num_ops):
            value = MAKERS[self.draw(0, len(MAKERS) - 1)](self, value)
        self.ops.append(OutputOp("output", value))
        return ModuleOp(self.ops, {qnn.ROUNDING: StringAttr("half_away")})

    def small_module(self) -> ModuleOp:
        """Input, a table, a look-up of ONNX node `relu`, output."""
        value = self.add(InputOp("input", tensor_type((1, 9, 8, 3), "int8")))
        table = self.constant((256,), "int8")
        self.ops.append(qnn.LookupOp(value, table, scale=0.1, zero_point=-3, nodes=["relu"]))
        self.ops.append(OutputOp("output", self.ops[-1].results[0]))
        return ModuleOp(self.ops, {qnn.ROUNDING: StringAttr("half_away")})


def _conv(make: ModuleMaker, value: SSAValue) -> SSAValue:
    channels, filters = shape_of(value)[3], make.draw(1, 4)
    weights = make.constant((3, 1, channels, filters), "int8")
    window = qnn.Window(pads=(1, 0, 1, 0), padding=make.draw(-128, 127))
    return make.add(qnn.Conv2dOp(value, weights, window, make.requantisation(filters), nodes=make.names()))


def _depthwise(make: ModuleMaker, value: SSAValue) -> SSAValue:
    channels = shape_of(value)[3]
    weights = make.constant((1, 2, channels), "int8")
    window = qnn.Window(pads=(0, 1, 0, 0))
    how = make.requantisation(channels)
    return make.add(qnn.DepthwiseConv2dOp(value, weights, window, how, nodes=make.names()))


def _matmul(make: ModuleMaker, value: SSAValue) -> SSAValue:
    weights = make.constant((shape_of(value)[3], 5), "int8")
    return make.add(qnn.MatMulOp(value, weights, make.requantisation(5), nodes=make.names()))


def _pool(make: ModuleMaker, value: SSAValue) -> SSAValue:
    window = qnn.Window(pads=(1, 1, 1, 1), padding=-128)
    how = make.requantisation(shape_of(value)[3])
    return make.add(qnn.Pool2dOp(value, "maximum", (3, 3), window, how, nodes=make.names()))


def _add(make: ModuleMaker, value: SSAValue) -> SSAValue:
    how = make.requantisation(shape_of(value)[3])
    return make.add(qnn.AddOp(value, value, (-(1 << 15), 7), how, nodes=make.names()))


def _multiply(make: ModuleMaker, value: SSAValue) -> SSAValue:
    how = make.requantisation(shape_of(value)[3])
    return make.add(qnn.MultiplyOp(value, value, (-128, 5), how, nodes=make.names()))


def _rescale(make: ModuleMaker, value: SSAValue) -> SSAValue:
    channels = shape_of(value)[3]
    weights = make.constant((channels,), "int8")
    return make.add(qnn.RescaleOp(value, weights, make.requantisation(channels), nodes=make.names()))


def _lookup(make: ModuleMaker, value: SSAValue) -> SSAValue:
    table = make.constant((256,), "int8")
    return make.add(qnn.LookupOp(value, table, scale=0.1, zero_point=-3, nodes=make.names()))


def _softmax(make: ModuleMaker, value: SSAValue) -> SSAValue:
    tables = make.constant((5, 256), "int8")
    return make.add(qnn.SoftmaxOp(value, tables, make.requantisation(shape_of(value)[-1]), nodes=make.names()))


def _layer_norm(make: ModuleMaker, value: SSAValue) -> SSAValue:
    tables, how = make.constant((5, 256), "int8"), make.requantisation(shape_of(value)[-1])
    return make.add(qnn.LayerNormOp(value, tables, float(make.rng.random()), how, nodes=make.names()))


def _reshape(make: ModuleMaker, value: SSAValue) -> SSAValue:
    images, height, width, channels = shape_of(value)
    return make.add(qnn.ReshapeOp(value, (images, width, height, channels), nodes=make.names()))


def _transpose(make: ModuleMaker, value: SSAValue) -> SSAValue:
    return make.add(qnn.TransposeOp(value, (0, 2, 1, 3), nodes=make.names()))


def _concat(make: ModuleMaker, value: SSAValue) -> SSAValue:
    return make.add(qnn.ConcatOp([value] * make.draw(1, 3), 1, nodes=make.names()))


def _slice(make: ModuleMaker, value: SSAValue) -> SSAValue:
    images, height, width, channels = shape_of(value)
    sizes = (images, -(-height // 2), width, channels)
    return make.add(qnn.SliceOp(value, (0, 0, 0, 0), sizes, (1, 2, 1, 1), nodes=make.names()))


def _pad(make: ModuleMaker, value: SSAValue) -> SSAValue:
    return make.add(qnn.PadOp(value, (0, 1, 0, 0), (0, 0, 2, 0), -5, nodes=make.names()))


MAKERS: tuple[Callable[[ModuleMaker, SSAValue], SSAValue], ...] = (
    _conv, _depthwise, _matmul, _pool, _add, _multiply, _rescale, _lookup, _softmax, _layer_norm, _reshape,
    _transpose, _concat, _slice, _pad,
)  # fmt: skip
