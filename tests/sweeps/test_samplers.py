"""Samplers: seeds decide everything, and constraints keep points from being drawn."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileloom.archdsl import SweepError
from tileloom.archdsl.yamltree import Place, Source
from tileloom.sweeps.samplers import Inputs, draw
from tileloom.sweeps.space import Axis, Space
from tileloom.sweeps.store import PointStatus, SweepResults

from .sweep_case import SPEC, export, load, logged, run

LARGE_SPEC = SPEC.replace("[4, 8, 16]", "{from: 1, to: 12, step: 1}").replace("factor: 2", "log_steps: 20")
NSGA2_SPEC = LARGE_SPEC + "    sampler: {kind: nsga2, seed: 3, population: 12, generations: 6}\n"


def space(*sizes: int) -> Space:
    place = Place(Source("<test>"))
    return Space(
        tuple(
            Axis(path=f"p{i}", key_place=place, values=tuple(range(n)), places=(place,) * n)
            for i, n in enumerate(sizes)
        )
    )


def anything(inputs: Inputs) -> bool:
    return True


@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_draws_are_distinct_reproducible_and_only_grow(seed: int, count: int) -> None:
    drawn = draw(space(5, 8), seed, count, anything)
    assert len(set(drawn)) == len(drawn) == count
    assert draw(space(5, 8), seed, count, anything) == drawn
    assert draw(space(5, 8), seed, 40, anything)[:count] == drawn


def test_draws_of_a_huge_space_are_distinct_and_only_grow() -> None:
    huge = space(*[1000] * 8)
    drawn = draw(huge, 7, 200, anything)
    assert len(set(drawn)) == 200
    assert draw(huge, 7, 300, anything)[:200] == drawn


def test_draws_differ_between_seeds() -> None:
    assert draw(space(30, 30), 1, 20, anything) != draw(space(30, 30), 2, 20, anything)


def test_draws_do_not_change_between_versions() -> None:
    assert draw(space(10, 10), 1, 3, anything) == [
        (("p0", 7), ("p1", 2)),
        (("p0", 3), ("p1", 0)),
        (("p0", 7), ("p1", 1)),
    ]


def test_only_allowed_combinations_are_drawn() -> None:
    drawn = draw(space(10, 10), 1, 200, lambda inputs: inputs[0][1] == 3)
    assert sorted(drawn) == [(("p0", 3), ("p1", i)) for i in range(10)]


def test_random_sweep_runs_as_many_points_as_asked_for_and_adds_to_them(tmp_path: Path) -> None:
    text = LARGE_SPEC + "    sampler: {kind: random, seed: 5, points: 20}\n"
    constraint = '    constraints: ["hierarchy.pe_array.axes.rows.size >= 3"]\n'
    run(load(tmp_path, text + constraint), tmp_path / "out")
    results = SweepResults.load(tmp_path / "out")
    assert len(results.records) == 20
    assert results.count(PointStatus.EXCLUDED) == 0
    assert min(record.values["hierarchy.pe_array.axes.rows.size"] for record in results.records) == 3
    summary = run(load(tmp_path, text.replace("points: 20", "points: 30") + constraint), tmp_path / "out")
    assert (summary.num_reused, summary.num_run) == (20, 10)


def test_nsga2_is_reproducible_and_resumes_without_running_a_point_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pymoo", reason="the extra `opt` is not installed")
    log = tmp_path / "log"
    monkeypatch.setenv("FAKE_LOG", str(log))
    sweep = load(tmp_path, NSGA2_SPEC)
    summary = run(sweep, tmp_path / "out")
    assert 12 < summary.num_points <= 72
    assert len(logged(log)) == len(set(logged(log))) == summary.num_points
    again = run(sweep, tmp_path / "out")
    assert (again.num_run, again.num_reused) == (0, summary.num_points)
    run(sweep, tmp_path / "other")
    assert export(tmp_path / "out") == export(tmp_path / "other")


def front_ids(directory: Path) -> set[str]:
    results = SweepResults.load(directory)
    return {record.id for record, is_on in zip(results.records, results.on_front(), strict=True) if is_on}


def test_nsga2_finds_more_of_the_front_than_chance(tmp_path: Path) -> None:
    pytest.importorskip("pymoo", reason="the extra `opt` is not installed")
    objectives = ("[energy, latency]", "[energy, area]")
    run(load(tmp_path, LARGE_SPEC.replace(*objectives)), tmp_path / "grid")
    summary = run(load(tmp_path, NSGA2_SPEC.replace(*objectives)), tmp_path / "nsga2")
    front = front_ids(tmp_path / "grid")
    by_chance = len(front) * summary.num_points / 240
    assert len(front & front_ids(tmp_path / "nsga2")) > 1.5 * by_chance


def test_nsga2_stays_away_from_points_that_do_not_count(tmp_path: Path) -> None:
    pytest.importorskip("pymoo", reason="the extra `opt` is not installed")
    constraints = '    constraints: ["area_mm2 <= 0.08", "hierarchy.pe_array.axes.rows.size != 5"]\n'
    shares: list[float] = []
    for text in (LARGE_SPEC, NSGA2_SPEC):
        out = tmp_path / f"out{len(shares)}"
        run(load(tmp_path, text + constraints), out)
        results = SweepResults.load(out)
        shares.append(results.count(PointStatus.OK) / len(results.records))
    by_chance, found = shares
    assert found > 1.2 * by_chance


def test_nsga2_of_a_single_combination_runs_it(tmp_path: Path) -> None:
    pytest.importorskip("pymoo", reason="the extra `opt` is not installed")
    text = SPEC.replace("[4, 8, 16]", "[4]").replace("{from: 2 KiB, to: 64 KiB, factor: 2}", "[64 KiB]")
    summary = run(
        load(tmp_path, text + "    sampler: {kind: nsga2, seed: 3, population: 4, generations: 3}\n"), tmp_path / "out"
    )
    assert (summary.num_points, summary.num_run) == (1, 1)


def test_nsga2_ends_when_a_small_space_is_used_up(tmp_path: Path) -> None:
    pytest.importorskip("pymoo", reason="the extra `opt` is not installed")
    text = SPEC + "    sampler: {kind: nsga2, seed: 3, population: 30, generations: 50}\n"
    summary = run(load(tmp_path, text), tmp_path / "out")
    assert summary.num_points <= 18


def test_missing_pymoo_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pymoo"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pymoo", None)
    with pytest.raises(SweepError, match=r"sampler nsga2 needs pymoo; install it with: pip install 'tileloom\[opt\]'"):
        run(load(tmp_path, NSGA2_SPEC), tmp_path / "out")
