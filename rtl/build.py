"""Builds a simulator of one tensor PE array, once per set of sources, parameters and flags."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from ..archdsl import PeArray, RtlError, cache_folder
from .package import package
from .sources import SV_DIR, sources
from .toolchain import environment

NUM_BEATS = 1 << 18
"""Bus beats of the simulated main memory."""
NUM_INSTRUCTIONS = 1 << 18
"""Instructions of the simulated program memory."""
FLAGS = (
    "--cc", "--exe", "--vpi", "--prefix", "Vtop", "--unroll-count", "4", "-Wno-fatal", "-O3", "--x-assign", "fast", "--x-initial", "fast",
    "-CFLAGS", "-O2",
    f"-GNumBeats={NUM_BEATS}", f"-GNumInsns={NUM_INSTRUCTIONS}",
)  # fmt: skip
MAKE_FLAGS = ("VM_PARALLEL_BUILDS=0",)
"""All of the design in one file: compiling its headers ahead for several would take longer than the rest."""
TOP = "tpe_tb"
PUBLIC = (
    "clk", "rst_n", "load_files", "dump_files", "run", "static_mode", "latency", "cycles_per_beat", "jitter_seed", "done",
    "cycles", "error", "dump_first", "dump_last", "num_insns", "queue_counts", "tokens", "program_counter",
)  # fmt: skip
BuildKind = Literal["plain", "quick", "waves", "coverage"]
"""What a simulator can do besides running programs: write waveforms, or count how often each line ran.

`quick` is built sooner and runs slower than `plain`, for designs that run few programs.
"""
KIND_FLAGS: dict[BuildKind, tuple[str, ...]] = {
    "plain": (),
    "quick": ("-CFLAGS", "-O1"),
    "waves": ("--trace", "--trace-structs"),  # VCD: the other format needs headers that are seldom installed
    "coverage": ("--coverage-line", "--coverage-user"),  # --coverage alone crashes this version
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulator:
    """A built simulator.

    Attributes:
        program: The executable.
        folder: Its build folder.
        is_reused: Whether it had been built before.
    """

    program: Path
    folder: Path
    is_reused: bool


def build(array: PeArray, kind: BuildKind = "plain", *, sv_dir: Path = SV_DIR) -> Simulator:
    """The simulator of a PE array, built now or before.

    Args:
        array: The PE array.
        kind: What it can do besides running programs.
        sv_dir: The folder of its SystemVerilog.

    Raises:
        RtlError: A tool is missing, or the build fails; with what the tool said.
    """
    env = environment()
    text = package(array)
    key = hashlib.sha256()
    for part in (
        text,
        *FLAGS,
        *MAKE_FLAGS,
        *KIND_FLAGS[kind],
        *(path.read_text(encoding="utf-8") for path in sources(sv_dir=sv_dir)),
        _waivers(),
        *_versions(),
    ):
        key.update(part.encode())
    folder = cache_folder("rtl") / key.hexdigest()[:20]
    program = folder / TOP
    if program.exists():
        return Simulator(program=program, folder=folder, is_reused=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_suffix(".lock")):
        if program.exists():
            return Simulator(program=program, folder=folder, is_reused=True)
        # Built beside its place and moved there whole, so that a build that is cut short leaves nothing behind.
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            work = Path(made) / "build"
            work.mkdir()
            _build(work, text, kind, env, sv_dir)
            shutil.rmtree(folder, ignore_errors=True)
            work.rename(folder)
    return Simulator(program=program, folder=folder, is_reused=False)


@contextmanager
def _locked(path: Path) -> Generator[None, None, None]:
    """One process at a time: who comes second waits, and finds what the first has built."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _versions() -> tuple[str, ...]:
    """What a simulator is made with, by version and not by path: any environment with the same packages may use it."""
    return tuple(f"{package} {version(package)}" for package in ("verilator", "cocotb"))


def _build(work: Path, text: str, kind: BuildKind, env: dict[str, str], sv_dir: Path) -> None:
    from cocotb_tools import config

    (work / "tpe_pkg.sv").write_text(text, encoding="utf-8")
    (work / "public.vlt").write_text(_waivers(), encoding="utf-8")
    libs = config.libs_dir
    command = [
        "verilator", *FLAGS, *KIND_FLAGS[kind], "--top-module", TOP, "-o", TOP, "--Mdir", str(work),
        "-LDFLAGS", f"-L{libs} -lcocotbvpi_verilator",  # found by `run`, in the environment that runs it
        str(work / "public.vlt"), str(work / "tpe_pkg.sv"), *map(str, sources(sv_dir=sv_dir)),
        str(Path(config.share_dir) / "lib" / "verilator" / "verilator.cpp"),
    ]  # fmt: skip
    _run(command, work, env)
    runtime = cache_folder("rtl") / "runtime" / _runtime_key(kind, env)
    _reuse(runtime, work)
    # The wheel's make file calls `python`, which need not be on the path.
    make = ["make", "-C", str(work), "-f", "Vtop.mk", "-j", "2", *MAKE_FLAGS, f"PYTHON3={sys.executable}"]
    _run(make, work, env)
    _keep(work, runtime)


def _waivers() -> str:
    public = "\n".join(f'public_flat_rw -module "{TOP}" -var "{name}"' for name in PUBLIC)
    return f"`verilator_config\n{public}\n"


def _runtime_key(kind: BuildKind, env: dict[str, str]) -> str:
    """What the runtime's objects depend on: the compiler, the simulator, and the flags."""
    compiler = subprocess.run(["g++", "--version"], capture_output=True, text=True, env=env, check=False).stdout
    flags = KIND_FLAGS["plain" if kind == "quick" else kind]
    return hashlib.sha256("\n".join((compiler, *_versions(), *FLAGS, *flags)).encode()).hexdigest()[:20]


def _main_key(work: Path) -> str:
    """What cocotb's main program sees of a design."""
    return hashlib.sha256((work / "Vtop.h").read_bytes()).hexdigest()[:20]


def _reuse(runtime: Path, work: Path) -> None:
    """Takes the runtime's objects from an earlier build: they are the same for every design."""
    for path in runtime.glob("verilated*.o"):
        shutil.copy(path, work / path.name)
    main = runtime / f"verilator_{_main_key(work)}.o"
    if main.exists():
        shutil.copy(main, work / "verilator.o")


def _keep(work: Path, runtime: Path) -> None:
    """Keeps the runtime's objects; each is moved to its place whole, since others may be building."""
    runtime.mkdir(parents=True, exist_ok=True)
    names = {path: path.name for path in work.glob("verilated*.o")}
    names[work / "verilator.o"] = f"verilator_{_main_key(work)}.o"
    for path, name in names.items():
        if not (runtime / name).exists():
            with tempfile.TemporaryDirectory(dir=runtime) as made:
                Path(shutil.copy(path, made)).replace(runtime / name)


def _run(command: list[str], work: Path, env: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=work, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr + done.stdout).strip()[-4000:]
        raise RtlError(f"building the simulator failed: {command[0]} ended with {done.returncode}\n{said}")


def lint(array: PeArray) -> str:
    """What Verilator's lint says of the RTL; empty when it is clean.

    Raises:
        RtlError: A tool is missing.
    """
    env = environment()
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "tpe_pkg.sv"
        path.write_text(package(array), encoding="utf-8")
        command = [
            "verilator", "--lint-only", "-Wall", "--top-module", TOP, str(SV_DIR / "lint.vlt"), str(path),
            *map(str, sources()),
        ]  # fmt: skip
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    return done.stderr.strip()
