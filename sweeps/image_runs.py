"""Runs a program image on the RTL, the event replay and the functional simulator, and says whether they agree."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..archdsl import (
    FP8_FORMATS,
    CompileError,
    Instruction,
    ProgramImage,
    RtlError,
    nearest_hint,
    parse_notation,
    place_array,
    take_array,
    value_range,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ..models import Replay
    from ..rtl import RtlResult

    Ints = npt.NDArray[np.integer]
    Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a program is run.

    Attributes:
        is_static: Whether issue cycles (those of the replay) gate issue; else tokens do.
        latency_cycles, cycles_per_beat: Main memory's; the architecture's when left out.
        jitter_seed: Seed of main memory's jitter; 0 for none.
        waves: Where to write the waveform; None for none.
        max_cycles: Cycles after which the program counts as hung.
    """

    is_static: bool = False
    latency_cycles: int | None = None
    cycles_per_beat: int | None = None
    jitter_seed: int = 0
    waves: Path | None = None
    max_cycles: int = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRun:
    """What a run found.

    Attributes:
        outputs: Arrays of the output symbols, as the RTL left them.
        rtl_cycles: Cycles of the RTL.
        replay: The event replay; None under jitter, which it does not know.
        estimate_cycles: Of the analytical model; None where the manifest names no mapping and no prediction.
        macs: Multiply-accumulates that the ops need.
        num_pes: PEs of the array.
        memory: Main memory after the run on the RTL.
        expected: Main memory after the run on the functional simulator.
        disagreements: What differs between RTL, replay and functional simulator; empty when all is well.
    """

    outputs: Mapping[str, Ints]
    rtl_cycles: int
    replay: Replay | None
    estimate_cycles: float | None
    macs: int
    num_pes: int
    memory: Bytes
    expected: Bytes
    disagreements: tuple[str, ...] = field(default=())

    @property
    def utilization(self) -> float:
        """Useful MACs over (PEs x cycles), 0 to 1."""
        return self.macs / (self.num_pes * self.rtl_cycles)


def random_inputs(image: ProgramImage, seed: int) -> dict[str, Ints]:
    """Uniform random arrays for all input symbols."""
    import numpy as np

    numbers = np.random.default_rng(seed)
    found: dict[str, Ints] = {}
    for symbol in image.symbols("input"):
        low, high = value_range(symbol)
        if symbol.format != "integer":
            # No NaN and no infinity, which would hide most of a sum.
            magnitude = numbers.integers(0, FP8_FORMATS[symbol.format].max_code + 1, symbol.shape)
            found[symbol.name] = (magnitude | numbers.integers(0, 2, symbol.shape) << 7).astype(np.uint8)
            continue
        found[symbol.name] = numbers.integers(low, high + 1, symbol.shape)
    return found


def load_inputs(image: ProgramImage, path: Path) -> dict[str, Ints]:
    """The arrays of an .npz file, one for each input symbol.

    Raises:
        CompileError: The file is no .npz, or its names are not those of the input symbols.
    """
    return named_arrays(path, [symbol.name for symbol in image.symbols("input")], "the program")


