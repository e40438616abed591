"""Ops per second that the IR is built, verified, cloned, rewritten, printed and parsed at, for a chain of quantised ops.

Measured on one shared core, Python 3.11, for ops with 9 attributes and 5 operands: build 15, verify 10, clone 25, rewrite 10 to 15,
print 5, parse 1.8 thousand ops per second.
Networks have hundreds of ops, and text is for dumps alone.

    python benchmarks/ir_throughput.py [--num 20000]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import TypeVar

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern, op_type_rewrite_pattern

from tileloom.compiler.ir import qnn
from tileloom.compiler.ir.attributes import tensor_type
from tileloom.compiler.ir.data import ConstantOp, InputOp, OutputOp
from tileloom.compiler.ir.text import parse_module, print_module
from tileloom.compiler.ir.verification import verify_module

CHANNELS = 16
Result = TypeVar("Result")


class ShiftZeroPoint(RewritePattern):
    """Replaces every rescaling by one of another zero point."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: qnn.RescaleOp, rewriter: PatternRewriter, /) -> None:
        how = qnn.requantisation_of(op)
        if how.zero_point == 0:
            moved = qnn.Requantisation(
                bias=how.bias, multiplier=how.multiplier, shift=how.shift, scale=how.scale, zero_point=1
            )
            rewriter.replace(op, qnn.RescaleOp(op.input, op.weights, moved, nodes=["node"]))


def build(num: int) -> ModuleOp:
    """Input, a chain of rescalings and additions, output."""
    start = InputOp("input", tensor_type((1, 8, 8, CHANNELS), "int8"))
    constants = [
        ConstantOp(f"{at:064x}", tensor_type((CHANNELS,), dtype))
        for at, dtype in enumerate(("int32", "int32", "int8", "int8"))
    ]
    bias, multiplier, shift, weights = (constant.result for constant in constants)
    how = qnn.Requantisation(bias=bias, multiplier=multiplier, shift=shift, scale=0.1, zero_point=0)
    ops: list[Operation] = [start, *constants]
    value = start.result
    for at in range(num - len(ops) - 1):
        nodes = [f"node_{at}"]
        op = (
            qnn.RescaleOp(value, weights, how, nodes=nodes)
            if at % 2
            else qnn.AddOp(value, value, (1, 2), how, nodes=nodes)
        )
        ops.append(op)
        value = op.result
    return ModuleOp([*ops, OutputOp("output", value)], {qnn.ROUNDING: StringAttr("half_away")})


def rewrite(module: ModuleOp) -> None:
    """Half of the ops are replaced."""
    PatternRewriteWalker(ShiftZeroPoint(), apply_recursively=False).rewrite_module(module)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num", type=int, default=20_000, help="ops of the module")
    num = parser.parse_args().num
    print(f"{num:,} ops of the dialects data and qnn")
    module = _timed("build", num, lambda: build(num))
    _timed("verify", num, lambda: verify_module(module, "benchmark"))
    copy = _timed("clone", num, module.clone)
    _timed("rewrite", num, lambda: rewrite(copy))
    text = _timed("print", num, lambda: print_module(module))
    parsed = _timed("parse", num, lambda: parse_module(text))
    assert parsed.is_structurally_equivalent(module)
    print(f"{len(text) / num:.0f} bytes of text an op")


def _timed(what: str, num: int, function: Callable[[], Result]) -> Result:
    begin = time.perf_counter()
    result = function()
    elapsed = time.perf_counter() - begin
    print(f"{what:8} {num / elapsed:10,.0f} ops/s {elapsed:8.2f} s")
    return result


if __name__ == "__main__":
    main()
