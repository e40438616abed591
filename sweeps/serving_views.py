"""Serving estimates and plans as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from .plots.style import quantity_text

if TYPE_CHECKING:
    from rich.table import Table

    from ..archdsl import Infeasible
    from ..models import Part, serving
    from .serving_documents import FrontRow, PartDocument


def service_line(service: serving.Service, layout: serving.Layout | None = None) -> str:
    """What is served, on what and how."""
    traffic, numerics = service.traffic, service.numerics
    where = service.fabric.name if layout is None else f"{layout.num_chips} of {service.fabric.name}, {layout}"
    constants = "data sheet" if service.chip.mode == "datasheet" else f"calibration {service.chip.calibration}"
    return (
        f"{service.model.name} ({numerics.name}, {numerics.kv_bits}-bit cache) on {where}: "
        f"{traffic.isl:,} tokens in, {traffic.osl:,} out; constants: {constants}"
    )


def estimate_table(estimate: serving.ServeEstimate, tested: serving.LoadTest) -> Table:
    """The metrics of one layout at fixed concurrency, and what a load test of it reports."""
    rows = (
        ("TTFT, idle", quantity_text(estimate.ttft.amount, "s"), "a prompt alone"),
        ("TTFT, fixed concurrency", quantity_text(estimate.ttft_queued.amount, "s"), _parts(estimate.ttft_queued)),
        ("TTFT, random arrivals", quantity_text(estimate.arrivals.ttft.amount, "s"), _parts(estimate.arrivals.ttft)),
        ("TTFT, load test", quantity_text(tested.ttft_s, "s"), _parts(tested.ttft)),
        ("TPOT", quantity_text(estimate.tpot.amount, "s"), _parts(estimate.tpot)),
        (
            "TPOT, random arrivals",
            quantity_text(estimate.arrivals.tpot.amount, "s"),
            f"{_parts(estimate.arrivals.tpot)}; {estimate.arrivals.requests_per_s:.3g} requests/s",
        ),
        ("latency of a request", quantity_text(estimate.latency_s, "s"), ""),
        ("tokens/s per user", f"{estimate.tokens_per_s_per_user:,.1f}", ""),
        ("tokens/s per chip", f"{estimate.tokens_per_s_per_chip:,.1f}", ""),
        ("tokens/s", f"{estimate.tokens_per_s:,.1f}", f"{estimate.requests_per_s:.3g} requests/s"),
        (
            "power",
            f"{estimate.power.amount:,.0f} W",
            f"{_parts(estimate.power)}; {estimate.tokens_per_j:.3g} tokens per joule",
        ),
        ("memory of a chip", quantity_text(estimate.memory.amount, "bytes"), _parts(estimate.memory)),
    )
    table = _table(("metric", True), ("value", False), ("of which", True))
    for row in rows:
        table.add_row(*row)
    return table


def arrivals_table(found: serving.ArrivalEstimate) -> Table:
    """The metrics of one layout at a rate of arrivals."""
    rows = (
        ("TTFT, random arrivals", quantity_text(found.ttft.amount, "s"), _parts(found.ttft)),
        ("TPOT, random arrivals", quantity_text(found.tpot.amount, "s"), _parts(found.tpot)),
        ("requests in the instance", f"{found.requests:,.3g}", "waiting or served, in the mean"),
        (
            "capacity",
            f"{found.capacity_per_s:,.3g} requests/s",
            f"{found.requests_per_s / found.capacity_per_s:.0%} used",
        ),
        ("power", f"{found.power.amount:,.0f} W", _parts(found.power)),
        ("memory of a chip", quantity_text(found.memory.amount, "bytes"), _parts(found.memory)),
    )
    table = _table(("metric", True), ("value", False), ("of which", True))
    for row in rows:
        table.add_row(*row)
    return table


def pools_table(found: serving.DisaggregatedEstimate) -> Table:
    """The metrics of prompts and decoding on instances of their own."""
    pools = found.pools
    prefill = f"{pools.num_prefill} x {pools.prefill}, busy {found.prefill_busy:.0%}"
    decode = f"{pools.num_decode} x {pools.decode}, {found.users:,.1f} users each, memory {found.decode_busy:.0%} full"
    rows = (
        ("prompts", "", prefill),
        ("decoding", "", decode),
        ("TTFT, random arrivals", quantity_text(found.ttft.amount, "s"), _parts(found.ttft)),
        ("cache transfer", quantity_text(found.transfer.amount, "s"), "before the second token"),
        ("TPOT", quantity_text(found.tpot.amount, "s"), _parts(found.tpot)),
        ("tokens/s per user", f"{found.tokens_per_s_per_user:,.1f}", ""),
        ("tokens/s per chip", f"{found.tokens_per_s_per_chip:,.1f}", _count(pools.num_chips, "chip")),
    )
    table = _table(("metric", True), ("value", False), ("of which", True))
    for row in rows:
        table.add_row(*row)
    return table


def part_lines(part: PartDocument, depth: int = 0) -> Iterator[str]:
    """A tree, one line a part."""
    yield f"{'  ' * depth}{part['name']}: {quantity_text(part['amount'], part['unit'])}"
    for below in part.get("parts", ()):
        yield from part_lines(below, depth + 1)


def plans_lines(plans: serving.Plans) -> Iterator[str]:
    """The cheapest plan in words, then those of the other ways to serve, or why there is none."""
    from ..archdsl import Infeasible

    texts: dict[serving.Way, Iterator[str] | None] = {
        "together": infeasible_lines(plans.together)
        if isinstance(plans.together, Infeasible)
        else _together(plans.together),
        "apart": infeasible_lines(plans.apart) if isinstance(plans.apart, Infeasible) else _apart(plans.apart),
        "split": None,
    }
    if isinstance(plans.split, Infeasible):
        texts["split"] = infeasible_lines(plans.split)
    elif plans.split is not None:
        texts["split"] = _split(plans.split)
    cheapest = plans.cheapest
    if cheapest is not None:
        yield from _marked("plan: ", texts[cheapest])
    for way, lines in texts.items():
        if way != cheapest:
            yield from _marked("else: ", lines)


def _marked(mark: str, lines: Iterator[str] | None) -> Iterator[str]:
    """Lines, the first with a mark."""
    for idx, line in enumerate(lines or ()):
        yield line if idx else mark + line


def _together(plan: serving.Plan) -> Iterator[str]:
    arrivals = plan.estimate.arrivals
    yield (
        f"{_count(plan.num_chips, 'chip')}: {_count(plan.replicas, 'replica')} of {plan.estimate.layout}, "
        f"{arrivals.requests:,.3g} requests each; {_times(arrivals)}, {plan.replicas * arrivals.power.amount / 1e3:,.2f} kW"
    )
    yield f"binding: {', '.join(plan.binding)}"


def _apart(plan: serving.PoolsPlan) -> Iterator[str]:
    pools, estimate = plan.pools, plan.estimate
    yield (
        f"{_count(plan.num_chips, 'chip')}: prompts on {pools.num_prefill} x {pools.prefill}, decoding on {pools.num_decode} x "
        f"{pools.decode}; TTFT {quantity_text(estimate.ttft.amount, 's')}, TPOT {quantity_text(estimate.tpot.amount, 's')}"
    )
    yield f"binding: {', '.join(plan.binding)}"


def _split(plan: serving.SplitPlan) -> Iterator[str]:
    arrivals = plan.estimate.arrivals
    yield (
        f"{_count(plan.num_chips, 'chip')}: {_count(plan.replicas, 'replica')} of {plan.estimate.layout} with "
        f"{plan.pool.num_chips} {plan.pool.name} for feed-forward networks, "
        f"{_count(plan.pool.micro_batches, 'micro-batch', 'micro-batches')}, "
        f"{arrivals.requests:,.3g} requests each; {_times(arrivals)}"
    )
    yield f"binding: {', '.join(plan.binding)}"


def _count(number: int, one: str, many: str = "") -> str:
    """A number of things."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _times(arrivals: serving.ArrivalEstimate) -> str:
    return f"TTFT {quantity_text(arrivals.ttft.amount, 's')}, TPOT {quantity_text(arrivals.tpot.amount, 's')}"


