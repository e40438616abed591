"""The sweep specification: what its YAML file may say.

`docs/sweep_format.md` explains the format with examples. Everything here is checked without loading the
architecture; `loading.py` checks the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from ..archdsl import Fault, Spec, is_notation, units
from .objectives import Objective

MAX_GRID_POINTS = 1_000_000

Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", max_length=80)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class ServeTerms(Spec):
    """How a language model is served: traffic, layout of one instance, datatypes and batching, as `tileloom serve` has them."""

    isl: int = Field(default=1024, ge=1, description="Tokens of a prompt.")
    osl: int = Field(default=256, ge=2, description="Tokens of an answer.")
    concurrency: int = Field(default=1, ge=1, description="Users of the instance, each asking again when answered.")
    tp: int = Field(default=1, ge=1, description="Chips over which every matrix and head is divided.")
    pp: int = Field(default=1, ge=1, description="Stages that the layers are divided into.")
    dp: int = Field(default=1, ge=1, description="Groups of chips with attention of their own.")
    ep: int = Field(default=1, ge=1, description="Groups over which experts are divided.")
    quantisation: str = Field(
        default="published", description="`published`, `bf16`, `fp8`, `int8`, `fp4`, `int8_weights` or `int4_weights`."
    )
    kv: str = Field(default="bf16", description="Datatype of the cache: `bf16`, `fp8`, `int8` or `fp4`.")
    policy: Literal["chunked", "prefill_first"] = Field(default="chunked", description="How prompts enter the batch.")
    max_step_tokens: int = Field(default=8192, ge=1, description="Most tokens of one step.")
    prefix_hit: float = Field(default=0.0, ge=0, lt=1, description="Share of a prompt that is in the cache already.")
    draft_tokens: int = Field(default=0, ge=0, description="Tokens of a speculative draft.")
    acceptance: float = Field(default=0.0, ge=0, lt=1, description="Chance that a drafted token is accepted.")
    draft_share: float = Field(default=0.0, ge=0, description="Time of drafting over that of the step that verifies.")
    load_imbalance: float = Field(default=1.0, ge=1, description="Rows of the fullest chip's experts over the mean.")


def _as_entry(value: object) -> object:
    return {"workload": value} if isinstance(value, str) else value


class WorkloadEntry(Spec):
    """One workload of the sweep; a text alone is its `workload`."""

    workload: str = Field(
        min_length=1,
        description="ONNX file (relative to the sweep file), notation such as `gemm:M=512,N=512,K=512,bits=8`, `onnx:NAME` or `preset:NAME`; "
        "with `serve` a language model: a preset, or a file relative to the sweep file.",
    )
    name: Name | None = Field(default=None, description="Name in results; made from the workload when left out.")
    shapes: dict[str, Annotated[int, Field(ge=1)]] = Field(
        default_factory=dict, description="Sizes of the network's dynamic dims, e.g. `{batch: 1}`."
    )
    serve: ServeTerms | None = Field(
        default=None, description="How the language model is served; without it the workload is a network of ops."
    )

    def faults(self) -> Iterator[Fault]:
        """Faults between fields."""
        if self.serve is not None and self.shapes:
            yield Fault(("shapes",), "a served model has no open dims; its sizes stand in `serve`: leave `shapes` out")


class MappingOptions(Spec):
    """How every op is mapped."""

    objective: Literal["energy", "latency", "edp", "main_memory_bytes"] = Field(
        default="energy", description="What the mapper minimises for each op."
    )
    fidelity: Literal["throughput", "detailed"] = Field(
        default="throughput", description="Fidelity of the latency model."
    )
    convention: Literal["tileloom", "accelforge", "zigzag", "timeloop"] = Field(
        default="tileloom", description="Counting convention."
    )
    time_limit_s: units.Time | None = Field(
        default=None,
        validation_alias="time_limit",
        serialization_alias="time_limit",
        description="Longest search for one op, e.g. `10 s`; a search that it ends is not reproducible. None by default.",
    )


class ConstantsOptions(Spec):
    """Which constants the models of GPUs and their links have."""

    mode: Literal["datasheet", "calibrated"] = Field(
        default="datasheet", description="`datasheet`: published values alone; `calibrated`: fitted to measurements."
    )
    calibration: str | None = Field(
        default=None, min_length=1, description="Name of the calibration; may be left out where there is one."
    )

    def faults(self) -> Iterator[Fault]:
        """Faults between fields."""
        if self.calibration is not None and self.mode == "datasheet":
            yield Fault(("calibration",), "mode datasheet fits nothing; add `mode: calibrated`, or leave this out")


class GridSampler(Spec):
    """Every combination of values."""

    kind: Literal["grid"] = Field(default="grid", description="Every combination of values.")


class RandomSampler(Spec):
    """Combinations drawn without repetition."""

    kind: Literal["random"] = Field(description="Combinations drawn without repetition.")
    seed: Seed = Field(description="Seed; the same seed draws the same points, and more `points` only add to them.")
    points: int = Field(ge=1, le=MAX_GRID_POINTS, description="Number of design points.")


class Nsga2Sampler(Spec):
    """Evolutionary multi-objective search."""

    kind: Literal["nsga2"] = Field(description="NSGA-II: evolutionary multi-objective search (extra `opt`).")
    seed: Seed = Field(description="Seed; the same seed visits the same points.")
    population: int = Field(ge=4, le=10_000, description="Design points per generation.")
    generations: int = Field(ge=1, le=10_000, description="Number of generations, the first random one included.")


Sampler = Annotated[GridSampler | RandomSampler | Nsga2Sampler, Field(discriminator="kind")]


class SweepSpec(Spec):
    """One sweep: architectures or systems around a base, over workloads."""

    schema_version: Literal[1] = Field(description="Version of the format: 1.")
    name: Name = Field(description="Name of the sweep, in reports and as the output directory.")
    description: str = Field(default="", description="What the sweep is to find out.")
    base: str = Field(
        min_length=1,
        description="Architecture or system that is varied: a preset or a file relative to the sweep file.",
    )
    workloads: tuple[Annotated[WorkloadEntry, BeforeValidator(_as_entry)], ...] = Field(
        min_length=1, description="Workloads; metrics are sums over them, of served models the worst."
    )
    space: dict[str, Any] = Field(
        min_length=1,
        description="Dotted path of a field of the architecture, or of `serve` of a workload, to its values: a list, "
        "`{from, to, step}`, `{from, to, log_steps}` or `{from, to, factor}`.",
    )
    constraints: tuple[str, ...] = Field(
        default=(), description="Comparisons over metrics and dotted paths; points that violate one are excluded."
    )
    objectives: tuple[Objective, ...] = Field(
        default=(), min_length=1, description="What the Pareto front trades off; by default what suits the workloads."
    )
    mapping: MappingOptions = Field(
        default_factory=MappingOptions, description="How every op is mapped onto a spatial architecture."
    )
    constants: ConstantsOptions = Field(
        default_factory=ConstantsOptions, description="Constants of the models of GPUs and their links."
    )
    sampler: Sampler = Field(default_factory=GridSampler, description="Which combinations are run.")

    def faults(self) -> Iterator[Fault]:
        """Faults between fields."""
        for path, first, name in _repeats({("workloads", i): n for i, n in enumerate(self.workload_names)}):
            yield Fault(path, f"workloads.{first[1]} and this one are both named '{name}'; give one another `name`")
        for path, first, name in _repeats({("objectives", i): o.value for i, o in enumerate(self.objectives)}):
            yield Fault(path, f"objective '{name}' is given twice; the first is objectives.{first[1]}")

    @property
    def workload_names(self) -> tuple[str, ...]:
        """Name of each workload in results."""
        return tuple(entry.name or default_name(entry.workload) for entry in self.workloads)


def default_name(workload: str) -> str:
    """Name of a workload that was given none: a notation itself, a file's stem, or the name without options."""
    if is_notation(workload):
        return workload
    for prefix in ("preset:", "onnx:"):
        workload = workload.removeprefix(prefix)
    stem = workload.partition(".onnx")[0].replace("\\", "/").rpartition("/")[2]
    return stem.partition(":")[0] or workload


def _repeats(
    names: Mapping[tuple[str, int], str],
) -> Iterator[tuple[tuple[str, int], tuple[str, int], str]]:
    """Path, path of the first one, and name, of each name that came before."""
    first: dict[str, tuple[str, int]] = {}
    for path, name in names.items():
        if name in first:
            yield path, first[name], name
        first.setdefault(name, path)
