"""Runs passes one after the other: verifies after each, dumps what was asked for, and continues from a dump."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ...archdsl import CompileError, PassError, nearest_hint
from ..ir.store import DataStore
from ..ir.verification import ops_in, verify_module
from .base import Pass, PassContext
from .dumps import ALL, arrays_of, load_dump, save_arrays, save_dump


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRecord:
    """What one pass took.

    Attributes:
        name: Of the pass.
        time_s: Of its run, wall clock.
        verify_time_s: Of the verification of its result.
        num_ops: In its result.
        dump: The file that its result was written to; None where it was not asked for.
    """

    name: str
    time_s: float
    verify_time_s: float
    num_ops: int
    dump: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineResult:
    """What a pipeline made.

    Attributes:
        module: After the last pass that ran.
        records: One for each pass that ran.
        num_done: Passes of the pipeline that are done, with those of earlier runs.
    """

    module: ModuleOp
    records: tuple[PassRecord, ...]
    num_done: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """What a dump holds.

    Attributes:
        module: As it was after the pass that the dump was taken after.
        store: Its arrays.
        num_done: Passes of the pipeline that are done.
        remaining: Those that are not.
    """

    module: ModuleOp
    store: DataStore
    num_done: int
    remaining: tuple[Pass, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassManager:
    """A pipeline of passes.

    Attributes:
        passes: In order. A pass may come more than once; its name then means each, for `stop_after` the last.
        print_after: Names of the passes after which the module is dumped, or `all`.
        stop_after: Name of the pass after which it ends; None for the last.
        dump_folder: Where dumps go: `NN-pass-name.mlir`, and the arrays of all of them in `arrays.npz`.

    Raises:
        CompileError: There is no pass of a name.
        ValueError: Dumps are asked for and there is no folder for them.
    """

    passes: tuple[Pass, ...]
    print_after: tuple[str, ...] = ()
    stop_after: str | None = None
    dump_folder: Path | None = None

    def __post_init__(self) -> None:
        known = [each.name for each in self.passes]
        for option, names in (("--stop-after", (self.stop_after,)), ("--print-after", self.print_after)):
            for name in names:
                if name not in (None, *known) and (name, option) != (ALL, "--print-after"):
                    raise CompileError(f"{option}={name}: there is no pass of that name{nearest_hint(name, known)}")
        if self.print_after and self.dump_folder is None:
            raise ValueError("print_after needs a dump_folder")

    def run(self, module: ModuleOp, ctx: PassContext, *, num_done: int = 0) -> PipelineResult:
        """Runs what is to be run.

        Args:
            module: Left as it is.
            ctx: What passes know besides.
            num_done: Passes that were run before, as `resume_from` says.

        Raises:
            PassError: A pass failed, or made a module that does not verify. The dumps before it are there.
        """
        records: list[PassRecord] = []
        keys: set[str] = set()
        try:
            for position, each in enumerate(self.passes[num_done : self._end()], num_done + 1):
                module, record = self._step(module, ctx, each, position)
                records.append(record)
                if record.dump is not None:
                    keys |= arrays_of(module)
        finally:
            if self.dump_folder is not None and any(record.dump for record in records):
                save_arrays(self.dump_folder, ctx.store, keys, keeps_others=num_done > 0)
        return PipelineResult(module=module, records=tuple(records), num_done=num_done + len(records))

    def resume_from(self, path: Path) -> Resumed:
        """Reads a dump, of this pipeline or of one with the same pass in another place.

        Raises:
            CompileError: The file cannot be read, or the pipeline has no such pass.
            PassError: The module in it does not verify.
        """
        dump = load_dump(path)
        verify_module(dump.module, str(path))
        known = [each.name for each in self.passes]
        places = [place for place, name in enumerate(known, 1) if name == dump.pass_name]
        if not places:
            hint = nearest_hint(dump.pass_name, known)
            raise CompileError(f"{path}: was dumped after {dump.pass_name}, which is no pass of this pipeline{hint}")
        if dump.position not in places and len(places) > 1:
            raise CompileError(
                f"{path}: was dumped after pass {dump.position}, {dump.pass_name}, which this pipeline has at "
                f"{' and '.join(map(str, places))}; set the number in data.after to one of them"
            )
        num_done = dump.position if dump.position in places else places[0]
        return Resumed(module=dump.module, store=dump.store, num_done=num_done, remaining=self.passes[num_done:])

    def _end(self) -> int:
        """Passes until the one to stop after."""
        if self.stop_after is None:
            return len(self.passes)
        return max(place for place, each in enumerate(self.passes, 1) if each.name == self.stop_after)

    def _step(self, module: ModuleOp, ctx: PassContext, each: Pass, position: int) -> tuple[ModuleOp, PassRecord]:
        """One pass, its verification and its dump."""
        begin = time.perf_counter()
        try:
            result = each.run(module, ctx)
        except PassError as error:
            raise PassError(f"pass {each.name}: {error}") from error
        end = time.perf_counter()
        verify_module(result, f"pass {each.name} made what does not verify")
        verified = time.perf_counter()
        dump = None
        if self.dump_folder is not None and {ALL, each.name} & set(self.print_after):
            dump = save_dump(self.dump_folder, result, position, each.name)
        num_ops = sum(1 for _ in ops_in(result))
        record = PassRecord(
            name=each.name, time_s=end - begin, verify_time_s=verified - end, num_ops=num_ops, dump=dump
        )  # fmt: skip
        return result, record


def split_names(option: str | None) -> tuple[str, ...]:
    """The names in an option's `a,b`."""
    return tuple(name.strip() for name in (option or "").split(",") if name.strip())
