"""Faults of a network file, in the shape that every file's faults have."""

from __future__ import annotations

from ...archdsl import Diagnostic, WorkloadError


def fault(file: str, message: str, *, node: str = "", op_type: str = "") -> Diagnostic:
    """One fault; an ONNX file has no lines, so that the node's name is its place.

    Args:
        file: Path or name of the network as the user gave it.
        message: Cause and remedy.
        node: Name of the node or input concerned.
        op_type: Its operator.
    """
    text = f"{op_type}: {message}" if op_type else message
    return Diagnostic(file=file, line=0, column=0, path=node, message=text)


def workload_fault(file: str, message: str, *, node: str = "", op_type: str = "") -> WorkloadError:
    """A `WorkloadError` with one fault."""
    return WorkloadError(diagnostics=[fault(file, message, node=node, op_type=op_type)])
