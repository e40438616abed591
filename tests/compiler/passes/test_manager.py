"""Passes run in order, are verified and dumped, and continue from dumps."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tileloom.archdsl import CompileError, PassError
from tileloom.compiler.ir.mlir_opt import check_with_mlir
from tileloom.compiler.ir.store import DataStore
from tileloom.compiler.ir.text import print_module
from tileloom.compiler.passes.base import PassContext
from tileloom.compiler.passes.dumps import load_dump
from tileloom.compiler.passes.manager import PassManager, split_names

from ..ir.modules import ModuleMaker
from ..reference import needs_mlir
from .toys import PIPELINE, DropAttribute, InvertTables, Refuse, ShiftZeroPoints, lookups


def made() -> tuple[ModuleOp, PassContext]:
    maker = ModuleMaker(1)
    return maker.small_module(), PassContext(store=maker.store)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_passes_run_in_order_and_leave_their_input() -> None:
    module, ctx = made()
    before = print_module(module)
    result = PassManager(passes=PIPELINE).run(module, ctx)
    assert print_module(module) == before
    assert [int(op.zero_point.value.data) for op in lookups(result.module)] == [4]
    assert [record.name for record in result.records] == [each.name for each in PIPELINE]
    assert all(record.time_s > 0 and record.verify_time_s > 0 and record.num_ops == 4 for record in result.records)
    assert result.num_done == 4


def test_dumps_are_numbered_and_share_their_arrays(tmp_path: Path) -> None:
    module, ctx = made()
    manager = PassManager(passes=PIPELINE, print_after=("all",), dump_folder=tmp_path / "dumps")
    records = manager.run(module, ctx).records
    names = ["01-invert-tables.mlir", "02-shift-zero-points.mlir", "03-invert-tables.mlir", "04-shift-zero-points.mlir"]
    assert files(tmp_path / "dumps") == [*names, "arrays.npz"]
    assert [record.dump and record.dump.name for record in records] == names
    assert len(set(DataStore.load(tmp_path / "dumps" / "arrays.npz"))) == 2
    assert "data.after" not in print_module(module)


def test_dumps_are_the_same_bytes_every_time(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        module, ctx = made()
        PassManager(passes=PIPELINE, print_after=("all",), dump_folder=tmp_path / folder).run(module, ctx)
    for name in files(tmp_path / "a"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_named_passes_alone_are_dumped(tmp_path: Path) -> None:
    module, ctx = made()
    PassManager(passes=PIPELINE, print_after=("invert-tables",), dump_folder=tmp_path).run(module, ctx)
    assert files(tmp_path) == ["01-invert-tables.mlir", "03-invert-tables.mlir", "arrays.npz"]


def test_stopping_after_a_name_ends_at_its_last_place() -> None:
    module, ctx = made()
    result = PassManager(passes=PIPELINE, stop_after="invert-tables").run(module, ctx)
    assert result.num_done == len(result.records) == 3


@pytest.mark.parametrize("position", [1, 2, 3, 4])
def test_continuing_from_any_dump_gives_the_same_module(tmp_path: Path, position: int) -> None:
    module, ctx = made()
    manager = PassManager(passes=PIPELINE, print_after=("all",), dump_folder=tmp_path)
    whole = manager.run(module, ctx)
    dump = whole.records[position - 1].dump
    assert dump is not None
    texts = {name: (tmp_path / name).read_bytes() for name in files(tmp_path)}
    resumed = manager.resume_from(dump)
    assert (resumed.num_done, resumed.remaining) == (position, PIPELINE[position:])
    again = manager.run(resumed.module, PassContext(store=resumed.store), num_done=resumed.num_done)
    assert again.module.is_structurally_equivalent(whole.module)
    assert [record.name for record in again.records] == [each.name for each in PIPELINE[position:]]
    assert {name: (tmp_path / name).read_bytes() for name in files(tmp_path)} == texts


def test_dump_finds_its_pass_in_another_pipeline(tmp_path: Path) -> None:
    module, ctx = made()
    PassManager(passes=PIPELINE, print_after=("all",), dump_folder=tmp_path).run(module, ctx)
    other = PassManager(passes=(Refuse(), InvertTables(), InvertTables(), ShiftZeroPoints()))
    assert other.resume_from(tmp_path / "02-shift-zero-points.mlir").num_done == 4
    with pytest.raises(
        CompileError, match="after pass 1, invert-tables, which this pipeline has at 2 and 3; set the number"
    ):
        other.resume_from(tmp_path / "01-invert-tables.mlir")
    with pytest.raises(
        CompileError, match="dumped after invert-tables, which is no pass of this pipeline; known are refuse"
    ):
        PassManager(passes=(Refuse(),)).resume_from(tmp_path / "01-invert-tables.mlir")


def test_wrong_result_names_pass_op_node_and_cause(tmp_path: Path) -> None:
    module, ctx = made()
    manager = PassManager(passes=(*PIPELINE[:1], DropAttribute()), print_after=("all",), dump_folder=tmp_path)
    with pytest.raises(PassError) as caught:
        manager.run(module, ctx)
    assert str(caught.value) == (
        "pass drop-attribute made what does not verify: qnn.lookup for ONNX node 'relu': "
        "attribute 'scale' expected in operation 'qnn.lookup'"
    )
    assert files(tmp_path) == ["01-invert-tables.mlir", "arrays.npz"]


def test_failing_pass_is_named() -> None:
    module, ctx = made()
    with pytest.raises(PassError, match="^pass refuse: ONNX node 'relu' is too green; paint it$"):
        PassManager(passes=(Refuse(),)).run(module, ctx)


def test_unknown_names_have_a_hint(tmp_path: Path) -> None:
    with pytest.raises(
        CompileError, match="--stop-after=invert-table: there is no pass of that name; did you mean 'invert-tables'"
    ):
        PassManager(passes=PIPELINE, stop_after="invert-table")
    with pytest.raises(CompileError, match="--print-after=xyz: there is no pass of that name; known are invert-tables"):
        PassManager(passes=PIPELINE, print_after=("xyz",), dump_folder=tmp_path)
    with pytest.raises(CompileError, match="--stop-after=all: there is no pass of that name"):
        PassManager(passes=PIPELINE, stop_after="all")
    with pytest.raises(ValueError, match="print_after needs a dump_folder"):
        PassManager(passes=PIPELINE, print_after=("all",))
    assert split_names("a, b") == ("a", "b")
    assert split_names(None) == ()


def test_files_that_are_no_dumps_are_told(tmp_path: Path) -> None:
    module, ctx = made()
    PassManager(passes=PIPELINE, print_after=("all",), dump_folder=tmp_path).run(module, ctx)
    manager, path = PassManager(passes=PIPELINE), tmp_path / "01-invert-tables.mlir"
    with pytest.raises(CompileError, match=r"none\.mlir: cannot be read .*; give a file that --print-after wrote"):
        manager.resume_from(tmp_path / "none.mlir")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('data.after = "01-invert-tables"', 'data.after = "invert-tables"'), encoding="utf-8")
    with pytest.raises(CompileError, match=r"01-invert-tables\.mlir: does not say after which pass it was dumped"):
        manager.resume_from(path)
    path.write_text(re.sub(r", zero_point = [-0-9]* : i64", "", text), encoding="utf-8")
    with pytest.raises(
        PassError, match=r"01-invert-tables\.mlir: qnn\.lookup for ONNX node 'relu': attribute 'zero_point'"
    ):
        manager.resume_from(path)
    path.write_text(text, encoding="utf-8")
    np.savez(tmp_path / "arrays.npz")
    with pytest.raises(
        CompileError, match=r"arrays\.npz: lacks 1 arrays of 01-invert-tables\.mlir, the first .*; dump again"
    ):
        manager.resume_from(path)
    (tmp_path / "arrays.npz").unlink()
    with pytest.raises(CompileError, match=r"arrays\.npz: cannot be read as arrays"):
        load_dump(path)


@needs_mlir
def test_mlir_takes_every_dump(tmp_path: Path) -> None:
    maker = ModuleMaker(5)
    module = maker.module(30)
    PassManager(passes=PIPELINE[1:2], print_after=("all",), dump_folder=tmp_path).run(
        module, PassContext(store=maker.store)
    )
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(tmp_path.glob("*.mlir"))}
    assert len(texts) == 1 and check_with_mlir(texts) == ()
