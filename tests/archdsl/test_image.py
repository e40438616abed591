"""Program images: what is written reads back equal, equal images are equal bytes, and faults say what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileloom.archdsl import (
    ArchError,
    CompileError,
    Instruction,
    ProgramImage,
    SpatialArch,
    Symbol,
    ToolkitError,
    load_arch,
    load_image,
    make_image,
    place_array,
    save_image,
    take_array,
)

PROGRAM = (Instruction(name="NOP", push_next=True), Instruction(name="HALT", pop_prev=True))


def spatial(name: str = "tpe_8x8") -> SpatialArch:
    arch = load_arch(name)
    assert isinstance(arch, SpatialArch)
    return arch


def small_symbol(**changes: Any) -> Symbol:
    values: dict[str, Any] = {
        "name": "input", "role": "input", "address": 8, "shape": (2, 3), "strides_bytes": (8, 1), "element_bits": 8,
    }  # fmt: skip
    return Symbol.model_validate({**values, **changes})


def small_image() -> ProgramImage:
    return make_image(spatial(), PROGRAM, bytes(range(64)), [small_symbol()])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a small image."""
    save_image(small_image(), tmp_path / "image")
    return tmp_path / "image"


def test_image_reads_back_equal(folder: Path) -> None:
    found = load_image(folder)
    assert found == small_image()
    assert found.symbol("input").end == 19
    assert found.manifest.memory.regions[0].size_bytes == 11


def test_equal_images_are_equal_bytes(folder: Path, tmp_path: Path) -> None:
    save_image(load_image(folder), tmp_path / "again")
    for path in sorted(folder.iterdir()):
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes(), path.name


def test_instructions_are_16_bytes_little_endian(folder: Path) -> None:
    content = (folder / "program.bin").read_bytes()
    assert len(content) == 32
    assert content[15] >> 4 == 1  # the opcode stands in the most significant bits
    assert content[31] >> 4 == 15


def test_image_of_another_architecture_is_refused(folder: Path) -> None:
    assert load_image(folder, arch=spatial()).arch == spatial()
    with pytest.raises(CompileError, match="was compiled for tpe_8x8, which differs from tpe_16x16; compile it for"):
        load_image(folder, arch=spatial("tpe_16x16"))


def edit(name: str, old: bytes, new: bytes) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        content = (folder / name).read_bytes()
        assert old in content
        (folder / name).write_bytes(content.replace(old, new, 1))

    return change


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (remove("manifest.json"), r"manifest\.json: missing, so .* is no program image; compile the program again"),
        (remove("program.bin"), r"program\.bin: missing; compile the program again"),
        (remove("data.bin"), r"data\.bin: missing; compile the program again"),
        (remove("arch.yaml"), r"arch\.yaml: missing; compile the program again"),
        (edit("data.bin", b"\x05", b"\x06"), r"data\.bin: its SHA-256 is .* the file was changed: restore it"),
        (edit("program.bin", b"\x00", b"\x01"), r"program\.bin: its SHA-256 is .* the file was changed"),
        (edit("arch.yaml", b"1 GHz", b"2 GHz"), r"arch\.yaml: is not the architecture that the program was compiled"),
        (edit("manifest.json", b'"schema_version": 1', b'"schema_version": 7'), r"manifest\.json:2:20: schema_version"),
        (edit("manifest.json", b'"symbols"', b'"symbls"'), r"symbls: unknown field; did you mean 'symbols'"),
        (edit("manifest.json", b'"address": 8,\n   "shape"', b'"address": 60,\n   "shape"'),
         r"symbol 'input' ends at byte 71, and memory has 64; place it lower or enlarge memory.size_bytes"),
        (edit("manifest.json", b'"num_instructions": 2', b'"num_instructions": 3'), r"has 2 instructions, and .* says 3"),
    ],
)  # fmt: skip
def test_fault_names_file_cause_and_remedy(folder: Path, change: Callable[[Path], None], message: str) -> None:
    change(folder)
    with pytest.raises(CompileError, match=message):
        load_image(folder)


def test_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"nothing: no such folder; a program image is a folder with manifest\.json"):
        load_image(tmp_path / "nothing")


def test_gpu_has_no_image(folder: Path) -> None:
    from tileloom.archdsl import dump_arch

    (folder / "arch.yaml").write_text(dump_arch(load_arch("h100_sxm")), encoding="utf-8")
    with pytest.raises(ArchError, match="h100_sxm is of kind gpu"):
        load_image(folder)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: make_image(spatial(), PROGRAM, bytes(63), []), "63 bytes; it must be a whole number of beats of 8"),
        (
            lambda: make_image(spatial(), PROGRAM, bytes(8), [small_symbol()]),
            "made: size_bytes is 8, and the regions end at 19$",
        ),
        (lambda: make_image(spatial(), PROGRAM, bytes(64), [small_symbol()] * 2), "'input' is there twice"),
        (lambda: small_image().symbol("inptu"), "no symbol 'inptu'; did you mean 'input'"),
    ],
)
def test_parts_that_contradict_one_another(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ToolkitError, match=message):
        make()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strides_bytes": (8,)}, "has 1 strides for 2 axes"),
        ({"strides_bytes": (2, 1)}, "elements overlap"),
        ({"strides_bytes": (8, 2), "element_bits": 32}, "elements overlap"),
    ],
)
def test_faulty_symbols(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small_symbol(**changes)


@given(
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    bits=st.sampled_from((4, 8, 32)),
    signed=st.booleans(),
    gap=st.integers(0, 3),
    seed=st.integers(0, 1000),
)
def test_array_that_is_placed_is_taken(shape: list[int], bits: int, signed: bool, gap: int, seed: int) -> None:
    step = max(1, bits // 8)
    strides: list[int] = []
    for axis, num in reversed(list(enumerate(shape))):
        strides.insert(0, step)
        is_packed = bits == 4 and axis == len(shape) - 1
        step *= -(-num // 2) if is_packed else num
        step += gap
    symbol = small_symbol(shape=tuple(shape), strides_bytes=tuple(strides), element_bits=bits, signed=signed)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    values = np.random.default_rng(seed).integers(low, high + 1, shape)
    memory = np.full(symbol.end + 8, 0xEE, dtype=np.uint8)
    place_array(memory, symbol, values)
    assert (take_array(memory, symbol) == values).all()
    assert (memory[: symbol.address] == 0xEE).all() and (memory[symbol.end :] == 0xEE).all()


def test_array_that_does_not_fit_is_refused() -> None:
    memory = np.zeros(64, dtype=np.uint8)
    with pytest.raises(CompileError, match=r"shape \[3, 2\]; it must be \[2, 3\]"):
        place_array(memory, small_symbol(), np.zeros((3, 2), dtype=np.int8))
    with pytest.raises(CompileError, match="values go from 0 to 128; they must be from -128 to 127"):
        place_array(memory, small_symbol(), np.array([[0, 1, 2], [3, 4, 128]]))
    with pytest.raises(CompileError, match="quantise it first"):
        place_array(memory, small_symbol(), np.zeros((2, 3)))  # pyright: ignore[reportArgumentType]  the fault itself
    with pytest.raises(CompileError, match="ends at byte 19, and memory has 16"):
        take_array(memory[:16], small_symbol())


def test_manifest_is_json_for_people(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["arch"] == "tpe_8x8"
    assert manifest["symbols"][0]["strides_bytes"] == [8, 1]
