"""YAML as a tree: types of scalars, positions, aliases, and what is refused."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tileloom.archdsl import (
    ArchError,
    SweepError,
    YamlMap,
    YamlScalar,
    dump_yaml,
    find,
    locate,
    parse_yaml,
    read_yaml,
    to_plain,
    yamlio,
)

from .arch_strategies import TEXTS


def plain(text: str) -> object:
    return to_plain(parse_yaml(text).root)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"),
        ("no", "no"),
        ("N", "N"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-3", -3),
        ("010", "010"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("1e3", 1000.0),
        ("2.5", 2.5),
        (".5", 0.5),
        (".", "."),
        ("e5", "e5"),
        ("1.", 1.0),
        ("2024-01-01", "2024-01-01"),
        ("'12'", "12"),
        ('"true"', "true"),
        ("64 KiB", "64 KiB"),
        ("!!str 12", "12"),
    ],
)
def test_scalar_has_its_yaml_1_2_type(text: str, value: object) -> None:
    scalar = find(parse_yaml(f"key: {text}\n").root, ("key",))
    assert isinstance(scalar, YamlScalar)
    assert scalar.value == value
    assert type(scalar.value) is type(value)


def test_positions_are_those_of_keys_and_values() -> None:
    root = parse_yaml("a: 1\nb:\n  - c: 'x'\n    d: [1, 22]\n").root
    assert (locate(root, ("a",)).line, locate(root, ("a",)).column) == (1, 4)
    assert (locate(root, ("b", 0, "d", 1)).line, locate(root, ("b", 0, "d", 1)).column) == (4, 12)
    assert (locate(root, ("b", 0, "d"), key=True).line, locate(root, ("b", 0, "d"), key=True).column) == (4, 5)
    assert locate(root, ("b",)).line == 2, "a value below its key is pointed at by its key"
    assert locate(root, ("b", 0, "nothing")) == locate(root, ("b", 0))
    assert find(root, ("b", 3)) is None


def test_anchors_and_merge_keys_are_expanded() -> None:
    assert plain("a: &x {p: 1, q: 2}\nb: *x\nc: {<<: *x, q: 3}\n") == {
        "a": {"p": 1, "q": 2},
        "b": {"p": 1, "q": 2},
        "c": {"p": 1, "q": 3},
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2\n", "<string>:2:1: a: key 'a' is given twice; the first is on line 1"),
        ("[1, 2]: 3\n", "<string>:1:1: a key must be a word"),
        ("a: &x [*x]\n", "<string>:1:4: a.0: this alias stands inside its own anchor"),
        ("a: !!python/name:os.system x\n", "<string>:1:4: a: tag 'tag:yaml.org,2002:python/name:os.system'"),
        ("a: *nowhere\n", "<string>:1:4: not valid YAML: found undefined alias 'nowhere'"),
        ("a: 1\n---\nb: 2\n", "<string>:2:1: a second document starts here"),
        ("a: 1\n...\nb: 2\n", "<string>:3:1: not valid YAML: expected '<document start>'"),
        ("a: [1\n", "<string>:2:1: not valid YAML"),
        ("a: b: c\n", "<string>:1:5: not valid YAML: mapping values are not allowed here"),
        ("a: \x07\n", "<string>:1:4: not valid YAML: character"),
        ("a: {<<: 3}\n", "<string>:1:9: a.<<: only maps can be merged"),
        ("", "<string>: the file is empty"),
        ("# nothing\n", "<string>: the file is empty"),
    ],
)
def test_bad_yaml_is_reported_at_its_place(text: str, message: str) -> None:
    with pytest.raises(ArchError) as caught:
        parse_yaml(text)
    assert str(caught.value.diagnostics[0]).startswith(message)


def test_aliases_that_multiply_are_stopped() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(ArchError, match="aliases add more than 50000 nodes once they are expanded"):
        parse_yaml("\n".join(lines))


def test_a_long_document_without_aliases_is_read() -> None:
    numbers = parse_yaml("\n".join(f"- [{i}, {i}]" for i in range(30_000)))
    assert to_plain(numbers.root) == [[i, i] for i in range(30_000)]


def test_error_is_of_the_type_asked_for() -> None:
    with pytest.raises(SweepError, match="cannot read the file: No such file"):
        read_yaml("there/is/no/such.yaml", SweepError)


def test_pure_python_parser_gives_the_same_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: {b: [1, 'x', \"y\"], c: é}\nd: |\n  text\n  more\ne: &q on\nf: *q\n"
    fast = parse_yaml(text).root
    monkeypatch.setattr(yamlio, "_LOADER", yaml.SafeLoader)
    assert parse_yaml(text).root == fast


_DATA = st.recursive(
    TEXTS | st.integers(-(10**6), 10**6) | st.booleans() | st.none() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(TEXTS, _DATA, min_size=1, max_size=4))
def test_dumped_data_reads_back_equal(data: dict[str, object]) -> None:
    root = parse_yaml(dump_yaml(data)).root
    assert isinstance(root, YamlMap)
    assert to_plain(root) == data
