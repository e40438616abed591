"""How long commands take in a process of their own, and plans in one that has planned before.

Times of processes are processor time, start of Python and imports included, with what is compiled once already on disk; the
clock on the wall is printed beside it, and is longer where other work keeps the machine busy. `--first` adds the same plan in
an empty cache folder: the first of an installation, which compiles the loop over tiles.

    python benchmarks/command_speed.py [--repeats 5] [--first]
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass

from tileloom.archdsl import load_language_model
from tileloom.models import serving

PLAN = "serve plan --model llama3.1_70b --system dgx_h100 --rate 2 --slo ttft=1s,tpot=50ms"
COMMANDS = {
    "--help": 0.5,
    PLAN: 2.0,
    "serve plan --model deepseek_v3 --system gb200_nvl72 --rate 4 --slo tpot=50ms": 3.0,
    "serve estimate --model llama3.1_70b --system 8xh100_sxm --tp 4 --concurrency 32": 2.0,
    "estimate gemm:M=4096,N=4096,K=4096,datatype=bf16 --arch h100_sxm": 2.0,
    "validate docs/examples/measurements/h100_gemm.csv --arch h100_sxm": 2.0,
}
"""Command lines, and the processor time that each should take at most [s]."""
PLANS = (("llama3.1_70b", "dgx_h100"), ("llama3.1_70b", "gb200_nvl72"), ("deepseek_v3", "gb200_nvl72"))
PLAN_TARGET_S = 2.0
FORMAT = "{:<84}{:>10}{:>10}{:>10}{:>6}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a process took.

    Attributes:
        processor_s: Processor time, of user and system together [s].
        wall_s: Time on the wall [s].
    """

    processor_s: float
    wall_s: float


def main() -> int:
    """Prints the tables; returns 1 when a median misses its target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="repeats, of which the median counts")
    parser.add_argument("--first", action="store_true", help="also the first plan of an installation")
    options = parser.parse_args()
    print(FORMAT.format("a process of its own: tileloom ...", "CPU", "wall", "target", "met"))
    missed = [not _print_command(command, target_s, options.repeats) for command, target_s in COMMANDS.items()]
    if options.first:
        with tempfile.TemporaryDirectory() as empty:
            taken = _run(PLAN, {"TILELOOM_CACHE": empty, "NUMBA_CACHE_DIR": empty})
        print(FORMAT.format("the first plan of an installation", *_texts(taken.processor_s, taken.wall_s), "", ""))
    print()
    print(FORMAT.format("a process that has planned before", "CPU", "wall", "target", "met"))
    for model, system in PLANS:
        times = _warm_plans(model, system, options.repeats)
        missed.append(not _print_row(f"{model} on {system}", times, PLAN_TARGET_S))
    return int(any(missed))


def _print_command(command: str, target_s: float, repeats: int) -> bool:
    _run(command, {})  # compiles what is compiled once
    return _print_row(command, [_run(command, {}) for _ in range(repeats)], target_s)


def _print_row(name: str, times: list[Taken], target_s: float) -> bool:
    processor_s = statistics.median(one.processor_s for one in times)
    wall_s = statistics.median(one.wall_s for one in times)
    is_met = processor_s <= target_s
    print(FORMAT.format(name, *_texts(processor_s, wall_s, target_s), "yes" if is_met else "NO"), flush=True)
    return is_met


def _texts(*times_s: float) -> list[str]:
    return [f"{time_s:.2f} s" for time_s in times_s]


def _run(command: str, environment: Mapping[str, str]) -> Taken:
    before, started_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "tileloom.sweeps.cli", *command.split()],
        check=True,
        capture_output=True,
        env={**os.environ, **environment},
    )
    wall_s, after = time.perf_counter() - started_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Taken(processor_s=processor_s, wall_s=wall_s)


def _warm_plans(model: str, system: str, repeats: int) -> list[Taken]:
    """Times of all three ways to serve together, after one search that warms up."""
    described = load_language_model(model)
    service = serving.make_service(
        described,
        serving.numerics_of(described),
        serving.load_fabric(system),
        serving.Engine(),
        serving.Traffic(isl=1024, osl=256),
    )
    limits = serving.Limits(requests_per_s=2.0, ttft_s=1.0, tpot_s=0.05)
    serving.make_plans(service, limits)
    found: list[Taken] = []
    for _ in range(repeats):
        started_s, begun_s = time.perf_counter(), time.process_time()
        serving.make_plans(service, limits)
        found.append(Taken(processor_s=time.process_time() - begun_s, wall_s=time.perf_counter() - started_s))
    return found


if __name__ == "__main__":
    sys.exit(main())
