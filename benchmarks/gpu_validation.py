"""Every table of measurements against the models of its chip: the page `docs/gpu_validation.md` and its plots.

    python benchmarks/gpu_validation.py DATA -o docs

DATA is a folder with `gpu_measured/h100_sxm`, `gpu_measured/frameworks` and `llm_serving_measured.csv`; tables that are not
there are left out, and the page says which. Rows that constants were fitted to are left out of calibrated figures.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpu_transfer import FILES, TITLES, transfer_lines

from tileloom.archdsl import ToolkitError
from tileloom.models import Mode
from tileloom.sweeps.plots.predicted import plot_predicted, predicted_of
from tileloom.sweeps.validating import Compared, compare
from tileloom.sweeps.version import code_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One table and what it is compared with."""

    title: str
    file: str
    arch: str
    column: str | None = None
    calibration: str | None = None
    is_drawn: bool = False
    is_ranked: bool = False


OWN = "gpu_measured/h100_sxm"
FRAMEWORKS = "gpu_measured/frameworks"
CASES = (
    Case(title="GEMM", file=f"{OWN}/gemm.csv", arch="h100_sxm", is_drawn=True),
    Case(title="memory-bound ops", file=f"{OWN}/memory.csv", arch="h100_sxm", is_drawn=True),
    Case(title="attention", file=f"{OWN}/attention.csv", arch="h100_sxm", is_drawn=True),
    Case(title="convolution", file=f"{OWN}/conv.csv", arch="h100_sxm"),
    Case(title="Triton GEMM in 85 ways", file=f"{OWN}/triton_gemm.csv", arch="h100_sxm", is_ranked=True),
    Case(title="Llama layers, ResNet-50", file=f"{OWN}/block.csv", arch="h100_sxm"),
    Case(title="energy per call", file=f"{OWN}/energy.csv", arch="h100_sxm"),
    *(
        Case(title=f"{chip}: GEMM bf16", file=f"{FRAMEWORKS}/{file}_gemm_bfloat16.csv", arch=chip, is_drawn=True)
        for chip, file in (("h100_sxm", "h100_sxm"), ("a100_sxm", "a100_sxm"), ("b200", "b200_sxm"))
    ),
    *(
        Case(title=f"{chip}: attention {kind}", file=f"{FRAMEWORKS}/{file}_attn_{kind}_qbfloat16_kvbfloat16.csv", arch=chip)
        for chip, file in (("h100_sxm", "h100_sxm"), ("a100_sxm", "a100_sxm"), ("b200", "b200_sxm"))
        for kind in ("context", "generation")
    ),
    Case(title="h100_sxm: GEMM fp8 (vLLM)", file=f"{FRAMEWORKS}/h100_sxm_gemm_fp8.csv", arch="h100_sxm", column="latency_ms_vllm", is_drawn=True),
    Case(title="b200: GEMM fp8 (vLLM)", file=f"{FRAMEWORKS}/b200_sxm_gemm_fp8.csv", arch="b200", column="latency_ms_vllm"),
    *(
        Case(title=f"{chip}: GEMM fp8 with its quantisation (TensorRT-LLM)", file=f"{FRAMEWORKS}/{file}_gemm_fp8.csv", arch=chip, column="latency_ms_trtllm")
        for chip, file in (("h100_sxm", "h100_sxm"), ("b200", "b200_sxm"))
    ),
    *(
        Case(title=f"{chip}: quantisation to fp8", file=f"{FRAMEWORKS}/{file}_memop_computescale.csv", arch=chip)
        for chip, file in (("h100_sxm", "h100_sxm"), ("b200", "b200_sxm"))
    ),
    Case(title="b200: GEMM nvfp4", file=f"{FRAMEWORKS}/b200_sxm_gemm_nvfp4.csv", arch="b200", is_drawn=True),
    Case(title="a100_sxm: GEMM int8 weights", file=f"{FRAMEWORKS}/a100_sxm_gemm_int8_wo.csv", arch="a100_sxm", is_drawn=True),
    *(
        Case(title=f"{system}: {title}", file=f"{FRAMEWORKS}/{chip}_{file}.csv", arch=system)
        for system, chip in (("dgx_h100", "h100_sxm"), ("dgx_a100", "a100_sxm"), ("dgx_b200", "b200_sxm"))
        for title, file in (("NCCL", "nccl"), ("custom all-reduce", "custom_allreduce"))
    ),
    Case(title="TPOT of Llama-3.1-8B", file="llm_serving_measured.csv", arch="h100_sxm", is_drawn=True),
    Case(title="TTFT of Llama-3.1-8B, load test", file="llm_serving_measured.csv", arch="h100_sxm", column="TTFT"),
    Case(
        title="TTFT, load test of an engine with a slot fewer", file="llm_serving_measured.csv", arch="h100_sxm", column="TTFT_spare_slot"
    ),
    Case(title="TTFT, steady state", file="llm_serving_measured.csv", arch="h100_sxm", column="TTFT_steady"),
    Case(title="TTFT, prompt alone", file="llm_serving_measured.csv", arch="h100_sxm", column="TTFT_idle"),
)  # fmt: skip
HEAD = """# GPU models against measurements

Written by `python benchmarks/gpu_validation.py DATA -o docs`, version {version}. Errors are in percent of the measured value. `data sheet`: published figures alone,
all rows. `calibrated`: at most twelve constants per chip and condition of measurement, kept in the presets with their source and date; only rows that a hash of the
shape held back from the fit count, all rows of tables that nothing was fitted to (marked *). [gpu_kernels.md](gpu_kernels.md), [systems.md](systems.md) and
[serving.md](serving.md) say what the models are; `tileloom validate` gives the worst rows of a table with the model's reasons.

| table | data sheet: n | MAPE | median | calibrated: n | MAPE | median | p90 | bias |
|---|---|---|---|---|---|---|---|---|
"""


