"""Tables of measured serving: time to first token and time per output token at fixed concurrency."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from ...archdsl import GpuArch, LanguageModel, ModelError, load_arch, load_language_model
from ..gpu.chip import Chip
from ..gpu.times import Floats, Ints, KernelTimes
from ..serving import (
    SCHEDULER_CONSTANT,
    Engine,
    Layouts,
    LoadTest,
    Service,
    ServiceColumns,
    Traffic,
    fabric_of_chips,
    numerics_of,
    serve_columns,
)
from .measured import Measurements
from .tables import Table, TableRow

SERVING_MODELS = {
    "meta-llama/Llama-3.1-8B-Instruct": "llama3.1_8b",
    "meta-llama/Llama-3.1-70B-Instruct": "llama3.1_70b",
}
METRICS = {
    "TPOT": "TPOT",
    "TTFT": "mean/median TTFT",
    "TTFT_spare_slot": "mean/median TTFT",
    "TTFT_steady": "mean/median TTFT",
    "TTFT_idle": "mean/median TTFT",
}
"""What can be compared, and the table's name of it.

TTFT is that of a load test; with `TTFT_spare_slot` of an engine that keeps one of as many slots as there are users to itself;
`TTFT_steady` that of a steady state without bursts; `TTFT_idle` that of a prompt that waits for nothing."""
CHIPS_OF_A_NODE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRuns:
    """Load tests of one model, precision and prompt on one kind of chip, as if they were kernels.

    Attributes:
        model: Name of the model in the table.
        system: Name of the chip.
        precision: Datatype of the weights and products.
        isl: Tokens of a prompt.
        osl: Tokens of an answer.
        tp: Chips that a run used `[count]`.
        concurrency: Users `[count]`.
        metric: What was measured, of `METRICS`.
    """

    model: str
    system: str
    precision: str
    isl: int
    osl: int
    tp: Ints
    concurrency: Ints
    metric: str

    def __len__(self) -> int:
        return len(self.tp)

    def label(self, idx: int) -> str:
        """The run on one line; both metrics of a run have the same, so that they are on the same side of a split."""
        return (
            f"{self.model} {self.system} TP{self.tp[idx]} {self.precision} isl={self.isl} osl={self.osl} "
            f"concurrency={self.concurrency[idx]}"
        )

    def times(self, chip: Chip) -> KernelTimes:
        """The measured metric as the model has it.

        Raises:
            ModelError: The chip lacks the datatype.
        """
        columns = self._columns(chip)
        state = columns.state
        zero = np.zeros(len(self))
        return KernelTimes(
            serial_s=self._parts(columns),
            regime=np.where(state.decode_step_s > state.prompts_per_step * state.prompt_s, 1, 0),
            ops=zero,
            main_memory_bytes=zero,
            notes=(*_notes(self.system, chip), *state.notes),
        )

    def _parts(self, columns: ServiceColumns) -> dict[str, Floats]:
        """The metric as parts that follow one another."""
        state = columns.state
        if self.metric == "TPOT":
            per_token = state.steps_per_request / max(1, self.osl - 1)
            prompts_s = state.prompts_met * state.prompt_s / max(1, self.osl - 1)
            return {"decoding": per_token * state.decode_step_s, "prompts of others": prompts_s}
        if self.metric == "TTFT_idle":
            return {"prompt": columns.ttft_s}
        if self.metric == "TTFT_steady":
            waiting = columns.waiting
            others = {"room in the batch": waiting.slot_s, "prompts of others": waiting.running_s + waiting.prompts_s}
            return {**others, "own steps": state.mixed_prompt_s}
        tests = [self._load_test(columns, idx) for idx in range(len(self))]
        return {
            "waiting": np.array([one.waiting_s for one in tests]),
            "own steps": np.array([one.own_s for one in tests]),
        }

    def _load_test(self, columns: ServiceColumns, idx: int) -> LoadTest:
        if self.metric != "TTFT_spare_slot":
            return columns.load_test(idx)
        users = int(self.concurrency[idx])
        engine = replace(columns.service.engine, max_sequences=max(1, users - 1))
        return replace(columns, service=replace(columns.service, engine=engine)).load_test(idx)

    def _columns(self, chip: Chip) -> ServiceColumns:
        model = _model(self.model)
        arch = _arch(self.system, chip)
        ones = np.ones_like(self.tp)
        service = Service(
            model=model,
            numerics=numerics_of(model, self.precision),
            fabric=fabric_of_chips(arch, CHIPS_OF_A_NODE),
            chip=replace(chip, arch=arch),
            engine=Engine(scheduler_s_per_sequence=chip.constants[SCHEDULER_CONSTANT]),
            traffic=Traffic(isl=self.isl, osl=self.osl),
        )
        layouts = Layouts(tp=self.tp, pp=ones, dp=ones, ep=ones)
        return serve_columns(service, layouts, self.concurrency.astype(np.float64))


def read_serving(table: Table, column: str) -> list[Measurements]:
    """Runs at fixed concurrency; `column` is the metric, times in milliseconds."""
    groups: dict[tuple[str, str, str, int, int], list[TableRow]] = {}
    for row in table.rows:
        if row.text("metric") not in METRICS.values():
            raise row.fault("metric", f"one of {', '.join(dict.fromkeys(METRICS.values()))}")
        if row.text("unit") != "ms":
            raise row.fault("unit", "ms")
        if row.text("metric") == METRICS[column]:
            groups.setdefault(_group(row), []).append(row)
    return [_measurements(group, rows, column) for group, rows in groups.items()]


def _group(row: TableRow) -> tuple[str, str, str, int, int]:
    if row.text("model") not in SERVING_MODELS:
        raise row.fault("model", f"one of {', '.join(SERVING_MODELS)}")
    if not row.text("parallel").startswith("TP"):
        raise row.fault("parallel", "TP and a number of chips")
    precision = row.text("precision").split()[0]  # "bf16 (inferred)"
    return row.text("model"), row.text("system"), precision, row.whole("isl", 1), row.whole("osl", 1)


def _measurements(group: tuple[str, str, str, int, int], rows: list[TableRow], metric: str) -> Measurements:
    model, system, precision, isl, osl = group
    runs = ServingRuns(
        model=model,
        system=system,
        precision=precision,
        isl=isl,
        osl=osl,
        tp=np.array([row.whole("n_gpus", 1) for row in rows]),
        concurrency=np.array([int(row.number("batch")) for row in rows]),
        metric=metric,
    )
    return Measurements(
        name=f"{metric} {system} {precision}",
        kernels=runs,
        quantity="time_s",
        values=np.array([row.number("value") * 1e-3 for row in rows]),
        lines=np.array([row.line for row in rows]),
    )


@cache
def _model(name: str) -> LanguageModel:
    return load_language_model(SERVING_MODELS[name])


def _arch(system: str, chip: Chip) -> GpuArch:
    """The chip that the runs used; another than the one whose constants are tried is read from its preset."""
    return chip.arch if system == chip.arch.name else _preset(system)


@cache
def _preset(system: str) -> GpuArch:
    arch = load_arch(system)
    if not isinstance(arch, GpuArch):
        raise ModelError(f"{system} is of kind {arch.kind}; language models are served on GPUs")
    return arch


def _notes(system: str, chip: Chip) -> tuple[str, ...]:
    if system == chip.arch.name:
        return ()
    return (f"runs on {system}: its own description, with the constants of {chip.arch.name}",)
