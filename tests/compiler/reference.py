"""Judges that are not ours: onnx and onnxruntime for models, mlir-opt for modules."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from tileloom.compiler.ir.mlir_opt import find_mlir_opt

if TYPE_CHECKING:
    from onnx import ModelProto

Array = npt.NDArray[Any]

needs_mlir = pytest.mark.skipif(find_mlir_opt() is None, reason="no mlir-opt (Debian: apt-get install mlir-19-tools)")


def check_onnx(model: ModelProto) -> None:
    """Fails unless the model is valid and its shapes can be inferred."""
    from onnx import checker

    checker.check_model(model, full_check=True)  # pyright: ignore[reportUnknownMemberType] PathLike has no parameter there


def random_inputs(model: ModelProto, seed: int) -> dict[str, Array]:
    """Inputs drawn evenly from all integers of their types."""
    from onnx import helper

    rng = np.random.default_rng(seed)
    drawn: dict[str, Array] = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        limits = np.iinfo(dtype)
        shape = [dim.dim_value for dim in tensor.shape.dim]
        drawn[value.name] = rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
    return drawn


def run_onnx(model: ModelProto | Path, inputs: Mapping[str, Array]) -> list[Array]:
    """Outputs of a model or a file by onnxruntime, without its graph optimisation; skips the test where it is not installed."""
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (pip install 'tileloom[verify]')")
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    data = str(model) if isinstance(model, Path) else model.SerializeToString()
    session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(inputs)))
