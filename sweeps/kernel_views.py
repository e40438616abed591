"""An estimate of a network's kernels on a GPU as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .plots.style import quantity_text, scale_for

if TYPE_CHECKING:
    from rich.table import Table

    from .kernel_document import KernelsDocument


def kernels_table(document: KernelsDocument) -> Table:
    """One row per op; amounts are of one run, as in the JSON."""
    from rich.table import Table

    kernels = document["kernels"]
    time = scale_for("s", [kernel["latency_s"] for kernel in kernels])
    energy = scale_for("pJ", [kernel["energy_pj"] for kernel in kernels])
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name, is_text in (
        ("op", True),
        ("kernel", True),
        ("runs", False),
        (f"time [{time.unit}]", False),
        ("regime", True),
        ("utilization", False),
        ("main memory", False),
        (f"energy [{energy.unit}]", False),
        ("made as", True),
    ):
        table.add_column(name, justify="left" if is_text else "right", overflow="fold")
    for kernel in kernels:
        table.add_row(
            kernel["name"] if kernel["kind"] in kernel["name"].lower() else f"{kernel['name']} {kernel['kind']}",
            kernel["kernel"],
            f"{kernel['count']:,}",
            f"{kernel['latency_s'] / time.divisor:.4g}",
            kernel["regime"],
            f"{kernel['utilization']:.1%}" if kernel["macs"] else "-",
            quantity_text(kernel["main_memory_bytes"], "bytes"),
            f"{kernel['energy_pj'] / energy.divisor:.4g}",
            kernel["choice"],
        )
    return table


def kernel_total_lines(document: KernelsDocument) -> Iterator[str]:
    """The totals in words, each with its unit."""
    total, kernels = document["total"], document["kernels"]
    num_runs = sum(kernel["count"] for kernel in kernels)
    ops = f": {len(kernels):,} distinct ops in {num_runs:,} kernels" if num_runs > 1 else ""
    constants = "data sheet" if document["calibration"] is None else f"calibration {document['calibration']}"
    yield f"{document['workload']} on {document['arch']}{ops}; constants: {constants}"
    yield f"  latency      {quantity_text(total['latency_s'], 's')}: {_regimes(document)}"
    yield f"  energy       {quantity_text(total['energy_pj'], 'pJ')}, {total['power_w']:,.0f} W"
    yield f"  MACs         {total['macs']:,}, utilization {total['utilization']:.1%}"
    yield f"  main memory  {quantity_text(total['main_memory_bytes'], 'bytes')}"
    yield f"  left out     {'; '.join(document['left_out'])}"


def _regimes(document: KernelsDocument) -> str:
    """Share of time by what limits kernels."""
    shares: dict[str, float] = {}
    for kernel in document["kernels"]:
        spent_s = kernel["latency_s"] * kernel["count"]
        shares[kernel["regime"]] = shares.get(kernel["regime"], 0.0) + spent_s / document["total"]["latency_s"]
    return ", ".join(f"{name} bound {share:.1%}" for name, share in sorted(shares.items(), key=lambda item: -item[1]))