def front_table(rows: Sequence[FrontRow]) -> Table:
    """The front, fastest for a user first."""
    table = _table(
        ("layout", True),
        ("chips", False),
        ("requests", False),
        ("tokens/s/user", False),
        ("tokens/s/chip", False),
        ("TTFT", False),
        ("TPOT", False),
        ("holds", True),
    )
    for row in rows:
        table.add_row(
            str(row.layout),
            f"{row.layout.num_chips:,}",
            f"{row.requests:,.3g}",
            f"{row.tokens_per_s_per_user:,.1f}",
            f"{row.tokens_per_s_per_chip:,.1f}",
            quantity_text(row.ttft_s, "s"),
            quantity_text(row.tpot_s, "s"),
            ("yes" if row.holds else "no") + (" (knee)" if row.is_knee else ""),
        )
    return table


def infeasible_lines(infeasible: Infeasible) -> Iterator[str]:
    """Why nothing fits, and how much is missing."""
    from ..archdsl import counted

    yield f"infeasible: {infeasible}"
    yield f"missing: {counted(infeasible.demand - infeasible.limit, infeasible.unit)}"


def _parts(part: Part) -> str:
    return ", ".join(f"{below.name} {_amount(below)}" for below in part.parts if below.amount > 1e-6 * part.amount)


def _amount(part: Part) -> str:
    return quantity_text(part.amount, part.unit)


def _table(*columns: tuple[str, bool]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name, is_text in columns:
        table.add_column(name, justify="left" if is_text else "right", overflow="fold")
    return table