RANKINGS_HEAD = """
## Ways to make one shape, ranked

Spearman's correlation of predicted and measured times, and how much slower the model's first choice was measured than the fastest way. All shapes; *: held back
from the fit.

| shape | ways | data sheet: correlation | first choice | slower by | calibrated: correlation | first choice | slower by |
|---|---|---|---|---|---|---|---|
"""


def lines_of(case: Case, data: Path, plots: Path) -> Iterator[str]:
    """The row of a table, its datatypes below it, and its plot."""
    path = data / case.file
    datasheet = compare(path, case.arch, mode="datasheet", calibration=None, column=case.column, rows="all")
    calibrated = compare(
        path, case.arch, mode="calibrated", calibration=case.calibration, column=case.column, rows="auto"
    )
    yield row_of(case.title, datasheet, calibrated, None)
    names = list(calibrated.validation.by_name())
    for name in names if 1 < len(names) <= 8 else []:
        yield row_of(f"&nbsp; {name}", datasheet, calibrated, name)
    if case.is_drawn:
        plots.mkdir(parents=True, exist_ok=True)
        plot_predicted(predicted_of(calibrated, commit=code_version()), plots / calibrated.stem)


def ranking_lines_of(case: Case, data: Path) -> Iterator[str]:
    """One row per shape of a table whose shapes were made in several ways."""
    modes: tuple[Mode, Mode] = ("datasheet", "calibrated")
    both = [
        compare(data / case.file, case.arch, mode=mode, calibration=None, column=case.column, rows="all")
        for mode in modes
    ]
    for plain, fitted in zip(*(one.validation.rankings() for one in both), strict=True):
        mark = " *" if plain.is_held_back else ""
        cells = (
            f"{one.rank_correlation:.3f} | {one.first_choice} | {one.regret_percent:.1f}" for one in (plain, fitted)
        )
        yield f"| {plain.label}{mark} | {plain.n} | {' | '.join(cells)} |"


def row_of(title: str, datasheet: Compared, calibrated: Compared, name: str | None) -> str:
    """One row of the page's table."""
    plain = datasheet.validation.by_name().get(name) if name else datasheet.validation.overall
    fitted = calibrated.validation.by_name()[name] if name else calibrated.validation.overall
    mark = "" if calibrated.rows == "held_back" else " *"
    left = f"{plain.n} | {plain.mape:.1f} | {plain.median_ape:.1f}" if plain is not None else "- | - | -"
    right = f"{fitted.n}{mark} | {fitted.mape:.1f} | {fitted.median_ape:.1f} | {fitted.p90_ape:.1f} | {fitted.signed_bias:+.1f}"
    return f"| {title} | {left} | {right} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("docs"))
    arguments = parser.parse_args()
    plots = arguments.output / "images" / "gpu_validation"
    lines: list[str] = []
    rankings: list[str] = []
    missing: list[str] = []
    for case in CASES:
        if not (arguments.data / case.file).exists():
            missing.append(case.file)
            continue
        try:
            lines += list(lines_of(case, arguments.data, plots))
            rankings += list(ranking_lines_of(case, arguments.data)) if case.is_ranked else []
        except ToolkitError as error:
            lines.append(f"| {case.title} | {error} | | | | | | | |")
        print(lines[-1], file=sys.stderr, flush=True)
    text = HEAD.format(version=code_version()) + "\n".join(lines) + "\n"
    text += RANKINGS_HEAD + "\n".join(rankings) + "\n"
    pictures = [
        f"![Predicted against measured: {path.stem}](images/gpu_validation/{path.name})"
        for path in sorted(plots.glob("*.png"))
    ]
    if not any(f"{FRAMEWORKS}/{file}_{kind}.csv" in missing for file in FILES.values() for kind in TITLES):
        text += "".join(transfer_lines(arguments.data))
    text += "\n" + "\n\n".join(pictures) + "\n"
    if missing:
        text += f"\nNot there: {', '.join(missing)}.\n"
    (arguments.output / "gpu_validation.md").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
