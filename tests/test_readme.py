"""README.md: its two commands do what it says, and its example files are those in docs/examples."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tileloom.compiler import load_workload
from tileloom.sweeps.loading import load_sweep

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def command_under(heading: str) -> list[str]:
    """The one shell line under a heading, split at `&&`."""
    section = re.split(r"^## ", README.split(f"\n## {heading}\n")[1], flags=re.MULTILINE)[0]
    (block,) = re.findall(r"^```sh\n(.*?)^```$", section, flags=re.DOTALL | re.MULTILINE)
    assert block.count("\n") == 1, "set-up and job are one line"
    return [part.strip() for part in block.split("&&")]


@pytest.mark.parametrize("heading", ["First sweep", "Tests"])
def test_command_sets_up_everything_itself(heading: str) -> None:
    make, install, job = command_under(heading)
    assert shlex.split(make) == ["python3", "-m", "venv", ".venv"]
    assert shlex.split(install)[:3] == [".venv/bin/pip", "install", "-e"]
    assert job.startswith(".venv/bin/")


def test_first_sweep_covers_two_hundred_designs_on_both_networks() -> None:
    *program, verb, spec = shlex.split(command_under("First sweep")[2])
    assert (program, verb) == ([".venv/bin/tileloom", "sweep"], "run")
    sweep = load_sweep(ROOT / spec, load_workload)
    assert sweep.space.num_points >= 200
    resnet, transformer = (entry.workload for entry in sweep.spec.workloads)
    assert resnet.startswith("onnx:resnet50")
    assert transformer.startswith("transformer_block")
    assert f"sweeps {sweep.space.num_points} PE arrays" in README
    assert f"`results/{sweep.spec.name}`" in README


def test_pipeline_runs_the_test_command() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "'/^## Tests$/,/^## /p' README.md" in script
    assert command_under("Tests")[2] == ".venv/bin/pytest -n auto"


def test_architecture_shown_is_the_example_file() -> None:
    example = (ROOT / "docs" / "examples" / "archs" / "wide.yaml").read_text(encoding="utf-8")
    assert f"```yaml\n{example}```" in README


def test_sweep_shown_is_the_example_file() -> None:
    example = (ROOT / "docs" / "examples" / "pe_array_sizes.yaml").read_text(encoding="utf-8")
    lines = [line.split(" #")[0] for line in example.splitlines() if not line.startswith(("#", "description"))]
    shown = re.search(r"```yaml\n(schema_version.*?)```", README, flags=re.DOTALL)
    assert shown is not None
    assert shown[1].splitlines()[:-1] == lines[:-1]
