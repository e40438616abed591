"""Passes on the integer level: what they make, and that not one integer changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tileloom.compiler.interpreters.modules import interpret
from tileloom.compiler.ir import qnn
from tileloom.compiler.ir.attributes import tensor_type
from tileloom.compiler.ir.data import ConstantOp, InputOp, OutputOp
from tileloom.compiler.ir.store import DataStore
from tileloom.compiler.passes.base import Pass, PassContext
from tileloom.compiler.passes.canonicalise_qnn import CanonicaliseQnn
from tileloom.compiler.passes.eliminate_dead_code import EliminateDeadCode
from tileloom.compiler.passes.fold_permutations import FoldPermutations
from tileloom.compiler.passes.fuse_lookups import FuseLookups
from tileloom.compiler.passes.sink_transposes import SinkTransposes

from ..qdq import random_inputs

FIRST, LAST = (0, 3, 1, 2), (0, 2, 3, 1)


class Builder:
    """A module that grows by one op at a time."""

    def __init__(self) -> None:
        self.store = DataStore()
        self.ops: list[Operation] = []
        self.rng = np.random.default_rng(0)

    def add(self, op: Operation) -> SSAValue:
        self.ops.append(op)
        return op.results[0]

    def input(self, *shape: int) -> SSAValue:
        return self.add(InputOp(f"x{len(self.ops)}", tensor_type(shape, "int8")))

    def constant(self, array: npt.ArrayLike, dtype: str = "int8") -> SSAValue:
        return self.add(ConstantOp.of(np.asarray(array, dtype=dtype), self.store))

    def how(self, channels: int, multiplier: int = 1 << 30, shift: int = 31) -> qnn.Requantisation:
        vectors = [([5] * channels, "int32"), ([multiplier] * channels, "int32"), ([shift] * channels, "int8")]
        bias, scale, places = (self.constant(values, dtype) for values, dtype in vectors)
        return qnn.Requantisation(bias=bias, multiplier=scale, shift=places, scale=0.1, zero_point=-3)

    def lookup(self, value: SSAValue) -> SSAValue:
        table = self.constant(self.rng.integers(-128, 128, 256))
        return self.add(qnn.LookupOp(value, table, scale=0.1, zero_point=0))

    def transpose(self, value: SSAValue, order: Sequence[int]) -> SSAValue:
        return self.add(qnn.TransposeOp(value, order))

    def check(self, value: SSAValue, passes: Sequence[Pass], expected: Sequence[str]) -> ModuleOp:
        """Ends the module, runs passes and compares results and names of ops."""
        before = ModuleOp([*self.ops, OutputOp("y", value)])
        before.verify()
        text, after = str(before), before
        for each in (*passes, EliminateDeadCode()):
            after = each.run(after, PassContext(store=self.store))
            after.verify()
        assert str(before) == text
        assert [op.name for op in after.body.block.ops if op.name.startswith("qnn.")] == [f"qnn.{e}" for e in expected]
        inputs: dict[str, Any] = random_inputs(before, self.rng)
        found, wanted = interpret(after, self.store, inputs), interpret(before, self.store, inputs)
        assert np.array_equal(found["y"], wanted["y"])
        return after


def test_sink_transposes_cancels_two_around_element_wise_ops() -> None:
    build = Builder()
    sides = [build.transpose(build.input(1, 4, 5, 6), FIRST) for _ in range(2)]
    total = build.add(qnn.AddOp(sides[0], sides[1], (3, -2), build.how(5)))
    scaled = build.add(qnn.RescaleOp(build.lookup(total), build.constant([7] * 5), build.how(5)))
    product = build.add(qnn.MultiplyOp(scaled, total, (1, 2), build.how(5)))
    build.check(build.transpose(product, LAST), [SinkTransposes()], ["add", "lookup", "rescale", "multiply"])


def test_sink_transposes_takes_concat_slice_and_pad_along() -> None:
    build = Builder()
    sides = [build.transpose(build.input(1, 4, 5, size), FIRST) for size in (6, 2)]
    joined = build.add(qnn.ConcatOp(sides, 1))
    part = build.add(qnn.SliceOp(joined, [0, 1, 0, 2], [1, 3, 4, 2], [1, 2, 1, 1]))
    padded = build.add(qnn.PadOp(part, [0, 1, 0, 0], [0, 0, 2, 0], -7))
    build.check(build.transpose(padded, LAST), [SinkTransposes()], ["concat", "slice", "pad"])


def test_sink_transposes_leaves_channels_that_differ() -> None:
    build = Builder()
    turned = build.transpose(build.input(1, 4, 5, 6), FIRST)
    scaled = build.add(qnn.RescaleOp(turned, build.constant([1, 2, 3, 4, 5]), build.how(5)))
    build.check(scaled, [SinkTransposes()], ["transpose", "rescale"])


def test_canonicalise_qnn_makes_one_view() -> None:
    build = Builder()
    turned = build.transpose(build.input(2, 1, 1, 6), FIRST)
    flat = build.add(qnn.ReshapeOp(turned, [2, 6]))
    build.check(build.add(qnn.ReshapeOp(flat, [12])), [CanonicaliseQnn()], ["reshape"])


def test_fold_permutations_permutes_weights() -> None:
    build = Builder()
    turned = build.transpose(build.input(2, 3, 4, 5), FIRST)
    flat = build.add(qnn.ReshapeOp(turned, [2, 60]))
    weights = build.constant(build.rng.integers(-128, 128, (60, 7)))
    product = build.add(qnn.MatMulOp(flat, weights, build.how(7, shift=40)))
    build.check(product, [FoldPermutations()], ["reshape", "matmul"])


def test_fold_permutations_keeps_transposes_of_kept_axes() -> None:
    build = Builder()
    turned = build.transpose(build.input(3, 2, 4), (1, 0, 2))
    flat = build.add(qnn.ReshapeOp(turned, [2, 12]))
    weights = build.constant(build.rng.integers(-128, 128, (12, 7)))
    product = build.add(qnn.MatMulOp(flat, weights, build.how(7, shift=38)))
    build.check(product, [FoldPermutations()], ["transpose", "reshape", "matmul"])


def test_fuse_lookups_makes_one_table_of_a_graph() -> None:
    build = Builder()
    source = build.input(3, 100)
    first = build.lookup(source)
    scaled = build.add(qnn.RescaleOp(first, build.constant([3] * 100), build.how(100)))
    product = build.add(qnn.MultiplyOp(source, scaled, (4, -3), build.how(100, shift=36)))
    build.check(product, [FuseLookups()], ["lookup"])


def test_fuse_lookups_leaves_functions_of_two_tensors() -> None:
    build = Builder()
    sides = [build.lookup(build.input(3, 10)) for _ in range(2)]
    total = build.add(qnn.AddOp(sides[0], sides[1], (3, -2), build.how(10)))
    build.check(total, [FuseLookups()], ["lookup", "lookup", "add"])
