"""Constants fitted on one GPU or two, and another predicted from its data sheet: A100, H100 and B200, each left out in turn.

    python benchmarks/gpu_transfer.py DATA

DATA is a folder with `gpu_measured/frameworks`. Errors are over the rows of the predicted chip that its own fit did not see, so
that all columns compare the same rows. Takes about a minute.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tileloom.archdsl import GpuArch, load_arch
from tileloom.models import MeasuredTable, fit_constants, make_chip, read_measurements, validate
from tileloom.models.gpu.chip import Chip
from tileloom.models.gpu.times import KernelTimes
from tileloom.models.validation.measured import Measurements
from tileloom.models.validation.target import Measurable

CALIBRATION = "frameworks_warm"
FILES = {"a100_sxm": "a100_sxm", "h100_sxm": "h100_sxm", "b200": "b200_sxm"}
"""Chips, and what their files of measurements begin with."""
GEMM = "gemm_bfloat16"
ATTENTION = ("attn_context_qbfloat16_kvbfloat16", "attn_generation_qbfloat16_kvbfloat16")
TITLES = {GEMM: "GEMM bf16", ATTENTION[0]: "attention context", ATTENTION[1]: "attention generation"}
ATTENTION_CONSTANTS = ("attention_efficiency", "attention_block_s")
"""Constants that no GEMM has; they are fitted to attention when the others are."""
NUM_STARTS = 2
HEAD = """
## Transfer between chips

Constants of frameworks' kernels (`frameworks_warm`) fitted on other chips; the predicted chip gives its data sheet alone. Mean errors in percent over the rows that the chip's
own fit did not see. Written by `benchmarks/gpu_transfer.py`.

| predicted | table | data sheet | own fit | {others} | the other two together |
|---|---|---|---|{lines}---|
"""
TAIL = """
Constants carry a generation's software and pipelines, so they transfer within one (`generation` in the descriptions), not from one to the next: for products they can be worse than the
data sheet's, for attention they mostly are better. An H200 is the H100's die with other memory and borrows the H100's constants, with a note in every result; only bandwidth, capacity and
power come from its own description. There are no kernel timings of an H200; that its time per output token is met as well as the H100's (table above) is the check.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnChip:
    """Kernels that stay on one chip: whichever chip they are priced on gives its constants alone.

    Attributes:
        kernels: The kernels.
        arch: The chip that they ran on.
    """

    kernels: Measurable
    arch: GpuArch

    def __len__(self) -> int:
        return len(self.kernels)

    def label(self, idx: int) -> str:
        """The kernel's own label."""
        return self.kernels.label(idx)

    def times(self, chip: Chip) -> KernelTimes:
        """What they cost on their own chip with another's constants."""
        return self.kernels.times(replace(chip, arch=self.arch))


def gpu(name: str) -> GpuArch:
    """A preset GPU."""
    arch = load_arch(name)
    if not isinstance(arch, GpuArch):
        raise TypeError(f"{name} is no GPU")
    return arch


def tables_of(data: Path) -> dict[tuple[str, str], MeasuredTable]:
    """All tables, by chip and kind."""
    folder = data / "gpu_measured" / "frameworks"
    return {
        (chip, kind): read_measurements(folder / f"{file}_{kind}.csv")
        for chip, file in FILES.items()
        for kind in TITLES
    }


def fitted_on(chips: list[str], tables: Mapping[tuple[str, str], MeasuredTable]) -> Mapping[str, float]:
    """Constants fitted on several chips at once: first those of GEMM to GEMM, then those of attention."""
    names = [name for name in gpu(chips[0]).calibrations[CALIBRATION].constants if name not in ATTENTION_CONSTANTS]
    start = make_chip(gpu(chips[0]), "calibrated", CALIBRATION)
    products = fit_constants([placed(tables[chip, GEMM], chip) for chip in chips], start, names, NUM_STARTS)
    attention = fit_constants(
        [placed(tables[chip, kind], chip) for chip in chips for kind in ATTENTION],
        start.with_constants(products.constants),
        ATTENTION_CONSTANTS,
        NUM_STARTS,
    )
    return {**products.constants, **attention.constants}


def placed(table: MeasuredTable, chip: str) -> list[Measurements[Chip]]:
    """A table's measurements, kept on their chip."""
    return [replace(one, kernels=OnChip(kernels=one.kernels, arch=gpu(chip))) for one in table.measurements]


def transfer_lines(data: Path) -> Iterator[str]:
    """The section of the page: its head and the rows of its table."""
    tables = tables_of(data)
    own = {name: make_chip(gpu(name), "calibrated", CALIBRATION) for name in FILES}
    yield HEAD.format(others=" | ".join(f"from {name}" for name in FILES), lines="---|" * len(FILES))
    for name, chip in own.items():
        both = chip.with_constants(fitted_on([other for other in FILES if other != name], tables))
        tried = [make_chip(chip.arch), chip, *(chip.with_constants(other.constants) for other in own.values()), both]
        for kind, title in TITLES.items():
            measured = tables[name, kind].measurements
            errors = [validate(measured, one, "held_back").overall.mape for one in tried]
            yield f"| {name} | {title} | {' | '.join(f'{error:.1f}' for error in errors)} |\n"
    yield TAIL


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    for line in transfer_lines(parser.parse_args().data):
        print(line, end="", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
