"""What is written out reads back equal, for everything that the format can say."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileloom.archdsl import (
    Arch,
    ArchError,
    Mapping,
    System,
    dump_arch,
    dump_mapping,
    dump_mappings,
    dump_system,
    list_presets,
    load_arch,
    load_system,
    parse_mapping,
)

from .arch_strategies import ARCHS, MAPPINGS, TEXTS, systems


def reload_arch(text: str) -> Arch:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "arch.yaml"
        path.write_text(text, encoding="utf-8")
        return load_arch(path)


@given(ARCHS)
@settings(max_examples=80, deadline=None)
def test_dumped_arch_loads_back_equal(arch: Arch) -> None:
    text = dump_arch(arch)
    again = reload_arch(text)
    assert again == arch
    assert dump_arch(again) == text


@given(systems())
@settings(max_examples=25, deadline=None)
def test_dumped_system_loads_back_equal(system: System) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "system.yaml"
        path.write_text(dump_system(system), encoding="utf-8")
        again = load_system(path)
    assert again == system
    assert sorted(again.graph().edges(data=True, keys=True)) == sorted(system.graph().edges(data=True, keys=True))


@pytest.mark.parametrize("name", list_presets())
def test_dumped_preset_loads_back_equal(name: str) -> None:
    arch = load_arch(name)
    again = reload_arch(dump_arch(arch))
    assert again == arch
    assert hash(again) == hash(arch)


@given(MAPPINGS)
@settings(max_examples=80, deadline=None)
def test_dumped_mapping_reads_back_equal(mapping: Mapping) -> None:
    assert parse_mapping(dump_mapping(mapping)) == {"": mapping}


@given(st.dictionaries(TEXTS, MAPPINGS, min_size=1, max_size=3))
@settings(max_examples=50, deadline=None)
def test_dumped_mappings_read_back_equal(mappings: dict[str, Mapping]) -> None:
    assert parse_mapping(dump_mappings(mappings)) == mappings


@given(
    ARCHS,
    st.integers(0, 10**6),
    st.sampled_from(["", "1", "x", "[", "{", "${y}", ": ", "\t", "-1", "*a", "&a ", "!b "]),
)
@settings(max_examples=80, deadline=None)
def test_damaged_file_gives_an_arch_or_an_arch_error(arch: Arch, position: int, damage: str) -> None:
    text = dump_arch(arch)
    at = position % len(text)
    try:
        loaded = reload_arch(text[:at] + damage + text[at + 1 :])
    except ArchError as err:
        assert err.diagnostics
        assert all(fault.message and (fault.line > 0) == (fault.column > 0) for fault in err.diagnostics)
    else:
        assert reload_arch(dump_arch(loaded)) == loaded
