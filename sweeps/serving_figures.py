"""The figure of a plan: every point that fits, the front, and the plan among them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .pareto import pareto_mask
from .plots.serving import ServingPoint, plot_serving
from .plots.style import Caption, FigureFiles
from .version import code_version

if TYPE_CHECKING:
    from ..models import serving


def draw_plan(service: serving.Service, plan: serving.Plan, folder: Path) -> FigureFiles:
    """Draw the trade-off of a plan into `folder/front`."""
    points = plan.points
    columns = points.columns
    rows = np.flatnonzero(points.fits)
    users, chips = columns.tokens_per_s_per_user[rows], columns.tokens_per_s_per_chip[rows]
    on_front = pareto_mask(np.column_stack([-users, -chips]))
    drawn = [
        ServingPoint(
            label=_label(columns.layouts.at(int(row)), float(columns.requests[row])),
            tokens_per_s_per_user=float(users[idx]),
            tokens_per_s_per_chip=float(chips[idx]),
            is_front=bool(on_front[idx]),
            holds=bool(points.holds[row]),
            is_plan=int(row) == plan.best,
        )
        for idx, row in enumerate(rows)
    ]
    estimate = plan.estimate
    title = (
        f"{service.model.name}: {plan.num_chips} {service.fabric.arch.name} serve the rate with "
        f"{1 / estimate.arrivals.tpot.amount:,.0f} tokens/s for each user"
    )
    traffic = service.traffic
    caption = Caption(
        workload=f"{service.model.name}, {traffic.isl:,} tokens in, {traffic.osl:,} out",
        commit=code_version(),
        num_points=len(drawn),
        points="layouts and rates",
        extra=(f"on {service.fabric.name}", f"{service.numerics.name}, {service.chip.mode} constants"),
    )
    return plot_serving(drawn, title, caption, folder / "front")


def _label(layout: serving.Layout, users: float) -> str:
    names = [f"{name}{value}" for name, value in (("tp", layout.tp), ("pp", layout.pp), ("dp", layout.dp)) if value > 1]
    names += [f"ep{layout.ep}"] if layout.ep > 1 else []
    return f"{' '.join(names) or 'one chip'}, {users:,.3g} requests"
