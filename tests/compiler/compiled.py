"""Compiled networks for tests: architectures of several sizes, and running programs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tileloom.archdsl import ProgramImage, SpatialArch, load_arch
from tileloom.compiler.codegen.compiled import CompiledNetwork
from tileloom.models import FunctionalSimulator

Array = npt.NDArray[Any]
SMALL: Mapping[str, object] = {
    "parameters.rows": 4, "parameters.cols": 4, "parameters.bus_bytes": 4, "parameters.scratchpad": "8 KiB",
    "parameters.accumulator_vectors": 64,
}  # fmt: skip
"""What makes `tpe_8x8` a small array."""
ARCHITECTURES: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "8x8": ("tpe_8x8", {}), "16x16": ("tpe_16x16", {}), "4x4": ("tpe_8x8", SMALL)
}  # fmt: skip


@cache
def arch_of(name: str) -> SpatialArch:
    """One of the architectures above."""
    preset, overrides = ARCHITECTURES[name]
    arch = load_arch(preset, overrides)
    assert isinstance(arch, SpatialArch)
    return arch


def run_functional(network: CompiledNetwork, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Outputs of a network by the functional simulator."""

    def run(name: str, image: ProgramImage, memory: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        del name
        return FunctionalSimulator(image.array).run(image.program, memory)

    return network.run(inputs, run)
