"""What stands between a product and its quantisation, as one affine map with limits.

    value = clip(gain * source + offset, low, high)

with arrays that can be broadcast to the value: bias, folded normalisation, rectifiers and clips all are of this form, and
requantisation computes it without another rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from xdsl.ir import SSAValue

from ..ir.attributes import shape_of
from ..ir.graph import GraphOp, owner_of
from ..ir.store import DataStore
from .reals import Reals, real_constant


@dataclass(frozen=True, slots=True, kw_only=True)
class Epilogue:
    """The affine map with limits; see the module.

    Attributes:
        source: What it is applied to.
        gain, offset, low, high: Of the map.
        nodes: Names of the ONNX nodes that it stands for.
    """

    source: SSAValue
    gain: Reals
    offset: Reals
    low: Reals
    high: Reals
    nodes: tuple[str, ...] = ()

    def scaled(self, factor: Reals) -> Epilogue:
        """The map times a constant."""
        with np.errstate(invalid="ignore"):
            ends = (self.low * factor, self.high * factor)
        low, high = np.minimum(*ends), np.maximum(*ends)
        if np.any(factor == 0):  # what is multiplied by 0 is 0, so that any limits around 0 will do
            others = np.broadcast_to(factor, low.shape) != 0
            low = np.where(others, low, np.min(low, initial=0.0, where=others))
            high = np.where(others, high, np.max(high, initial=0.0, where=others))
        return replace(self, gain=self.gain * factor, offset=self.offset * factor, low=low, high=high)

    def shifted(self, by: Reals) -> Epilogue:
        """The map plus a constant."""
        return replace(self, offset=self.offset + by, low=self.low + by, high=self.high + by)

    def clipped(self, low: float, high: float) -> Epilogue:
        """The map within further limits."""
        return replace(
            self, low=np.clip(self.low, low, high), high=np.clip(self.high, low, high)
        )  # fmt: skip


def epilogue_of(value: SSAValue, store: DataStore) -> Epilogue:
    """The longest affine map that ends in a value; the map that changes nothing where none does."""
    op = owner_of(value)
    step = _STEPS.get(op.op_type) if isinstance(op, GraphOp) and op.domain == "" else None
    found = None if step is None or not isinstance(op, GraphOp) else step(op, store)
    if found is None or not isinstance(op, GraphOp):
        infinite = np.array(np.inf)
        return Epilogue(
            source=value, gain=np.array(1.0), offset=np.array(0.0), low=-infinite, high=infinite, nodes=()
        )  # fmt: skip
    return replace(found, nodes=(*found.nodes, *op.node_names))


_Step: TypeAlias = Callable[[GraphOp, DataStore], "Epilogue | None"]


def _operand(op: GraphOp, store: DataStore) -> tuple[Epilogue, Reals, int] | None:
    """Map of the operand that is no constant, the constant, and the position of the former.

    Constants that differ along several axes are no part of a map: an op of its own adds or multiplies them.
    """
    for at in (0, 1):
        constant = real_constant(op.inputs[1 - at], store)
        if constant is None or shape_of(op.inputs[at]) != shape_of(op.outputs[0]):
            continue
        if sum(size != 1 for size in constant.shape) <= 1:
            return epilogue_of(op.inputs[at], store), constant, at
    return None


def _add(op: GraphOp, store: DataStore) -> Epilogue | None:
    found = _operand(op, store)
    return None if found is None else found[0].shifted(found[1])


def _subtract(op: GraphOp, store: DataStore) -> Epilogue | None:
    found = _operand(op, store)
    if found is None:
        return None
    of, constant, at = found
    return of.shifted(-constant) if at == 0 else of.scaled(np.array(-1.0)).shifted(constant)


def _multiply(op: GraphOp, store: DataStore) -> Epilogue | None:
    found = _operand(op, store)
    return None if found is None else found[0].scaled(found[1])


def _divide(op: GraphOp, store: DataStore) -> Epilogue | None:
    found = _operand(op, store)
    if found is None or found[2] != 0 or not np.all(found[1] != 0):
        return None
    return found[0].scaled(1 / found[1])


def _negate(op: GraphOp, store: DataStore) -> Epilogue | None:
    return epilogue_of(op.inputs[0], store).scaled(np.array(-1.0))


def _relu(op: GraphOp, store: DataStore) -> Epilogue | None:
    return epilogue_of(op.inputs[0], store).clipped(0.0, np.inf)


def _clip(op: GraphOp, store: DataStore) -> Epilogue | None:
    limits: list[float] = []
    for position, name, open_end in ((1, "min", -np.inf), (2, "max", np.inf)):
        given = op.input(position)
        if given is None:
            limits.append(op.float_attribute(name, open_end))
            continue
        constant = real_constant(given, store)
        if constant is None or constant.size != 1:
            return None
        limits.append(float(constant.reshape(())))
    if limits[0] > limits[1]:
        return None
    return epilogue_of(op.inputs[0], store).clipped(*limits)


def _hard_sigmoid(op: GraphOp, store: DataStore) -> Epilogue | None:
    gain, offset = op.float_attribute("alpha", 0.2), op.float_attribute("beta", 0.5)
    return epilogue_of(op.inputs[0], store).scaled(np.array(gain)).shifted(np.array(offset)).clipped(0.0, 1.0)


_STEPS: Mapping[str, _Step] = {
    "Add": _add, "Sub": _subtract, "Mul": _multiply, "Div": _divide, "Neg": _negate, "Relu": _relu, "Clip": _clip,
    "HardSigmoid": _hard_sigmoid,
}  # fmt: skip
