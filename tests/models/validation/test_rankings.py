"""Ranks of ways to make one shape: against SciPy, and which tables have them."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pytest
from scipy import stats

from tileloom.archdsl import ModelError
from tileloom.models.validation import read_measurements
from tileloom.models.validation.rankings import rank_correlation, rankings_of
from tileloom.models.validation.report import ValidatedRow

HEADER = "dtype,m,n,k,block_m,block_n,block_k,stages,warps,median_us,min_us,note\n"


def row(predicted: float, measured: float, choice: str, label: str = "bf16 8x8x8") -> ValidatedRow:
    return ValidatedRow(
        name="tiled gemm bf16", line=2, label=label, measured=measured, predicted=predicted, regime="memory",
        is_small=True, choice=choice, reasoning=None,
    )  # fmt: skip


@pytest.mark.parametrize("num_values", [3, 5, 50])
def test_rank_correlation_is_scipys_with_ties(num_values: int) -> None:
    random = np.random.default_rng(num_values)
    for _ in range(20):
        first, second = random.integers(0, 6, (2, num_values)).astype(float)
        if len(set(first)) > 1 and len(set(second)) > 1:
            theirs = stats.spearmanr(first, second)[0]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  SciPy has no types
            assert rank_correlation(first, second) == pytest.approx(cast("float", theirs))


def test_regret_is_what_the_first_choice_costs_more_than_the_fastest() -> None:
    (found,) = rankings_of([row(1.0, 3.3, "a"), row(2.0, 3.0, "b"), row(3.0, 6.0, "c")])
    assert found.regret_percent == pytest.approx(10)
    assert (found.first_choice, found.fastest, found.n) == ("a", "b", 3)
    assert found.rank_correlation == pytest.approx(0.5)


def test_shapes_made_in_one_way_have_no_ranking() -> None:
    assert rankings_of([row(1.0, 1.0, "a"), row(2.0, 2.0, "a"), row(3.0, 3.0, "a")]) == ()
    assert rankings_of([row(float(idx), 1.0, str(idx), label=f"bf16 {idx}x8x8") for idx in range(5)]) == ()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("bf16,8,8,64,48,64,32,2,4,1.0,1.0,", r"t.csv:2:5: .*'48' is not a power of two"),
        ("bf16,8,8,64,64,64,32,0,4,1.0,1.0,", r"t.csv:2:8: .*'0' is not a whole number of at least 1"),
        ("bf17,8,8,64,64,64,32,2,4,1.0,1.0,", r"t.csv:2:1: .*'bf17' is not one of"),
    ],
)
def test_rows_that_are_no_tilings_are_refused_with_their_place(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "t.csv").write_text(HEADER + line + "\n", encoding="utf-8")
    with pytest.raises(ModelError, match=message):
        read_measurements(tmp_path / "t.csv")
