"""Runs a compiled network on the functional simulator, the event replay or the RTL, with the host's part around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..archdsl import ProgramImage
from .image_runs import ImageRun, RunOptions, estimate_cycles, named_arrays, replay_image, run_memory
from .network_targets import Target
from .tilings import region_at

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ..compiler import SavedNetwork
    from ..models import Replay

    Array = npt.NDArray[Any]
    Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerBytes:
    """A result that a layer has stored in main memory, on the RTL beside the functional simulator.

    Attributes:
        op: Name of the op.
        region: Part of main memory.
        num_bytes: Its size.
        num_different: Bytes that differ.
    """

    op: str
    region: str
    num_bytes: int
    num_different: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRun:
    """What running one program found.

    Attributes:
        name: Of the program.
        macs: Multiply-accumulates of its ops.
        num_pes: PEs of the array.
        rtl_cycles: Cycles of the RTL; None where it did not run.
        replay: Its event replay; None on the functional simulator alone.
        estimate_cycles: Of the analytical model; None where the manifest names no mapping and no prediction.
        disagreements: What differs between RTL, functional simulator and replay.
        layers: Stored results, where they were compared.
    """

    name: str
    macs: int
    num_pes: int
    rtl_cycles: int | None = None
    replay: Replay | None = None
    estimate_cycles: float | None = None
    disagreements: tuple[str, ...] = ()
    layers: tuple[LayerBytes, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkRun:
    """What running a network found.

    Attributes:
        target: What it ran on.
        outputs: By the network's names; empty for a replay, which knows no values.
        programs: One for each program, in the order of their runs.
    """

    target: Target
    outputs: Mapping[str, Array] = field(default_factory=dict["str", "Array"])
    programs: tuple[ProgramRun, ...]

    @property
    def disagreements(self) -> tuple[str, ...]:
        """Of all programs, each with its program's name where there are several."""
        several = len(self.programs) > 1
        return tuple(f"{run.name}: {text}" if several else text for run in self.programs for text in run.disagreements)

    @property
    def layers(self) -> tuple[LayerBytes, ...]:
        """Stored results of all programs."""
        return tuple(layer for run in self.programs for layer in run.layers)


def random_network_inputs(saved: SavedNetwork, seed: int) -> dict[str, Array]:
    """Random arrays for all inputs: indices of what they choose among, other integers of all that their type holds, real numbers
    from a standard normal.
    """
    import numpy as np

    numbers = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for tensor in saved.record.inputs:
        dtype = np.dtype(tensor.dtype)
        if tensor.num_choices is not None:
            found[tensor.name] = numbers.integers(0, tensor.num_choices, tensor.shape).astype(dtype)
        elif dtype.kind == "b":
            found[tensor.name] = numbers.integers(0, 2, tensor.shape).astype(dtype)
        elif dtype.kind in "iu":
            limits = np.iinfo(dtype)
            found[tensor.name] = numbers.integers(limits.min, limits.max, tensor.shape, dtype=dtype, endpoint=True)
        else:
            found[tensor.name] = numbers.standard_normal(tensor.shape).astype(dtype)
    return found


def load_network_inputs(saved: SavedNetwork, path: Path) -> dict[str, Array]:
    """The arrays of an .npz file, one for each input of the network.

    Raises:
        CompileError: The file is no .npz, or its names are not those of the inputs.
    """
    return named_arrays(path, [tensor.name for tensor in saved.record.inputs], "the network")


def run_network(
    saved: SavedNetwork,
    inputs: Mapping[str, Array],
    target: Target,
    options: RunOptions,
    *,
    compares_layers: bool = False,
) -> NetworkRun:
    """Runs a network.

    Args:
        saved: The network.
        inputs: One array per input of the network.
        target: What to run it on.
        options: How to run its programs.
        compares_layers: Whether stored results of layers are compared between RTL and functional simulator.

    Raises:
        CompileError: An input is missing or of another shape or type.
        ModelError: A program hangs in the replay.
        RtlError: The simulator cannot be built, or a program hangs on the RTL.
    """
    images = saved.network.images
    if target is Target.REPLAY:
        replays = replay_programs(images, options)
        return NetworkRun(
            target=target, programs=tuple(_run(name, images[name], replay=found) for name, found in replays.items())
        )
    runs: list[ProgramRun] = []
    step = _on_rtl(runs, options, compares_layers) if target is Target.RTL else _functional(runs)
    outputs = saved.network.run(inputs, step)
    return NetworkRun(target=target, outputs=outputs, programs=tuple(runs))


def replay_programs(images: Mapping[str, ProgramImage], options: RunOptions) -> dict[str, Replay]:
    """The event replay of every program, by name.

    Raises:
        ModelError: A program hangs.
    """
    return {name: replay_image(image, options) for name, image in images.items()}


def _functional(runs: list[ProgramRun]) -> Callable[[str, ProgramImage, Bytes], Bytes]:
    from ..models import FunctionalSimulator

    def step(name: str, image: ProgramImage, memory: Bytes) -> Bytes:
        runs.append(_run(name, image))
        return FunctionalSimulator(image.array).run(image.program, memory)

    return step


def _on_rtl(
    runs: list[ProgramRun], options: RunOptions, compares_layers: bool
) -> Callable[[str, ProgramImage, Bytes], Bytes]:
    def step(name: str, image: ProgramImage, memory: Bytes) -> Bytes:
        found: ImageRun = run_memory(image, memory, options)
        layers = stored_layers(image, found.memory, found.expected) if compares_layers else ()
        said = [*found.disagreements, *_first_different(layers)]
        runs.append(
            _run(name, image, rtl=found.rtl_cycles, replay=found.replay, disagreements=tuple(said), layers=layers)
        )
        return found.memory

    return step


def _run(
    name: str,
    image: ProgramImage,
    *,
    rtl: int | None = None,
    replay: Replay | None = None,
    disagreements: tuple[str, ...] = (),
    layers: tuple[LayerBytes, ...] = (),
) -> ProgramRun:
    return ProgramRun(
        name=name, macs=sum(op.macs for op in image.manifest.ops), num_pes=image.array.rows * image.array.cols,
        rtl_cycles=rtl, replay=replay, estimate_cycles=estimate_cycles(image), disagreements=disagreements, layers=layers,
    )  # fmt: skip


def stored_layers(image: ProgramImage, memory: Bytes, expected: Bytes) -> tuple[LayerBytes, ...]:
    """What every op has stored in main memory, compared.

    Args:
        image: The image; one that was compiled with `--keep-layers` stores all results.
        memory, expected: Main memory after the run on the RTL, and on the functional simulator.
    """
    found: list[LayerBytes] = []
    regions = {region.name: region for region in image.manifest.memory.regions}
    for op in image.manifest.ops:
        own = image.program[op.first_instruction : op.first_instruction + op.num_instructions]
        stored = [region_at(image, insn["address"]) for insn in own if insn.name == "ST" and insn["space"] == 0]
        for name in dict.fromkeys(filter(None, stored)):
            part = slice(regions[name].address, regions[name].address + regions[name].size_bytes)
            different = int((memory[part] != expected[part]).sum())
            found.append(
                LayerBytes(op=op.name, region=name, num_bytes=regions[name].size_bytes, num_different=different)
            )
    return tuple(found)


def _first_different(layers: Sequence[LayerBytes]) -> list[str]:
    first = next((layer for layer in layers if layer.num_different), None)
    if first is None:
        return []
    counts = f"{first.num_different} of {first.num_bytes} bytes of {first.region}"
    return [f"{first.op} is the first layer whose stored result differs: {counts}"]
