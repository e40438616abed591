"""Softmax and layer normalisation as compiled, on the RTL."""

from __future__ import annotations

import numpy as np
import pytest

from tileloom.archdsl import pe_array, place_array, take_array
from tileloom.rtl import Job

from ..compiler.row_modules import RowOp, arch_of, compiled, interpreted, layer_norm, softmax
from .cases import assert_same

pytestmark = pytest.mark.rtl


@pytest.mark.parametrize("op", [softmax((6, 19), 0.1), layer_norm((6, 19))], ids=lambda op: op.kind)
def test_rows_are_the_interpreters(op: RowOp) -> None:
    arch = arch_of("tpe_8x8")
    rows = np.random.default_rng(1).normal(0, 40, op.shape).clip(-128, 127).astype(np.int8)
    _, network = compiled(op, arch)
    (image,) = network.images.values()
    memory = image.memory()
    source, target = (
        [symbol for symbol in image.manifest.symbols if symbol.role == role] for role in ("input", "output")
    )
    place_array(memory, source[0], rows)
    (result,) = assert_same(pe_array(arch), [Job(program=image.program, memory=memory)])
    assert np.array_equal(take_array(result.memory, target[0]), interpreted(*op.lowered(), rows))
