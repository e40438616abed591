"""The example specifications in docs/examples load and ask for what their comments say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tileloom.compiler import load_workload
from tileloom.sweeps.constraints import parse_constraint
from tileloom.sweeps.loading import load_sweep
from tileloom.sweeps.objectives import METRIC_NAMES, Objective
from tileloom.sweeps.spec import SweepSpec
from tileloom.sweeps.store import PointStatus

EXAMPLES = Path(__file__).parent.parent.parent / "docs" / "examples"

NUM_POINTS = {
    "llama70b_h100.yaml": 1000,
    "pe_array_sizes.yaml": 45,
    "resnet50_and_transformer.yaml": 216,
    "resnet50_grid.yaml": 1000,
    "transformer_search.yaml": 163_840,
}


def test_every_example_is_listed() -> None:
    assert sorted(path.name for path in EXAMPLES.glob("*.yaml")) == sorted(NUM_POINTS)


@pytest.mark.parametrize("name", NUM_POINTS)
def test_example_loads_and_has_as_many_points_as_it_says(name: str) -> None:
    sweep = load_sweep(EXAMPLES / name, load_workload)
    assert sweep.space.num_points == NUM_POINTS[name]
    assert sweep.spec.name == name.removesuffix(".yaml")
    assert all(workload.macs > 0 for workload in sweep.workloads)
    assert len(sweep.workloads) + len(sweep.blueprint.served) == len(sweep.spec.workloads)


def test_specifications_in_the_documentation_load(tmp_path: Path) -> None:
    text = (EXAMPLES.parent / "sweep_format.md").read_text(encoding="utf-8")
    num_points: list[int] = []
    for snippet in re.findall(r"```yaml\n(.*?)```", text, flags=re.DOTALL):
        (tmp_path / "sweep.yaml").write_text(snippet, encoding="utf-8")
        num_points.append(load_sweep(tmp_path / "sweep.yaml", load_workload).space.num_points)
    assert num_points == [18, 24]


def test_documentation_names_every_metric_objective_and_field() -> None:
    text = (EXAMPLES.parent / "sweep_format.md").read_text(encoding="utf-8")
    names = [*METRIC_NAMES, *Objective, *SweepSpec.model_fields, *(status.value for status in PointStatus)]
    assert not [name for name in names if f"`{name}`" not in text]


def test_constraints_in_the_documentation_parse() -> None:
    text = (EXAMPLES.parent / "sweep_format.md").read_text(encoding="utf-8")
    section = text.partition("## Constraints")[2].partition("## Samplers")[0]
    lines = re.findall(r"^ {4}(.*)$", section, flags=re.MULTILINE)
    assert len(lines) == 3
    for line in lines:
        parse_constraint(line)
