"""docs/components.md: its snippets run and its accuracy table is what the models give."""

import re
import runpy
from pathlib import Path

import pytest

from tileloom.models.components import anchor_errors, summarise

TEXT = (Path(__file__).parents[3] / "docs" / "components.md").read_text(encoding="utf-8")
SNIPPETS: list[str] = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)


@pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
def test_snippet_runs(snippet: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "snippet.py"
    script.write_text(snippet, encoding="utf-8")
    runpy.run_path(str(script))
    assert capsys.readouterr().out


def test_accuracy_table_is_current() -> None:
    rows = [
        f"| {s.group} | {s.count} | {s.role} | {s.median:.0%} | {s.worst:.0%} | {s.bias:+.0%} |"
        for s in summarise(anchor_errors())
    ]
    assert [row for row in rows if row not in TEXT] == []
