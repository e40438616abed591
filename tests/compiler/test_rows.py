"""Softmax and layer normalisation in integers: near real numbers, and the same on every level."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from tileloom.archdsl import PassError, check_program, pe_array
from tileloom.compiler.host import host_ops
from tileloom.compiler.ir import qnn
from tileloom.compiler.ir.attributes import float_attr
from tileloom.compiler.passes.base import PassContext
from tileloom.compiler.passes.convert_qnn_to_tile import ConvertQnnToTile
from tileloom.compiler.pipeline import lower_network, run_passes
from tileloom.models import FunctionalSimulator, replay

from .qdq import Network
from .row_modules import Array, RowOp, arch_of, compiled, interpreted, layer_norm, softmax, tiny_arch

CHANNELS = (1, 2, 3, 8, 24, 100, 130, 512)
KINDS = ("even", "normal", "narrow", "peak", "constant")
REAL_ERROR = 0.5 + 0.1
"""Of a result, in steps: half a step of the last rounding, and what all others make at worst. Typical are 0.002 steps."""


def rows_of(kind: str, shape: tuple[int, ...], seed: int) -> Array:
    rng = np.random.default_rng(seed)
    drawn = {
        "even": lambda: rng.integers(-128, 128, shape),
        "normal": lambda: rng.normal(-10, 35, shape),
        "narrow": lambda: rng.normal(90, 2, shape),
        "peak": lambda: np.where(np.arange(shape[-1]) == shape[-1] // 2, 127, rng.normal(-90, 4, shape)),
        "constant": lambda: np.broadcast_to(rng.integers(-128, 128, (*shape[:-1], 1)), shape),
    }[kind]()
    return np.clip(np.rint(drawn), -128, 127).astype(np.int8)


def distances(op: RowOp, rows: Array) -> tuple[float, float, float]:
    """The largest distance from real numbers and from the nearest integers, and the share of results that are not these."""
    module, store = op.lowered()
    found, expected = interpreted(module, store, rows), op.expected(rows)
    nearest = np.clip(np.rint(expected), -128, 127)
    return (
        float(np.abs(found - expected).max()), float(np.abs(found - nearest).max()), float((found != nearest).mean())
    )  # fmt: skip


@pytest.mark.parametrize("input_scale", [0.004, 0.03, 0.2])
@pytest.mark.parametrize("channels", CHANNELS)
def test_softmax_is_within_a_step_of_real_numbers(channels: int, input_scale: float) -> None:
    rows = np.concatenate([rows_of(kind, (60, channels), 1) for kind in KINDS])
    from_real, from_nearest, _ = distances(softmax(rows.shape, input_scale), rows)
    assert from_real <= REAL_ERROR
    assert from_nearest <= 1


@pytest.mark.parametrize("input_scale", [0.004, 0.03, 0.2])
@pytest.mark.parametrize("channels", CHANNELS)
def test_layer_norm_is_within_a_step_of_real_numbers(channels: int, input_scale: float) -> None:
    rows = np.concatenate([rows_of(kind, (60, channels), 2) for kind in KINDS])
    from_real, from_nearest, _ = distances(layer_norm(rows.shape, input_scale), rows)
    assert from_real <= REAL_ERROR
    assert from_nearest <= 1


@pytest.mark.parametrize(("op", "share"), [(softmax((300, 128), 0.1), 0.001), (layer_norm((300, 128)), 0.003)], ids=str)
def test_nearly_all_results_are_the_nearest_integers(op: RowOp, share: float) -> None:
    from_real, _, found = distances(op, rows_of("normal", op.shape, 7))
    assert from_real <= 0.55
    assert found < share


def test_layer_norm_takes_gains_of_0_and_below() -> None:
    net = Network()
    gain, bias = np.array([-1.0, 0.0, 1e-12, 0.5, -1e-9, 2.0], np.float32), np.array([0, 1.5, -1.5, 0.2, 3.0, -0.5])
    value = net.real_input((7, 6), 0.1)
    value = net.node("LayerNormalization", [value, net.constant(gain), net.constant(bias)], axis=-1)
    module, store = lower_network(net.model(net.quantize(value, 0.03, -4)))
    rows = rows_of("normal", (7, 6), 3)
    centred = rows - rows.mean(axis=-1, keepdims=True)
    real = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5 / 0.1**2) * gain + bias
    assert np.abs(interpreted(module, store, rows) - (real / 0.03 - 4)).max() < REAL_ERROR


# ---- Kernels.

ARCHS = {"8x8": arch_of("tpe_8x8"), "16x16": arch_of("tpe_16x16"), "4x4": tiny_arch()}
SHAPES = [(1, 1), (7, 3), (1, 8), (7, 24), (300, 3), (30, 100), (7, 130), (2, 3, 5, 24), (1, 300, 8)]


@pytest.mark.parametrize(
    ("shape", "keeps_on_chip"), [*((shape, True) for shape in SHAPES), ((7, 24), False), ((300, 3), False)], ids=str
)
@pytest.mark.parametrize("name", ARCHS)
def test_kernels_do_what_the_interpreter_does(name: str, shape: tuple[int, ...], keeps_on_chip: bool) -> None:
    arch = ARCHS[name]
    array = pe_array(arch)
    for op in (softmax(shape), layer_norm(shape)):
        rows = rows_of("normal", shape, 4)
        expected = interpreted(*op.lowered(), rows)
        tiled, network = compiled(op, arch, keeps_on_chip=keeps_on_chip)
        assert np.array_equal(interpreted(tiled, network.store, rows), expected)
        for image in network.images.values():
            assert not check_program(image.program, array, len(image.memory()))
            assert replay(array, image.program).cycles > 0
        (found,) = network.run(
            {"x0": rows}, lambda _, image, memory: FunctionalSimulator(array).run(image.program, memory)
        ).values()  # fmt: skip
        assert np.array_equal(found, expected)


def test_rows_that_do_not_fit_are_refused_with_a_remedy() -> None:
    module, store = layer_norm((4, 9000)).lowered()
    with pytest.raises(PassError, match=r"LayerNormalization.*1 rows of 9000 channels.*use a larger scratchpad"):
        run_passes(module, PassContext(store=store, arch=tiny_arch()), (ConvertQnnToTile(),))


def test_too_few_tables_are_refused_with_a_remedy() -> None:
    module, store = softmax((4, 8)).lowered()
    arch = arch_of("tpe_8x8", {"control.table_slots": 1})
    with pytest.raises(PassError, match=r"2 tables at once and the array has 1: set control.table_slots to 2 or more"):
        run_passes(module, PassContext(store=store, arch=arch), (ConvertQnnToTile(),))


# ---- Conversion.


def ops_of(module: ModuleOp) -> list[str]:
    return [op.name for op in module.body.block.ops if op.name.startswith("qnn.")]


def test_the_last_softmax_stays_on_the_host_and_others_do_not() -> None:
    net = Network()
    value = net.requantize(net.node("Softmax", [net.real_input((4, 8))], axis=-1), 1 / 256, -128)
    value = net.requantize(net.node("MatMul", [value, net.kernel((8, 8))]), 0.01)
    module, _ = lower_network(net.model(net.requantize(net.node("Softmax", [value], axis=-1), 1 / 256, -128)))
    assert ops_of(module) == ["qnn.softmax", "qnn.matmul"]
    assert [host.op.op_type for host in host_ops(module) if host.op.op_type == "Softmax"] == ["Softmax"]


def test_softmax_over_another_axis_is_transposed() -> None:
    net = Network()
    value = net.requantize(net.node("Softmax", [net.real_input((4, 6, 5))], axis=1), 1 / 256, -128)
    model = net.model(net.quantize(net.node("Mul", [value, value]), 1 / 256, -128))
    module, store = lower_network(model)
    rows = rows_of("even", (4, 6, 5), 5)
    exps = np.exp(0.0497 * rows)
    real = np.rint(256 * exps / exps.sum(axis=1, keepdims=True)) / 256
    found = interpreted(module, store, rows).astype(np.int64)
    assert "qnn.softmax" in ops_of(module)
    assert np.abs(found + 128 - 256 * np.minimum(real, 255 / 256) ** 2).max() < 2.6


@pytest.mark.parametrize("squares", ["Pow", "Mul"])
def test_layer_norm_that_is_written_out_becomes_one_op(squares: str) -> None:
    net = Network()
    value = net.real_input((3, 4, 24), 0.05)
    centred = net.node("Sub", [value, net.node("ReduceMean", [value], axes=[-1], keepdims=1)])
    square = net.node("Pow", [centred, net.constant(2.0)]) if squares == "Pow" else net.node("Mul", [centred, centred])
    variance = net.node("ReduceMean", [square], axes=[-1], keepdims=1)
    root = net.node("Sqrt", [net.node("Add", [variance, net.constant(1e-5)])])
    gain, bias = net.rng.normal(1, 0.2, 24), net.rng.normal(0, 0.3, 24)
    value = net.node("Mul", [net.node("Div", [centred, root]), net.constant(gain)])
    value = net.node("Add", [value, net.constant(bias)])
    module, store = lower_network(net.model(net.quantize(value, 0.03, 2)))
    assert ops_of(module) == ["qnn.layer_norm"]
    rows = rows_of("normal", (3, 4, 24), 6)
    centred = rows - rows.mean(axis=-1, keepdims=True)
    real = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5 / 0.05**2) * gain + bias
    assert np.abs(interpreted(module, store, rows) - np.clip(real / 0.03 + 2, -128, 127)).max() < REAL_ERROR


@pytest.mark.parametrize(
    ("axis", "epsilon", "reason"),
    [
        (1, 1e-5, "it is over the last 2 axes; supported is the last one"),
        (-1, 100.0, "use a larger input scale"),
    ],
)
def test_why_an_op_stays_on_the_host_is_said(axis: int, epsilon: float, reason: str) -> None:
    net = Network()
    gain = net.constant(np.ones((6, 8) if axis == 1 else 8))
    value = net.node("LayerNormalization", [net.real_input((4, 6, 8)), gain], axis=axis, epsilon=epsilon)
    value = net.node("Relu", [net.requantize(value, 0.03)])
    module, _ = lower_network(net.model(net.quantize(value, 0.05)))
    (host,) = (host for host in host_ops(module) if host.op.op_type == "LayerNormalization")
    assert reason in str(host)


def test_ops_are_verified() -> None:
    module, _ = layer_norm((4, 8)).lowered()
    (op,) = (op for op in module.body.block.ops if isinstance(op, qnn.LayerNormOp))
    op.attributes["epsilon"] = float_attr(-1.0)
    with pytest.raises(VerifyException, match="epsilon is -1.0; it must be 0 or more"):
        op.verify()
