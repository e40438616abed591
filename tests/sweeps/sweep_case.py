"""Sweeps for tests: a specification over `ref16`, run with the fake evaluator."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from tileloom.sweeps.engine import MakeExecutor, RunSummary, run_sweep
from tileloom.sweeps.evaluation import Evaluator, GroupKey, Pricer
from tileloom.sweeps.execution import LocalExecutor, SerialExecutor
from tileloom.sweeps.export import csv_bytes, table
from tileloom.sweeps.loading import Sweep, load_sweep
from tileloom.sweeps.planning import structure_key
from tileloom.sweeps.progress import SilentProgress
from tileloom.sweeps.store import SweepResults

from .fake_evaluator import fake_evaluate, fake_load

ROOT = Path(__file__).parent.parent.parent

SPEC = """\
    schema_version: 1
    name: sizes
    base: ref16
    workloads: [net_a]
    space:
      hierarchy.pe_array.axes.rows.size: [4, 8, 16]
      hierarchy.scratchpad.capacity: {from: 2 KiB, to: 64 KiB, factor: 2}
    objectives: [energy, latency]
"""


def write_spec(folder: Path, text: str = SPEC, name: str = "sweep.yaml") -> Path:
    """A specification file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


FAKE_PRICER = Pricer(evaluate=fake_evaluate, group_key=structure_key)


def load(folder: Path, text: str = SPEC) -> Sweep:
    """A checked sweep."""
    return load_sweep(write_spec(folder, text), fake_load)


def local(num_workers: int) -> MakeExecutor:
    """Worker processes."""
    return lambda context: LocalExecutor(context, num_workers)


def run(
    sweep: Sweep,
    directory: Path,
    *,
    make_executor: MakeExecutor = SerialExecutor,
    evaluator: Evaluator = fake_evaluate,
    retry_failed: bool = False,
    group_key: GroupKey = structure_key,
) -> RunSummary:
    """Run a sweep, in this process unless told otherwise."""
    pricer = Pricer(evaluate=evaluator, group_key=group_key)
    return run_sweep(sweep, directory, pricer, make_executor, SilentProgress(), retry_failed=retry_failed)


def export(directory: Path) -> bytes:
    """The CSV export of a sweep."""
    return csv_bytes(table(SweepResults.load(directory)))


def logged(path: Path) -> Sequence[str]:
    """Ids that the fake evaluator has priced."""
    return path.read_text(encoding="utf-8").split() if path.exists() else ()
