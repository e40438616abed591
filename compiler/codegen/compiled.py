"""A compiled network: programs for the accelerator and what the host does around them, in memory and as a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp

from ...archdsl import ProgramImage, SpatialArch, place_array, take_array
from ..interpreters.modules import interpret
from ..ir import pe
from ..ir.store import Array, DataStore
from .collecting import paused_collector
from .image import program_image

Bytes = npt.NDArray[np.uint8]
RunProgram = Callable[[str, ProgramImage, Bytes], Bytes]
"""Runs a program: its name, its image, and main memory before it; returns main memory after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledNetwork:
    """A network for one architecture.

    Attributes:
        module: Level `pe`: `pe.program` ops among what the host does.
        store: Arrays of its constants.
        images: The image of every program, by name.
    """

    module: ModuleOp
    store: DataStore
    images: Mapping[str, ProgramImage]

    def run(self, inputs: Mapping[str, Array], run_program: RunProgram) -> dict[str, Array]:
        """Runs the network once.

        Args:
            inputs: One array per input of the network.
            run_program: What runs its programs.

        Raises:
            CompileError: An input is missing or of another shape or type.
        """

        def run(op: pe.ProgramOp, operands: list[Array]) -> list[Array]:
            name = op.program_name.data
            image = self.images[name]
            memory = image.memory()
            for symbol, operand in zip(op.input_names, operands, strict=True):
                place_array(memory, image.symbol(symbol.data), operand)
            after = run_program(name, image, memory)
            return [np.asarray(take_array(after, image.symbol(symbol.data))) for symbol in op.output_names]

        return interpret(self.module, self.store, inputs, run_program=run)


def images_of(module: ModuleOp, arch: SpatialArch, store: DataStore) -> dict[str, ProgramImage]:
    """The images of all programs of a module of level `pe`."""
    programs = [op for op in module.body.block.ops if isinstance(op, pe.ProgramOp)]
    with paused_collector():
        return {op.program_name.data: program_image(op, arch, store) for op in programs}
