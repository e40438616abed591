"""The cocotb test that runs programs: it reads a list of jobs, and wakes only to start and to collect each of them.

Run by `run`, inside the simulator; the environment variable TPE_JOBS names the list.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, First, RisingEdge, Timer

CLOCK_NS = 2


@cocotb.test()
async def run_programs(dut: Any) -> None:
    """Runs every job of the list and writes down how each ended."""
    jobs = json.loads(Path(os.environ["TPE_JOBS"]).read_text(encoding="utf-8"))
    Clock(dut.clk, CLOCK_NS, "ns").start()
    for job in jobs:
        await _run_program(dut, job)


async def _run_program(dut: Any, job: dict[str, Any]) -> None:
    folder = Path(job["folder"])
    for name in ("program.hex", "memory.hex", "blank.hex"):
        shutil.copyfile(folder / name, name)
    dut.run.value = 0
    dut.load_files.value = 0
    dut.dump_files.value = 0
    dut.rst_n.value = 0
    for name in ("static_mode", "latency", "cycles_per_beat", "jitter_seed", "num_insns", "dump_first", "dump_last"):
        getattr(dut, name).value = job[name]
    await Timer(1, "ns")
    dut.load_files.value = 1
    await ClockCycles(dut.clk, 2)
    await FallingEdge(dut.clk)
    dut.rst_n.value = 1
    await FallingEdge(dut.clk)
    dut.run.value = 1
    # A count of clock edges would wake Python in each cycle.
    await First(RisingEdge(dut.done), Timer(CLOCK_NS * job["max_cycles"], "ns"))
    is_done = bool(int(dut.done.value))
    await FallingEdge(dut.clk)
    cycles, error = int(dut.cycles.value), int(dut.error.value)
    state = {name: int(getattr(dut, name).value) for name in ("queue_counts", "tokens", "program_counter")}
    dut.dump_files.value = 1
    await Timer(1, "ns")
    for name in ("dump.hex", "trace.hex"):
        shutil.move(name, folder / name)
    result = {"is_done": is_done, "cycles": cycles, "error": error, **state}
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
