"""Paths that commands write to are checked before anything is computed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileloom.sweeps.cli import main

COMMANDS = [
    ("arch", "show", "h100_sxm", "--output", "PATH"),
    ("arch", "schema", "-o", "PATH"),
    ("calibrate", "data.csv", "--arch", "h100_sxm", "-o", "PATH"),
    ("compile", "model.onnx", "--arch", "tpe_8x8", "-o", "PATH"),
    ("estimate", "--arch", "h100_sxm", "--roofline", "PATH"),
    ("estimate", "--arch", "tpe_8x8", "--save-mapping", "PATH"),
    ("explain", "built", "-o", "PATH"),
    ("run", "built", "-o", "PATH"),
    ("rtl", "run", "built", "-o", "PATH"),
    ("rtl", "trace", "built", "-o", "PATH"),
    ("serve", "plan", "--model", "llama3.1_8b", "--system", "h100_sxm", "--rate", "1", "-o", "PATH"),
    ("sweep", "run", "sweep.yaml", "-o", "PATH"),
    ("sweep", "plot", "done", "-o", "PATH"),
    ("sweep", "export", "done", "-o", "PATH"),
    ("validate", "data.csv", "--arch", "h100_sxm", "-o", "PATH"),
]


@pytest.mark.parametrize("argv", COMMANDS, ids=lambda argv: " ".join(argv[:2]))
def test_a_path_below_a_file_is_refused_first(
    argv: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("", encoding="utf-8")
    # The inputs are missing, too: that is told only after the path was found to be good.
    status = main([str(blocker / "below" / "x.csv") if word == "PATH" else word for word in argv])
    out, err = capsys.readouterr()
    assert status == 2
    assert out == ""
    assert "is a file, so nothing can be written into" in " ".join(err.replace("│", " ").split())


def test_a_folder_is_no_file_to_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["arch", "schema", "-o", str(tmp_path)]) == 2
    assert "is a folder; name a file in it" in " ".join(capsys.readouterr().err.split())
