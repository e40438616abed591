"""Documents: their links lead somewhere, their snippets run, and what they show is what is printed."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tileloom.archdsl import load_description, load_mapping_file, load_system
from tileloom.compiler import load_workload
from tileloom.sweeps.cli import main
from tileloom.sweeps.loading import load_sweep

ROOT: Final = Path(__file__).parent.parent
FENCE: Final = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
LANGUAGES: Final = ("console", "python", "sh", "text", "yaml")
SLOW: Final = ("sweep run",)
"""Commands whose snippets take more than a few seconds."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """A fenced block of a document."""

    file: str
    line: int
    language: str
    text: str

    @property
    def id(self) -> str:
        return f"{self.file}:{self.line}"


def documents() -> Iterator[Path]:
    """Every document of the project."""
    yield ROOT / "README.md"
    for folder in ("archdsl", "benchmarks", "compiler", "docs", "models", "rtl", "sweeps", "tests"):
        yield from sorted((ROOT / folder).rglob("*.md"))


def snippets(*languages: str) -> list[Snippet]:
    found: list[Snippet] = []
    for path in documents():
        text = path.read_text(encoding="utf-8")
        for match in FENCE.finditer(text):
            if not languages or match[1] in languages:
                line = text.count("\n", 0, match.start()) + 1
                found.append(Snippet(str(path.relative_to(ROOT)), line, match[1], match[2]))
    return found


def by_speed(snippet: Snippet) -> object:
    """A test parameter, marked slow where the snippet is."""
    marks = [pytest.mark.slow] if any(command in snippet.text for command in SLOW) else []
    return pytest.param(snippet, id=snippet.id, marks=marks)


def slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which commands find `docs/examples` and leave their results."""
    shutil.copytree(ROOT / "docs" / "examples", tmp_path / "docs" / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.mark.parametrize("path", list(documents()), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        linked = path.parent / file if file else path
        assert linked.exists(), f"{path.relative_to(ROOT)}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", linked.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert anchor in map(slug, headings), f"{path.relative_to(ROOT)}: {target}"


def test_named_files_are_there() -> None:
    """Paths in backticks, such as `docs/counting.md`, are files of the project."""
    for path in documents():
        for name in re.findall(
            r"`((?:archdsl|benchmarks|compiler|docs|models|sweeps|tests)/[\w./-]+\.\w+)`", path.read_text()
        ):
            assert (ROOT / name).exists(), f"{path.relative_to(ROOT)} names {name}"


def test_every_snippet_says_what_it_is() -> None:
    assert not [snippet.id for snippet in snippets() if snippet.language not in LANGUAGES]


@pytest.mark.parametrize("snippet", [by_speed(snippet) for snippet in snippets("python")])
def test_python_runs(snippet: Snippet, workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = workplace / "snippet.py"
    script.write_text(snippet.text, encoding="utf-8")
    runpy.run_path(str(script))
    assert capsys.readouterr().out


@pytest.mark.parametrize("snippet", snippets("yaml"), ids=lambda snippet: snippet.id)
def test_yaml_is_valid(snippet: Snippet, workplace: Path) -> None:
    path = workplace / "snippet.yaml"
    path.write_text(snippet.text, encoding="utf-8")
    if re.search(r"^space:", snippet.text, flags=re.MULTILINE):
        assert load_sweep(path, load_workload).space.num_points > 1
    elif re.search(r"^mappings?:", snippet.text, flags=re.MULTILINE):
        assert load_mapping_file(path).mappings
    elif re.search(r"^kind: system", snippet.text, flags=re.MULTILINE):
        assert load_system(path).chips
    else:
        assert load_description(path).name


@pytest.mark.parametrize("snippet", [by_speed(snippet) for snippet in snippets("console")])
def test_console_prints_what_is_shown(
    snippet: Snippet, workplace: Path, capsys: pytest.CaptureFixture[str], pytestconfig: pytest.Config
) -> None:
    """Each `$ tileloom ...` prints the lines below it to stdout; `...` stands for any text."""
    printed: list[str] = []
    for command, shown in commands_of(snippet):
        assert main(shlex.split(command, comments=True)[1:]) == 0, capsys.readouterr().err
        out = "\n".join(line.rstrip() for line in capsys.readouterr().out.rstrip().splitlines())
        printed += [f"$ {command}", *out.splitlines()]
        pattern = ".*?".join(re.escape(text) for text in shown.split("..."))
        if "..." in shown or not pytestconfig.getoption("--update-golden"):
            matches = re.fullmatch(pattern, out, flags=re.DOTALL)
            assert matches or out == shown, f"{snippet.id}: {command} (rewrite with: pytest --update-golden)"
    if pytestconfig.getoption("--update-golden") and "..." not in snippet.text:
        path = ROOT / snippet.file
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(snippet.text, "\n".join(printed) + "\n"), encoding="utf-8")


def commands_of(snippet: Snippet) -> list[tuple[str, str]]:
    """Commands of a console snippet, each with what it prints."""
    parts = re.split(r"^\$ ", snippet.text, flags=re.MULTILINE)[1:]
    found = [(part.split("\n", 1)[0], part.split("\n", 1)[1].rstrip()) for part in parts]
    assert found and all(command.startswith("tileloom ") for command, _ in found)
    return [(command, "\n".join(line.rstrip() for line in shown.splitlines())) for command, shown in found]


@pytest.mark.parametrize("snippet", snippets("sh"), ids=lambda snippet: snippet.id)
def test_shell_commands_name_what_exists(snippet: Snippet) -> None:
    """What shell snippets run is run by continuous integration; here that the files and verbs are there."""
    for line in snippet.text.splitlines():
        words = shlex.split(line, comments=True)
        for at, word in enumerate(words):
            if re.fullmatch(r"(docs|benchmarks|tests)/[\w./-]+", word):
                assert (ROOT / word).exists(), f"{snippet.id}: {word}"
            if os.path.basename(word) == "tileloom":
                verbs = [w for w in words[at + 1 : at + 3] if re.fullmatch("[a-z]+", w)]
                assert main([*verbs, "--help"]) == 0, f"{snippet.id}: {verbs}"
