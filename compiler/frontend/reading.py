"""Reading a network file: bytes to an ONNX model, with every way to fail explained."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from .faults import workload_fault
from .ordering import subgraphs

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto

LFS_POINTER = b"version https://git-lfs"


def read_model(path: str | os.PathLike[str]) -> ModelProto:
    """Read an ONNX file; tensors kept in other files are left unread.

    Args:
        path: The `.onnx` file.

    Raises:
        WorkloadError: There is no such file, or it is not a usable ONNX network.
    """
    file = os.fspath(path)
    return parse_model(_read_bytes(file), file)


def parse_model(data: bytes, file: str) -> ModelProto:
    """Parse the bytes of an ONNX file.

    Args:
        data: The whole file.
        file: Its name, for messages.

    Raises:
        WorkloadError: The bytes are not a usable ONNX network.
    """
    import onnx
    from google.protobuf.message import DecodeError

    if not data:
        raise workload_fault(file, "the file is empty; export or download it again")
    if data.startswith(LFS_POINTER):
        raise workload_fault(file, "this is a Git LFS pointer, not the network; fetch it with `git lfs pull`")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        cause = f"{len(data):,} bytes that are not an ONNX model, or one cut short"
        raise workload_fault(file, f"{cause}; export or download it again") from error
    if not _is_text_intact(model.graph):
        raise workload_fault(file, "names in the file are not text: it is damaged; export or download it again")
    check_model(model, file)
    return model


def check_model(model: ModelProto, file: str) -> None:
    """Check that a parsed model is a network that can be imported.

    Raises:
        WorkloadError: It has no graph, no nodes, or needs a newer `onnx` package.
    """
    import onnx
    from onnx import defs

    if not model.HasField("graph") or not model.ir_version:
        raise workload_fault(file, "the file holds no ONNX graph; is it an ONNX file, and complete?")
    if not model.graph.node:
        raise workload_fault(file, f"graph {model.graph.name!r} has no nodes: there is nothing to import")
    if not model.opset_import and model.ir_version >= 3:
        raise workload_fault(file, "the model names no operator set (opset_import); export it again")
    for opset in model.opset_import:
        newest = defs.onnx_opset_version()
        if opset.domain in ("", "ai.onnx") and opset.version > newest:
            message = f"operator set {opset.version} is newer than {newest}, the newest of onnx {onnx.__version__}"
            raise workload_fault(file, f"{message}; export for {newest} or update the onnx package")


def _is_text_intact(graph: GraphProto) -> bool:
    """Whether every name is text; the parser hands over damaged ones as bytes."""
    names: list[object] = [graph.name]
    for node in graph.node:
        names += [node.name, node.op_type, node.domain, *node.input, *node.output]
        names += [attribute.name for attribute in node.attribute]
        if not all(_is_text_intact(inner) for inner in subgraphs(node)):
            return False
    for value in (*graph.input, *graph.output, *graph.value_info):
        names.append(value.name)
        names += [dim.dim_param for dim in value.type.tensor_type.shape.dim]
    names += [tensor.name for tensor in graph.initializer]
    return all(isinstance(name, str) for name in names)


def _read_bytes(file: str) -> bytes:
    path = Path(file)
    if path.is_dir():
        inside = sorted(p.name for p in path.glob("*.onnx"))
        hint = f"name a file in it: {', '.join(inside[:10])}" if inside else "it holds no .onnx file"
        raise workload_fault(file, f"is a directory; {hint}")
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise workload_fault(file, "no such file; check the path") from error
    except OSError as error:
        raise workload_fault(file, f"cannot be read: {error.strerror or error}") from error
