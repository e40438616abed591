"""`tileloom serve`: what users and operators see of a language model on a system, and the cheapest way to serve it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..cli import ExitCode
from ..console import Terminal, examples
from ..out_paths import writable_folder
from .validate import ModeName

if TYPE_CHECKING:
    from ...archdsl import Infeasible
    from ...models import Part, serving

app = typer.Typer(
    name="serve",
    help="Serve a language model: what users see, and the cheapest plan that holds.",
    epilog=examples(
        "tileloom serve estimate --model llama3.1_70b --system 8xh100_sxm --tp 4 --isl 2048 --osl 256 --concurrency 32",
        "tileloom serve plan --model llama3.1_70b --system 8xh100_sxm --rate 2 --slo ttft=1s,tpot=40ms",
    ),
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


class PolicyName(StrEnum):
    """How prompts enter the batch."""

    CHUNKED = "chunked"
    PREFILL_FIRST = "prefill_first"


ModelOption = Annotated[
    str, typer.Option("--model", metavar="MODEL", help="A preset, a model's YAML file, or a config.json.")
]
SystemOption = Annotated[
    str,
    typer.Option("--system", metavar="SYSTEM", help="A system file or preset, or a number of GPUs such as 8xh100_sxm."),
]
TpOption = Annotated[int, typer.Option("--tp", min=1, help="Chips over which every layer is divided.")]
PpOption = Annotated[int, typer.Option("--pp", min=1, help="Stages that the layers are divided into.")]
DpOption = Annotated[int, typer.Option("--dp", min=1, help="Groups with sequences of their own that share experts.")]
EpOption = Annotated[int, typer.Option("--ep", min=1, help="Groups over which the experts are divided.")]
IslOption = Annotated[int, typer.Option("--isl", min=1, help="Tokens of a prompt.")]
OslOption = Annotated[int, typer.Option("--osl", min=1, help="Tokens of an answer.")]
ConcurrencyOption = Annotated[int, typer.Option("--concurrency", min=1, help="Users of one instance.")]
QuantisationOption = Annotated[
    str,
    typer.Option(
        "--quantisation",
        metavar="NAME",
        help="published, bf16, fp8 (w8a8), int8, fp4, int8_weights or int4_weights.",
    ),
]
KvOption = Annotated[str, typer.Option("--kv", metavar="DATATYPE", help="Datatype of the cache: bf16, fp8, int8, fp4.")]
PolicyOption = Annotated[PolicyName, typer.Option("--policy", help="How prompts enter the batch.")]
StepTokensOption = Annotated[int, typer.Option("--max-step-tokens", min=1, help="Most tokens of one step.")]
SequencesOption = Annotated[
    int | None,
    typer.Option(
        "--max-sequences", min=1, help="Most sequences in the batch of a group and slot; no limit if left out."
    ),
]
FrontEndOption = Annotated[
    float | None,
    typer.Option("--front-end-rate", help="Most output tokens/s from an instance to its users; no limit if left out."),
]
PrefixOption = Annotated[
    float, typer.Option("--prefix-hit", min=0.0, max=1.0, help="Share of a prompt that is in the cache already.")
]
DraftOption = Annotated[int, typer.Option("--draft-tokens", min=0, help="Tokens of a speculative draft.")]
AcceptanceOption = Annotated[
    float, typer.Option("--acceptance", min=0.0, max=1.0, help="Chance that a drafted token is accepted.")
]
DraftShareOption = Annotated[
    float, typer.Option("--draft-share", min=0.0, help="Time of drafting over that of the step that verifies.")
]
ImbalanceOption = Annotated[
    float, typer.Option("--load-imbalance", min=1.0, help="Rows of the fullest chip's experts over the mean.")
]
ModeOption = Annotated[ModeName, typer.Option("--mode", help="Constants: published ones, or fitted to measurements.")]
CalibrationOption = Annotated[str | None, typer.Option("--calibration", metavar="NAME", help="Which fitted constants.")]
PrefillPoolOption = Annotated[
    str | None,
    typer.Option(
        "--prefill",
        metavar="POOL",
        help="Prompts on instances of their own, such as tp=2,pp=1,instances=3; --tp and others are those that decode.",
    ),
]
InstancesOption = Annotated[int, typer.Option("--instances", min=1, help="Instances that decode, with --prefill.")]
RateOption = Annotated[
    float | None,
    typer.Option("--rate", help="Requests per second arriving at random; takes the place of --concurrency."),
]
FfnOption = Annotated[
    str | None,
    typer.Option(
        "--ffn", metavar="CHIPS", help="Feed-forward networks on other chips, such as 64xlpu.yaml or 8xh200_sxm."
    ),
]
FfnTpOption = Annotated[int, typer.Option("--ffn-tp", min=1, help="Chips of --ffn over which each layer is divided.")]
FfnLinkOption = Annotated[
    str,
    typer.Option(
        "--ffn-link", metavar="LINK", help="Between the GPUs and the chips of --ffn: bandwidth per direction, latency."
    ),
]
MicroBatchesOption = Annotated[
    int, typer.Option("--micro-batches", min=1, help="Parts of a batch that go round between GPUs and --ffn.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON with every part of every number.")]


@app.command(
    short_help="Estimate one layout at fixed concurrency or a rate.",
    help="Estimate one layout at fixed concurrency, or at a rate of random arrivals with --rate: times to the first and the "
    "next tokens, rates, power, memory. With --prefill prompts have instances of their own, at a --rate; with --ffn "
    "feed-forward networks run on chips of another kind.",
    epilog=examples(
        "tileloom serve estimate --model llama3.1_8b --system h100_sxm --isl 1024 --osl 256 --concurrency 16",
        "tileloom serve estimate --model gpt_oss_120b --system 4xh200_sxm --tp 4 --ep 4 --isl 4096 --osl 512 "
        "--concurrency 64 --kv fp8 --json",
    ),
)
def estimate(
    context: typer.Context,
    model: ModelOption,
    system: SystemOption,
    tp: TpOption = 1,
    pp: PpOption = 1,
    dp: DpOption = 1,
    ep: EpOption = 1,
    isl: IslOption = 1024,
    osl: OslOption = 256,
    concurrency: ConcurrencyOption = 1,
    quantisation: QuantisationOption = "published",
    kv: KvOption = "bf16",
    policy: PolicyOption = PolicyName.CHUNKED,
    max_step_tokens: StepTokensOption = 8192,
    max_sequences: SequencesOption = None,
    front_end_rate: FrontEndOption = None,
    prefix_hit: PrefixOption = 0.0,
    draft_tokens: DraftOption = 0,
    acceptance: AcceptanceOption = 0.0,
    draft_share: DraftShareOption = 0.0,
    load_imbalance: ImbalanceOption = 1.0,
    mode: ModeOption = ModeName.DATASHEET,
    calibration: CalibrationOption = None,
    prefill: PrefillPoolOption = None,
    instances: InstancesOption = 1,
    rate: RateOption = None,
    ffn: FfnOption = None,
    ffn_tp: FfnTpOption = 1,
    ffn_link: FfnLinkOption = "400 GB/s,2 us",
    micro_batches: MicroBatchesOption = 2,
    as_json: JsonOption = False,
) -> None:
    """Load, estimate, and print."""
    from ...archdsl import InfeasibleError
    from ...models import serving

    terminal = Terminal.of(context)
    if prefill is None:
        _refuse(context, ["instances"], "needs --prefill, and is not used without it")
    if rate is not None or prefill is not None:
        _refuse(context, ["concurrency"], "is not used with --rate: as many are served as it brings")
    if ffn is None:
        _refuse(context, ["ffn_tp", "ffn_link", "micro_batches"], "needs --ffn, and is not used without it")
    service = _service(
        model,
        system,
        serving.Traffic(isl=isl, osl=osl, prefix_hit=prefix_hit),
        serving.Speculation(draft_tokens=draft_tokens, acceptance=acceptance, draft_share=draft_share),
        quantisation=quantisation,
        kv=kv,
        policy=policy,
        max_step_tokens=max_step_tokens,
        max_sequences=max_sequences,
        front_end_rate=front_end_rate,
        load_imbalance=load_imbalance,
        mode=mode,
        calibration=calibration,
        feed_forward=None if ffn is None else _feed_forward(ffn, ffn_tp, ffn_link, micro_batches),
    )
    layout = serving.Layout(tp=tp, pp=pp, dp=dp, ep=ep)
    if prefill is not None and rate is None:
        raise typer.BadParameter("it needs --rate: requests per second that arrive at random", param_hint="'--prefill'")
    try:
        if prefill is not None and rate is not None:
            _print_pools(terminal, service, _parse_pools(prefill, layout, instances), rate, as_json=as_json)
        elif rate is not None:
            _print_arrivals(terminal, service, layout, rate, as_json=as_json)
        else:
            _print_estimate(terminal, service, layout, concurrency, as_json=as_json)
    except InfeasibleError as error:
        _say_infeasible(terminal, error.infeasible, as_json=as_json)
        raise typer.Exit(ExitCode.INFEASIBLE) from error


def _print_estimate(
    terminal: Terminal, service: serving.Service, layout: serving.Layout, concurrency: int, *, as_json: bool
) -> None:
    from ...models import serving
    from ..serving_documents import estimate_document
    from ..serving_views import estimate_table, service_line

    found = serving.serve(service, layout, concurrency)
    tested = serving.load_test(service, layout, concurrency)
    if as_json:
        terminal.json(estimate_document(service, found, tested))
    else:
        terminal.line(f"{service_line(service, layout)}; {concurrency:,} users")
        terminal.table(estimate_table(found, tested))
    _print_details(
        terminal, (found.tpot, found.ttft_queued, found.arrivals.tpot, found.arrivals.ttft, found.memory), found.notes
    )


def _print_details(terminal: Terminal, parts: Iterable[Part], notes: Iterable[str]) -> None:
    """What is behind the table: parts of its figures where details are asked for, and what was assumed."""
    from ..serving_documents import part_document
    from ..serving_views import part_lines

    for part in parts:
        for line in part_lines(part_document(part)):
            terminal.detail(line)
    for note in notes:
        terminal.note(f"note: {note}")


def _print_arrivals(
    terminal: Terminal, service: serving.Service, layout: serving.Layout, rate: float, *, as_json: bool
) -> None:
    from ...models import serving
    from ..serving_documents import arrivals_document
    from ..serving_views import arrivals_table, service_line

    found = serving.serve_at_rate(service, layout, rate)
    if as_json:
        terminal.json(arrivals_document(service, found))
    else:
        terminal.line(f"{service_line(service, layout)}; {rate:g} requests/s")
        terminal.table(arrivals_table(found))
    _print_details(terminal, (found.tpot, found.ttft, found.memory), found.notes)


def _print_pools(
    terminal: Terminal, service: serving.Service, pools: serving.Pools, rate: float, *, as_json: bool
) -> None:
    from ...models import serving
    from ..serving_documents import pools_document
    from ..serving_views import pools_table, service_line

    found = serving.serve_disaggregated(service, pools, rate)
    if as_json:
        terminal.json(pools_document(service, found))
    else:
        terminal.line(f"{service_line(service)}; {rate:g} requests/s")
        terminal.table(pools_table(found))
    _print_details(terminal, (found.tpot, found.ttft, found.transfer), found.notes)


@app.command(
    short_help="Find the cheapest plan for a rate of requests.",
    help="Find the plan with the fewest chips that serves a rate of requests within limits: layout, batch and replicas, "
    "prompts among those that decode or on instances of their own; with --ffn, or on a system with chips of another kind "
    "beside its GPUs, feed-forward networks on those as well. "
    "Prints the Pareto front of tokens per second and user against tokens per second and chip; with -o draws it.",
    epilog=examples(
        "tileloom serve plan --model llama3.1_70b --system 16xh100_sxm --rate 4 --slo ttft=1s,tpot=40ms",
        "tileloom serve plan --model llama3.1_8b --system 8xh200_sxm --rate 20 --slo tpot=20ms --json -o results/plan",
    ),
)
def plan(
    context: typer.Context,
    model: ModelOption,
    system: SystemOption,
    rate: Annotated[float, typer.Option("--rate", help="Requests per second, arriving at random.")],
    slo: Annotated[
        str, typer.Option("--slo", metavar="LIMITS", help="Limits on mean times, such as ttft=1s,tpot=40ms.")
    ] = "",
    isl: IslOption = 1024,
    osl: OslOption = 256,
    quantisation: QuantisationOption = "published",
    kv: KvOption = "bf16",
    policy: PolicyOption = PolicyName.CHUNKED,
    max_step_tokens: StepTokensOption = 8192,
    max_sequences: SequencesOption = None,
    front_end_rate: FrontEndOption = None,
    prefix_hit: PrefixOption = 0.0,
    draft_tokens: DraftOption = 0,
    acceptance: AcceptanceOption = 0.0,
    draft_share: DraftShareOption = 0.0,
    load_imbalance: ImbalanceOption = 1.0,
    mode: ModeOption = ModeName.DATASHEET,
    calibration: CalibrationOption = None,
    ffn: FfnOption = None,
    ffn_link: FfnLinkOption = "400 GB/s,2 us",
    as_json: JsonOption = False,
    folder: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", metavar="DIR", callback=writable_folder, help="Draw the trade-off into DIR, with plan.json."
        ),
    ] = None,
) -> None:
    """Load, search, and print."""
    from ...archdsl import Infeasible
    from ...models import serving
    from ..serving_documents import front_rows, plan_document, plans_notes
    from ..serving_views import front_table, plans_lines, service_line

    terminal = Terminal.of(context)
    if ffn is None:
        _refuse(context, ["ffn_link"], "needs --ffn, and is not used without it")
    service = _service(
        model,
        system,
        serving.Traffic(isl=isl, osl=osl, prefix_hit=prefix_hit),
        serving.Speculation(draft_tokens=draft_tokens, acceptance=acceptance, draft_share=draft_share),
        quantisation=quantisation,
        kv=kv,
        policy=policy,
        max_step_tokens=max_step_tokens,
        max_sequences=max_sequences,
        front_end_rate=front_end_rate,
        load_imbalance=load_imbalance,
        mode=mode,
        calibration=calibration,
    )
    times = _parse_slo(slo)
    limits = serving.Limits(requests_per_s=rate, ttft_s=times.get("ttft"), tpot_s=times.get("tpot"))
    pool = None if ffn is None else _feed_forward(ffn, 1, ffn_link, 1)
    found = serving.make_plans(service, limits, pool)
    together = found.together
    if found.cheapest is None:
        assert isinstance(together, Infeasible)
        _say_infeasible(terminal, together, as_json=as_json)
        raise typer.Exit(ExitCode.INFEASIBLE)
    document = plan_document(service, limits, found)
    if as_json:
        terminal.json(document)
    else:
        terminal.line(f"{service_line(service)}; {rate:g} requests/s")
        for line in plans_lines(found):
            terminal.line(line)
        if isinstance(together, serving.Plan):
            terminal.line("")
            terminal.table(front_table(front_rows(together.points)))
    for note in plans_notes(found):
        terminal.note(f"note: {note}")
    if folder is not None and isinstance(together, serving.Plan):
        _draw(terminal, service, together, document, folder)


def _service(
    model: str,
    system: str,
    traffic: serving.Traffic,
    speculation: serving.Speculation,
    *,
    quantisation: str,
    kv: str,
    policy: PolicyName,
    max_step_tokens: int,
    max_sequences: int | None,
    front_end_rate: float | None,
    load_imbalance: float,
    mode: ModeName,
    calibration: str | None,
    feed_forward: serving.FeedForwardPool | None = None,
) -> serving.Service:
    from ...archdsl import load_language_model
    from ...models import serving

    described = load_language_model(model)
    return serving.make_service(
        described,
        serving.numerics_of(described, quantisation, kv),
        serving.load_fabric(system),
        serving.Engine(
            policy=policy.value,
            max_step_tokens=max_step_tokens,
            max_sequences=max_sequences,
            front_end_tokens_per_s=front_end_rate,
            speculation=speculation,
        ),
        traffic,
        mode=mode.value,
        calibration=calibration,
        load_imbalance=load_imbalance,
        feed_forward=feed_forward,
    )


def _refuse(context: typer.Context, names: list[str], why: str) -> None:
    """Stop at options that the user gave and that would say nothing."""
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = f"--{name.replace('_', '-')}"
            raise typer.BadParameter(f"it {why}", param_hint=f"'{option}'")


def _parse_pools(text: str, decode: serving.Layout, num_decode: int) -> serving.Pools:
    """Both pools; the text is that of the instances for prompts."""
    from ...models import serving

    sizes = {"tp": 1, "pp": 1, "dp": 1, "ep": 1, "instances": 1}
    for item in text.split(","):
        name, equals, value = item.strip().partition("=")
        if not equals or name not in sizes or not value.isdigit() or int(value) < 1:
            names = ", ".join(sizes)
            raise typer.BadParameter(
                f"'{item}' is not NAME=NUMBER with a name of {names}, e.g. tp=2,instances=3", param_hint="'--prefill'"
            )
        sizes[name] = int(value)
    layout = serving.Layout(tp=sizes["tp"], pp=sizes["pp"], dp=sizes["dp"], ep=sizes["ep"])
    return serving.Pools(prefill=layout, num_prefill=sizes["instances"], decode=decode, num_decode=num_decode)


def _feed_forward(chips: str, chips_per_layer: int, link: str, micro_batches: int) -> serving.FeedForwardPool:
    """Chips for feed-forward networks from `NxARCH` and `BANDWIDTH,LATENCY`."""
    from ...archdsl import load_arch, units
    from ...models import serving

    count, mark, name = chips.partition("x")
    if not mark or not count.isdigit() or int(count) < 1 or not name:
        raise typer.BadParameter(f"'{chips}' is not a number of chips such as 8xh200_sxm", param_hint="'--ffn'")
    bandwidth, _, latency = link.partition(",")
    try:
        bytes_per_s = float(units.PER_SECOND.parse(bandwidth))
        latency_s = float(units.TIME.parse(latency))
    except ValueError as error:
        raise typer.BadParameter(f"{error}; write it like '400 GB/s,2 us'", param_hint="'--ffn-link'") from error
    return serving.pool_of(
        load_arch(name),
        int(count),
        chips_per_layer=chips_per_layer,
        link_bytes_per_s=bytes_per_s,
        link_latency_s=latency_s,
        micro_batches=micro_batches,
    )


def _parse_slo(text: str) -> dict[str, float]:
    """Limits in seconds, by name."""
    from ...archdsl import units

    found: dict[str, float] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = item.partition("=")
        if not equals or name not in ("ttft", "tpot"):
            raise typer.BadParameter(f"'{item}' is neither ttft=TIME nor tpot=TIME", param_hint="'--slo'")
        if name in found:
            raise typer.BadParameter(f"'{name}' is given twice", param_hint="'--slo'")
        if value.replace(".", "", 1).isdigit():
            raise typer.BadParameter(
                f"{item} has no unit; write {name}={value}ms or {name}={value}s", param_hint="'--slo'"
            )
        try:
            found[name] = float(units.TIME.parse(value))
        except ValueError as error:
            raise typer.BadParameter(f"{name}: {error}", param_hint="'--slo'") from error
    return found


def _say_infeasible(terminal: Terminal, infeasible: Infeasible, *, as_json: bool) -> None:
    from ..serving_documents import infeasible_document
    from ..serving_views import infeasible_lines

    if as_json:
        terminal.json(infeasible_document(infeasible))
        return
    for line in infeasible_lines(infeasible):
        terminal.line(line)


def _draw(
    terminal: Terminal, service: serving.Service, found: serving.Plan, document: dict[str, object], folder: Path
) -> None:
    from ..console import json_text
    from ..serving_figures import draw_plan

    files = draw_plan(service, found, folder)
    path = folder / "plan.json"
    path.write_text(json_text(document) + "\n", encoding="utf-8")
    for written in (files.png, files.svg, files.csv, path):
        terminal.note(f"wrote {written}")
