"""Measured serving: reading it, and how far the model is from the runs that may be fitted.

The data are those rows of the public samples of the Python package aiconfigurator-core 0.12.0 (NVIDIA, Apache-2.0,
systems/silicon_sample.csv) with answers of 256 or 500 tokens that are not held back.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tileloom.archdsl import GpuArch, ModelError, load_arch
from tileloom.models.gpu.chip import Chip, make_chip
from tileloom.models.validation import fit_constants, read_measurements, validate

DATA = Path(__file__).parents[2] / "data" / "llm_serving_fitted.csv"
SCHEDULER = "scheduler_s_per_sequence"
# With published constants for everything else; measured 10.6 %, the rest is room for other kernel models.
MAX_TPOT_MAPE = 15.0


@pytest.fixture(scope="module")
def chip() -> Chip:
    """An H100 with published constants."""
    arch = load_arch("h100_sxm")
    assert isinstance(arch, GpuArch)
    return make_chip(arch)


def test_no_row_of_the_data_is_held_back() -> None:
    measurements = read_measurements(DATA).measurements
    assert not any(one.held_back.any() for one in measurements)


def test_both_metrics_of_a_run_are_on_the_same_side_of_the_split() -> None:
    labels = [
        {
            one.kernels.label(idx)
            for one in read_measurements(DATA, metric).measurements
            for idx in range(len(one.kernels))
        }
        for metric in ("TPOT", "TTFT", "TTFT_spare_slot", "TTFT_steady", "TTFT_idle")
    ]
    assert all(one == labels[0] for one in labels)


def test_tpot_is_within_its_bound_with_one_fitted_constant(chip: Chip) -> None:
    measurements = read_measurements(DATA).measurements
    fit = fit_constants([measurements], chip, [SCHEDULER])
    assert 5e-6 < fit.constants[SCHEDULER] < 100e-6
    found = validate(measurements, chip.with_constants(fit.constants), rows="fitted")
    assert found.overall.n > 40
    assert found.overall.mape < MAX_TPOT_MAPE


def test_load_test_is_nearer_to_measured_ttft_than_a_steady_state(chip: Chip) -> None:
    # The one cause that is not modelled, a limit of the front end, makes measured times longer, never shorter.
    errors = {
        metric: validate(read_measurements(DATA, metric).measurements, chip.with_constants({SCHEDULER: 18e-6})).overall
        for metric in ("TTFT", "TTFT_steady", "TTFT_idle")
    }
    assert errors["TTFT"].mape < 50 < errors["TTFT_steady"].mape < errors["TTFT_idle"].mape
    assert errors["TTFT"].signed_bias < 0


def test_runs_on_another_chip_are_priced_on_that_chip_and_say_so(chip: Chip) -> None:
    measurements = read_measurements(DATA).measurements
    found = validate(measurements, chip)
    assert "runs on h200_sxm: its own description, with the constants of h100_sxm" in found.notes
    (h200,) = (
        one for one in measurements if one.name == "TPOT h200_sxm fp8" and one.kernels.label(0).count("isl=4000")
    )
    arch = load_arch("h200_sxm")
    assert isinstance(arch, GpuArch)
    assert np.array_equal(h200.kernels.times(chip).time_s, h200.kernels.times(make_chip(arch)).time_s)


def test_times_are_the_sum_of_named_parts(chip: Chip) -> None:
    for metric, parts in (
        ("TPOT", {"decoding", "prompts of others"}),
        ("TTFT", {"waiting", "own steps"}),
        ("TTFT_spare_slot", {"waiting", "own steps"}),
        ("TTFT_steady", {"room in the batch", "prompts of others", "own steps"}),
        ("TTFT_idle", {"prompt"}),
    ):
        measurements = read_measurements(DATA, metric).measurements
        times = measurements[0].kernels.times(chip)
        assert set(times.serial_s) == parts
        assert times.part(0).amount == pytest.approx(times.time_s[0])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("TP1", "PP1", "'PP1' is not TP and a number of chips"),
        ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-9", "'meta-llama/Llama-9' is not one of meta-llama/"),
        (",ms,", ",us,", "'us' is not ms"),
        (",TPOT,", ",speed,", "'speed' is not one of TPOT, mean/median TTFT"),
    ],
)
def test_odd_cells_are_told_with_their_place(old: str, new: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(DATA.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    with pytest.raises(ModelError) as error:
        read_measurements(path)
    assert message in str(error.value)
    assert str(error.value).startswith(f"{path}:")


def test_unknown_metric_is_told() -> None:
    with pytest.raises(ModelError, match="no measured column 'latency'; it may be TPOT, TTFT, TTFT_spare_slot, "):
        read_measurements(DATA, "latency")
