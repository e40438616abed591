"""A comparison with measurements as text: errors by regime and name, and the worst rows with their reasons."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .plots.style import plain_number, scale_for

if TYPE_CHECKING:
    from rich.table import Table

    from ..models import ErrorSummary, ValidatedRow
    from .validating import Compared

MAX_REASONS = 4


def summary_table(compared: Compared) -> Table:
    """Errors over all rows, by regime, by size and by what was measured."""
    table = _table(("rows", True), ("n", False), ("MAPE", False), ("median", False), ("p90", False), ("bias", False))
    validation = compared.validation
    _add(table, "all", validation.overall)
    for name, summary in validation.by_regime().items():
        _add(table, f"  {name}" + (" bound" if name in ("compute", "memory", "latency") else ""), summary)
    by_name = validation.by_name()
    for name, summary in by_name.items() if len(by_name) > 1 else ():
        _add(table, name, summary)
    return table


def ranking_table(compared: Compared) -> Table:
    """Per shape that was made in several ways, how well the model ranks them."""
    table = _table(
        ("ways to make", True), ("n", False), ("rank correlation", False), ("first choice", True),
        ("slower than the fastest", False),
    )  # fmt: skip
    for ranking in compared.validation.rankings():
        side = ", held back" if ranking.is_held_back else ""
        table.add_row(
            f"{ranking.label}{side}",
            f"{ranking.n:,}",
            f"{ranking.rank_correlation:.3f}",
            ranking.first_choice,
            f"{ranking.regret_percent:.1f}%",
        )
    return table


def worst_table(compared: Compared, num_rows: int = 10) -> Table:
    """The rows with the largest errors, and the parts of the predicted time."""
    rows = compared.validation.worst(num_rows)
    scale = scale_for(compared.unit, [row.measured for row in rows])
    table = _table(
        ("line", False), ("shape", True), (f"measured [{scale.unit}]", False), (f"predicted [{scale.unit}]", False),
        ("error", False), ("regime", True), ("made of", True),
    )  # fmt: skip
    for row in rows:
        table.add_row(
            str(row.line),
            row.label,
            plain_number(row.measured / scale.divisor),
            plain_number(row.predicted / scale.divisor),
            f"{row.error_percent:+.1f}%",
            row.regime,
            reason_of(row),
        )
    return table


def head_lines(compared: Compared) -> Iterator[str]:
    """What was compared with what."""
    constants = f"calibrated ({compared.calibration})" if compared.calibration else "data sheet alone"
    which = {"held_back": ", rows held back from the fit", "fitted": ", rows of the fit"}.get(compared.rows, "")
    yield f"{compared.table.format.name}: {compared.table.column} against {compared.target}, {constants}{which}"


def reason_of(row: ValidatedRow) -> str:
    """How the kernel is made and the largest parts of its time, e.g. `tile 128 x 256; main loop (tensor cores) 91%`."""
    words = [row.choice] if row.choice else []
    if row.reasoning is None:
        return "; ".join(words)
    total = row.reasoning.amount
    parts = sorted(row.reasoning.parts, key=lambda part: -part.amount)
    for part in parts[:MAX_REASONS]:
        inside = f" ({part.largest.name})" if part.parts else ""
        if part.amount >= 0.05 * total:
            words.append(f"{part.name}{inside} {part.amount / total:.0%}")
    return "; ".join(words)


def _add(table: Table, name: str, summary: ErrorSummary) -> None:
    shares = (f"{value:.1f}%" for value in (summary.mape, summary.median_ape, summary.p90_ape))
    table.add_row(name, f"{summary.n:,}", *shares, f"{summary.signed_bias:+.1f}%")


def _table(*columns: tuple[str, bool]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name, is_text in columns:
        table.add_column(name, justify="left" if is_text else "right", overflow="fold" if is_text else "ellipsis")
    return table
