"""Runs programs on the RTL: files in, files out, many programs per simulator process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..archdsl import Instruction, PeArray, RtlError, disassemble, encode_program
from .build import NUM_BEATS, NUM_INSTRUCTIONS, build
from .package import INDEX_BITS
from .sources import SV_DIR
from .toolchain import environment

Bytes = npt.NDArray[np.uint8]
Cycles = npt.NDArray[np.int64]
HEX_FILES = ("program", "memory", "blank", "dump", "trace")
QUEUES = ("load", "execute", "store")
TOKENS = ("load to execute", "execute to load", "execute to store", "store to execute")
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
        issue_cycles: [instructions] cycle of each issue; -1 where it never came to it.
        end_cycles: [instructions] cycle of each end; -1 where it never came to it.
        error: What static mode found; None when all was well.
    """

    memory: Bytes
    cycles: int
    issue_cycles: Cycles
    end_cycles: Cycles
    error: str | None


def run_programs(
    array: PeArray,
    jobs: Sequence[Job],
    *,
    waves: Path | None = None,
    coverage: Path | None = None,
    sv_dir: Path = SV_DIR,
    plusargs: Sequence[str] = (),
    is_quick: bool = False,
) -> list[RtlResult]:
    """Runs programs one after the other in one simulator.

    Args:
        array: The PE array.
        jobs: What to run.
        waves: Where to write the waveform of all of them (VCD), also of those that do not end.
        coverage: Where to write how often each line ran, for `line_coverage`; excludes `waves`.
        sv_dir: The folder of the SystemVerilog.
        is_quick: Whether the simulator, if it has to be built, should be built soon rather than run fast.
        plusargs: What the SystemVerilog asks for by `$value$plusargs`, as `name=value`.

    Raises:
        RtlError: The simulator cannot be built, a program or its memory is too large for the test bench, or a program
            does not end; with the state of queues and tokens.
        ValueError: Both waves and coverage are asked for: no simulator does both.
    """
    if waves is not None and coverage is not None:
        raise ValueError("waves and coverage exclude each other")
    kind = "waves" if waves is not None else "coverage" if coverage is not None else "quick" if is_quick else "plain"
    simulator = build(array, kind, sv_dir=sv_dir)
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
            "LD_LIBRARY_PATH": os.pathsep.join(filter(None, (str(config.libs_dir), os.environ.get("LD_LIBRARY_PATH")))),
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
        command = [str(simulator.program), *(f"+{n}={n}.hex" for n in HEX_FILES), *(f"+{arg}" for arg in plusargs)]
        command += ["--trace"] if waves is not None else []
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
        for made_file, target in (("dump.vcd", waves), ("coverage.dat", coverage)):
            if target is not None and (folder / made_file).exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(folder / made_file, target)
        return [_read(array, job, folder / str(idx), done.stdout + done.stderr) for idx, job in enumerate(jobs)]


def _written(array: PeArray, job: Job, folder: Path) -> dict[str, object]:
    folder.mkdir()
    if len(job.program) > NUM_INSTRUCTIONS or len(job.memory) > NUM_BEATS * array.bus_bytes:
        raise RtlError(
            f"the program has {len(job.program)} instructions and {len(job.memory)} bytes of main memory; the test bench"
            f" takes up to {NUM_INSTRUCTIONS} and {NUM_BEATS * array.bus_bytes}: split the program"
        )
    words = encode_program(job.program)
    (folder / "program.hex").write_text("".join(f"{word:032x}\n" for word in words), encoding="ascii")
    (folder / "blank.hex").write_text("ffffffff\n" * (2 * len(words)), encoding="ascii")
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
    trace = _words(folder / "trace.hex", 4).view(">i4").reshape(-1).astype(np.int64)
    if not result["is_done"]:
        raise RtlError(_hang(job, result, trace[0::2]))
    memory = _words(folder / "dump.hex", array.bus_bytes)[:, ::-1].reshape(-1)
    return RtlResult(
        memory=memory,
        cycles=result["cycles"],
        issue_cycles=trace[0::2],
        end_cycles=trace[1::2],
        error=_error(result["error"]),
    )


def _hang(job: Job, result: dict[str, int], issue_cycles: Cycles) -> str:
    """Why a program is taken to hang: what stands in the queues, which tokens there are, who did not issue."""
    waiting = np.flatnonzero(issue_cycles < 0)
    first = "all issued"
    if len(waiting):
        idx = int(waiting[0])
        text = disassemble(job.program[idx : idx + 1]).strip()
        first = f"instruction {idx} ({text}) is the first that did not issue"
    counts = _bytes_of(result["queue_counts"], QUEUES)
    tokens = _bytes_of(result["tokens"], TOKENS)
    return (
        f"the program did not end within {job.max_cycles} cycles: {first}; in the queues: {counts}; tokens: {tokens};"
        f" program counter {result['program_counter']}"
    )


def _bytes_of(packed: int, names: Sequence[str]) -> str:
    return ", ".join(f"{name} {packed >> 8 * idx & 255}" for idx, name in enumerate(names))


def _words(path: Path, num_bytes: int) -> Bytes:
    lines = [line for line in path.read_text(encoding="ascii").split() if line[0] not in "@/"]
    return np.frombuffer(bytes.fromhex("".join(lines)), dtype=np.uint8).reshape(-1, num_bytes)


def _error(bits: int) -> str | None:
    if not bits >> (INDEX_BITS + 4) & 1:
        return None
    queue = (*QUEUES, "dispatch")[bits >> INDEX_BITS & 3]
    return f"{CAUSES[bits >> (INDEX_BITS + 2) & 3]}: {queue} queue, instruction {bits & ((1 << INDEX_BITS) - 1)}"
