"""What a workload consists of, as numbers for tables."""

from __future__ import annotations

from dataclasses import dataclass

from ...archdsl import Op, VectorOp, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRow:
    """One line of a workload's table.

    Attributes:
        name: The op's name.
        kind: Its kind.
        datatype: Its datatype.
        count: How many times it runs.
        dims: Sizes as text, `M=512 N=512 K=512`; the number of elements of vector work.
        macs: Multiply-accumulates of all runs.
        bytes: Compulsory main-memory traffic of all runs: every tensor moved once a run.
    """

    name: str
    kind: str
    datatype: str
    count: int
    dims: str
    macs: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSummary:
    """A workload's table and totals.

    Attributes:
        rows: One per op, in order.
        macs: Multiply-accumulates that are modelled.
        bytes: Compulsory traffic that is modelled.
        unmodelled_macs: Multiply-accumulates known to be left out.
        unmodelled_bytes: Bytes of the tensors of nodes that are left out.
    """

    rows: tuple[OpRow, ...]
    macs: int
    bytes: int
    unmodelled_macs: int
    unmodelled_bytes: int

    @property
    def unmodelled_macs_share(self) -> float:
        """Left-out share of all known multiply-accumulates, 0 to 1."""
        return _share(self.unmodelled_macs, self.macs)

    @property
    def unmodelled_bytes_share(self) -> float:
        """Left-out share of all known bytes, 0 to 1."""
        return _share(self.unmodelled_bytes, self.bytes)


def summarize_workload(workload: Workload) -> WorkloadSummary:
    """Count a workload's multiply-accumulates and compulsory bytes, op by op."""
    rows = tuple(_row(op) for op in workload.ops)
    return WorkloadSummary(
        rows=rows,
        macs=sum(row.macs for row in rows),
        bytes=sum(row.bytes for row in rows),
        unmodelled_macs=sum(missing.macs for missing in workload.unmodelled),
        unmodelled_bytes=sum(missing.bytes for missing in workload.unmodelled),
    )


def _row(op: Op | VectorOp) -> OpRow:
    if isinstance(op, Op):
        dims = " ".join(f"{dim}={size}" for dim, size in op.dims)
        moved = sum(op.tensor_bytes(tensor) for tensor in op.tensors)
    else:
        dims = f"{op.elements} elements"
        moved = sum(size for _, size in (*op.read_bytes, *op.write_bytes))
    return OpRow(
        name=op.name,
        kind=op.kind,
        datatype=op.datatype,
        count=op.count,
        dims=dims,
        macs=op.macs * op.count,
        bytes=moved * op.count,
    )


def _share(part: int, rest: int) -> float:
    return part / (part + rest) if part else 0.0
