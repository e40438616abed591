"""Runs programs on the RTL: files in, files out, many programs per simulator process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..archdsl import Instruction, PeArray, RtlError, encode_program
from .build import build
from .package import INDEX_BITS
from .toolchain import environment

Bytes = npt.NDArray[np.uint8]
Cycles = npt.NDArray[np.int64]
CAUSES = ("none", "mistimed", "bank conflict", "undelivered")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One program to run.

    Attributes:
        program: The program.
        memory: Main memory before it.
        is_static: Whether issue cycles gate issue; else tokens do.
        latency_cycles: Cycles from a request to main memory to its first beat.
        cycles_per_beat: Cycles from one beat to the next.
        jitter_seed: Seed of the memory's jitter; 0 for none.
        max_cycles: Cycles after which the program counts as hung.
    """

    program: Sequence[Instruction]
    memory: Bytes
    is_static: bool = False
    latency_cycles: int = 20
    cycles_per_beat: int = 1
    jitter_seed: int = 0
    max_cycles: int = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RtlResult:
    """How a program ended on the RTL.

    Attributes:
        memory: Main memory after it.
        cycles: Cycle of the end.
        issue_cycles: [instructions] cycle of each issue.
        end_cycles: [instructions] cycle of each end.
        error: What static mode found; None when all was well.
    """

    memory: Bytes
    cycles: int
    issue_cycles: Cycles
    end_cycles: Cycles
    error: str | None


def run_programs(array: PeArray, jobs: Sequence[Job]) -> list[RtlResult]:
    """Runs programs one after the other in one simulator.

    Args:
        array: The PE array.
        jobs: What to run.

    Raises:
        RtlError: The simulator cannot be built, or a program does not end.
    """
    simulator = build(array)
    from cocotb_tools import config
    from find_libpython import find_libpython

    libpython = find_libpython()
    if libpython is None:
        raise RtlError("cocotb needs Python's shared library (libpython), and there is none beside this Python")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        entries = [_written(array, job, folder / str(idx)) for idx, job in enumerate(jobs)]
        (folder / "jobs.json").write_text(json.dumps(entries), encoding="utf-8")
        env = {
            **environment(),
            # By itself: what the rest of the package imports would take longer than most programs.
            "COCOTB_TEST_MODULES": "tpe_programs",
            "PYTHONPATH": os.pathsep.join((str(Path(__file__).parent / "bench"), *sys.path)),
            "COCOTB_TOPLEVEL": "tpe_tb",
            "TOPLEVEL_LANG": "verilog",
            "COCOTB_LOG_LEVEL": "WARNING",
            "COCOTB_TRUST_INERTIAL_WRITES": "1",
            "PYGPI_PYTHON_BIN": sys.executable,
            "GPI_USERS": f"{libpython};{config.pygpi_entry_point()}",
            "COCOTB_RESULTS_FILE": str(folder / "results.xml"),
            "TPE_JOBS": str(folder / "jobs.json"),
        }
        command = [str(simulator.program), *(f"+{n}={n}.hex" for n in ("program", "memory", "dump", "trace"))]
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
        return [_read(array, job, folder / str(idx), done.stdout + done.stderr) for idx, job in enumerate(jobs)]


def _written(array: PeArray, job: Job, folder: Path) -> dict[str, object]:
    folder.mkdir()
    words = encode_program(job.program)
    (folder / "program.hex").write_text("".join(f"{word:032x}\n" for word in words), encoding="ascii")
    beats = job.memory.reshape(-1, array.bus_bytes)[:, ::-1]
    (folder / "memory.hex").write_text("".join(f"{row.tobytes().hex()}\n" for row in beats), encoding="ascii")
    return {
        "folder": str(folder),
        "static_mode": int(job.is_static),
        "latency": job.latency_cycles,
        "cycles_per_beat": job.cycles_per_beat,
        "jitter_seed": job.jitter_seed,
        "max_cycles": job.max_cycles,
        "num_insns": len(words),
        "dump_first": 0,
        "dump_last": len(beats) - 1,
    }


def _read(array: PeArray, job: Job, folder: Path, said: str) -> RtlResult:
    path = folder / "result.json"
    if not path.exists():
        raise RtlError(f"the simulator ended early; it said:\n{said[-4000:]}")
    result = json.loads(path.read_text(encoding="utf-8"))
    if not result["is_done"]:
        raise RtlError(f"the program did not end within {job.max_cycles} cycles")
    memory = _words(folder / "dump.hex", array.bus_bytes)[:, ::-1].reshape(-1)
    trace = _words(folder / "trace.hex", 4).astype(np.int64) @ (256 ** np.arange(3, -1, -1))
    return RtlResult(
        memory=memory,
        cycles=result["cycles"],
        issue_cycles=trace[0::2],
        end_cycles=trace[1::2],
        error=_error(result["error"]),
    )


def _words(path: Path, num_bytes: int) -> Bytes:
    lines = [line for line in path.read_text(encoding="ascii").split() if line[0] not in "@/"]
    return np.frombuffer(bytes.fromhex("".join(lines)), dtype=np.uint8).reshape(-1, num_bytes)


def _error(bits: int) -> str | None:
    if not bits >> (INDEX_BITS + 4) & 1:
        return None
    queue = ("load", "execute", "store", "dispatch")[bits >> INDEX_BITS & 3]
    return f"{CAUSES[bits >> (INDEX_BITS + 2) & 3]}: {queue} queue, instruction {bits & ((1 << INDEX_BITS) - 1)}"
