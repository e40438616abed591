"""Dumps after every pass: `mlir-opt` takes them, and a compilation that goes on from one makes the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileloom.archdsl import CompileError, PassError, save_image
from tileloom.compiler.codegen.compiled import CompiledNetwork
from tileloom.compiler.compilation import CompileOptions, DumpOptions, compile_network, passes_of
from tileloom.compiler.generators import quantised_resnet8, random_quantised_graph
from tileloom.compiler.ir.mlir_opt import check_with_mlir
from tileloom.compiler.ir.text import parse_module, print_module

from .compiled import arch_of
from .reference import needs_mlir

TWO_PROGRAMS, SEVERAL_OUTPUTS, WITH_TABLE = 7, 4, 11
"""Seeds of random networks: with work of the host in between, and so on."""
LEVELS = ("canonicalise-graph", "canonicalise-qnn", "convert-qnn-to-tile", "convert-tile-to-pe")
"""A pass that ends in each level."""
OPTIONS = CompileOptions(fallback=True)


@pytest.fixture(scope="module")
def resnet8(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CompiledNetwork]:
    """Dumps after all passes, and the network."""
    folder = tmp_path_factory.mktemp("resnet8")
    return folder, dumped(folder, quantised_resnet8(0))


def dumped(folder: Path, model: object) -> CompiledNetwork:
    dumps = DumpOptions(print_after=("all",), folder=folder)
    network = compile_network(model, arch_of("8x8"), OPTIONS, dumps=dumps).network  # pyright: ignore[reportArgumentType]
    assert network is not None
    return network
