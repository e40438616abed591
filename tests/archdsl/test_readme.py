"""The README's snippets run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tileloom.archdsl import Memory, SpatialArch, load_arch, load_system

README = Path(__file__).parents[2] / "archdsl" / "README.md"


def snippets(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_architecture_snippet_loads(tmp_path: Path) -> None:
    path = tmp_path / "arch.yaml"
    path.write_text(snippets("yaml")[0], encoding="utf-8")
    arch = load_arch(path)
    assert isinstance(arch, SpatialArch)
    scratchpad = arch.node("scratchpad")
    assert isinstance(scratchpad, Memory)
    assert (arch.num_pes, scratchpad.capacity_bytes, arch.technology.node_nm) == (16 * 64, 512 * 1024, 22)


def test_system_snippet_loads(tmp_path: Path) -> None:
    path = tmp_path / "system.yaml"
    path.write_text(snippets("yaml")[1], encoding="utf-8")
    graph = load_system(path).graph()
    assert graph.number_of_nodes() == 16 + 2 + 1
    assert graph.edges["gpu.9", "nvswitch.1", "nvlink"]["bandwidth_bytes_per_s"] == 450e9


def test_python_snippet_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = snippets("python")
    exec(code, {})  # noqa: S102 - the snippet is ours
    assert "capacity: 64 KiB" in capsys.readouterr().out