def named_arrays(path: Path, wanted: Sequence[str], of_what: str) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an .npz file, one for each wanted name.

    Raises:
        CompileError: The file is no .npz, or its names are not those that are wanted.
    """
    import numpy as np

    try:
        with np.load(path) as file:
            found: dict[str, npt.NDArray[Any]] = {name: file[name] for name in file.files}
    except (ValueError, TypeError, zipfile.BadZipFile, AttributeError) as error:
        raise CompileError(f"{path}: no .npz file; write it with numpy.savez(path, {wanted[0]}=array)") from error
    for name in found:
        if name not in wanted:
            raise CompileError(f"{path}: '{name}' is no input of {of_what}{nearest_hint(name, wanted)}")
    if missing := [name for name in wanted if name not in found]:
        raise CompileError(f"{path}: lacks the input {', '.join(missing)}; it has {', '.join(found) or 'nothing'}")
    return found


def memory_with(image: ProgramImage, inputs: Mapping[str, Ints]) -> Bytes:
    """Main memory before the program, with inputs in their places.

    Raises:
        CompileError: An input is unknown or does not fit.
    """
    memory = image.memory()
    for name, values in inputs.items():
        place_array(memory, image.symbol(name), values)
    return memory


def replay_image(image: ProgramImage, options: RunOptions) -> Replay:
    """The event replay of an image.

    Raises:
        ModelError: The program hangs.
    """
    from ..models import replay

    return replay(
        image.array,
        image.program,
        latency_cycles=options.latency_cycles,
        cycles_per_beat=options.cycles_per_beat,
        max_cycles=options.max_cycles,
    )


def run_image(image: ProgramImage, inputs: Mapping[str, Ints], options: RunOptions) -> ImageRun:
    """Runs an image on everything that can run it.

    Args:
        image: The program image.
        inputs: Arrays by input symbol.
        options: How to run it.

    Raises:
        CompileError: An input does not fit.
        ModelError: The program hangs in the replay.
        RtlError: The simulator cannot be built, or the program hangs on the RTL.
    """
    return run_memory(image, memory_with(image, inputs), options)


def run_memory(image: ProgramImage, memory: Bytes, options: RunOptions) -> ImageRun:
    """Runs an image from a main memory that holds its inputs already; see `run_image`."""
    from ..models import FunctionalSimulator

    expected = FunctionalSimulator(image.array).run(image.program, memory)
    found = None if options.jitter_seed else replay_image(image, options)
    result = _run_rtl(image, memory, _program(image, found, options), options)
    outputs: dict[str, Ints] = {s.name: take_array(result.memory, s) for s in image.symbols("output")}
    return ImageRun(
        outputs=outputs,
        rtl_cycles=result.cycles,
        replay=found,
        estimate_cycles=estimate_cycles(image),
        macs=sum(op.macs for op in image.manifest.ops),
        num_pes=image.array.rows * image.array.cols,
        memory=result.memory,
        expected=expected,
        disagreements=tuple(_disagreements(image, result, expected, found)),
    )


def _program(image: ProgramImage, found: Replay | None, options: RunOptions) -> tuple[Instruction, ...]:
    from ..models import with_issue_cycles

    if not options.is_static:
        return image.program
    if found is None:
        raise RtlError("a static schedule needs main memory without jitter; leave out --static or --jitter-seed")
    return with_issue_cycles(image.program, found)


def _run_rtl(image: ProgramImage, memory: Bytes, program: tuple[Instruction, ...], options: RunOptions) -> RtlResult:
    from ..rtl import Job, run_programs

    array = image.array
    job = Job(
        program=program,
        memory=memory,
        is_static=options.is_static,
        latency_cycles=array.latency_cycles if options.latency_cycles is None else options.latency_cycles,
        cycles_per_beat=array.cycles_per_beat if options.cycles_per_beat is None else options.cycles_per_beat,
        jitter_seed=options.jitter_seed,
        max_cycles=options.max_cycles,
    )
    return run_programs(array, [job], waves=options.waves)[0]


def _disagreements(image: ProgramImage, result: RtlResult, expected: Bytes, found: Replay | None) -> list[str]:
    said: list[str] = []
    if result.error is not None:
        said.append(f"the RTL reports {result.error}")
    different = (result.memory != expected).nonzero()[0]
    if len(different):
        at = int(different[0])
        where = next((r.name for r in image.manifest.memory.regions if r.address <= at < r.address + r.size_bytes), "")
        said.append(
            f"{len(different)} bytes of main memory differ, the first at {at}{f' ({where})' if where else ''}: RTL"
            f" {result.memory[at]}, functional simulator {expected[at]}"
        )
    if found is not None and found.cycles != result.cycles:
        said.append(f"the RTL takes {result.cycles} cycles and the event replay {found.cycles}")
    if found is not None and len(differs := (found.issue_cycles != result.issue_cycles).nonzero()[0]):
        at = int(differs[0])
        said.append(
            f"{len(differs)} instructions issue at another cycle, the first is {at} ({image.program[at].name}): RTL"
            f" {result.issue_cycles[at]}, event replay {found.issue_cycles[at]}"
        )
    return said


def estimate_cycles(image: ProgramImage) -> float | None:
    """Cycles of all ops after the analytical model; None unless each has a mapping or a prediction.

    Raises:
        MappingError: A mapping is illegal for its op and architecture.
        WorkloadError: An op's kind and dims are none that the models know.
    """
    from ..models import estimate_op

    total = 0.0
    for op in image.manifest.ops:
        mapping = op.mapping_nodes
        if mapping is not None:
            dims = ",".join(f"{name}={size}" for name, size in op.dims.items())
            priced = replace(parse_notation(f"{op.kind}:{dims},bits=8,acc_bits=32"), name=op.name)
            total += estimate_op(priced, mapping, image.arch, fidelity="detailed").latency_cycles
        elif op.predicted_cycles is not None:
            total += op.predicted_cycles
        else:
            return None
    return total if image.manifest.ops else None
