"""Random networks give the same outputs at every level of the IR, for arrays of three sizes, and their programs are valid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, UnitAttr

from tileloom.archdsl import check_program
from tileloom.compiler.codegen.compiled import CompiledNetwork, images_of
from tileloom.compiler.codegen.image import program_image
from tileloom.compiler.frontend.network import read_network
from tileloom.compiler.generators import random_quantised_graph
from tileloom.compiler.interpreters.modules import interpret
from tileloom.compiler.ir import pe, tile
from tileloom.compiler.ir.attributes import int_attr
from tileloom.compiler.ir.store import DataStore
from tileloom.compiler.passes.base import PassContext
from tileloom.compiler.passes.convert_qnn_to_tile import ConvertQnnToTile
from tileloom.compiler.passes.convert_tile_to_pe import ConvertTileToPe
from tileloom.compiler.pipeline import FRONT_PASSES, run_passes
from tileloom.models import replay

from .compiled import ARCHITECTURES, Array, arch_of, run_functional
from .reference import random_inputs

SEEDS = (*range(15), 52)
"""The last one fills borders beside bytes that nothing writes."""
NUM_GRAPH_PASSES = [each.name for each in FRONT_PASSES].index("convert-convolutions-to-qnn")


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """A network at the first two levels."""

    graph: ModuleOp
    quantised: ModuleOp
    store: DataStore
    inputs: dict[str, Array]


def front_of(seed: int) -> Front:
    model = random_quantised_graph(seed)
    module, store = read_network(model)
    graph = run_passes(module, PassContext(store=store), FRONT_PASSES[:NUM_GRAPH_PASSES])
    quantised = run_passes(graph, PassContext(store=store), FRONT_PASSES[NUM_GRAPH_PASSES:])
    return Front(graph=graph, quantised=quantised, store=store, inputs=random_inputs(model, seed))


def assert_equal(found: dict[str, Array], expected: dict[str, Array], what: str) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=f"{what}, {name}")


@pytest.mark.parametrize("seed", SEEDS)
def test_levels_agree(seed: int) -> None:
    front = front_of(seed)
    reals = interpret(front.graph, front.store, front.inputs)
    expected = interpret(front.quantised, front.store, front.inputs)
    for name, array in expected.items():  # what is halfway between two steps may go either way in floating point
        assert np.abs(array.astype(int) - reals[name].astype(int)).max() <= 1
    for size in ARCHITECTURES:
        for keeps_on_chip in (True, False):
            what = f"{size}, keeps_on_chip={keeps_on_chip}"
            ctx = PassContext(store=front.store, arch=arch_of(size))
            tiled = ConvertQnnToTile(keeps_on_chip=keeps_on_chip).run(front.quantised, ctx)
            tiled.verify()
            assert_equal(interpret(tiled, ctx.store, front.inputs), expected, f"tile, {what}")
            module = ConvertTileToPe().run(tiled, ctx)
            module.verify()
            images = images_of(module, arch_of(size), ctx.store)
            network = CompiledNetwork(module=module, store=ctx.store, images=images)
            assert_equal(run_functional(network, front.inputs), expected, f"pe, {what}")
            for image in images.values():
                assert check_program(image.program, image.array, len(image.data)) == ()
                assert replay(image.array, image.program).cycles > 0


def test_a_wrong_tile_program_differs() -> None:
    front = front_of(1)
    ctx = PassContext(store=front.store, arch=arch_of("8x8"))
    tiled = ConvertQnnToTile().run(front.quantised, ctx)
    expected = interpret(tiled, ctx.store, front.inputs)
    store = next(op for op in reversed(list(tiled.walk())) if isinstance(op, tile.StoreOp))
    store.attributes["zero_point"] = int_attr(store.zero_point.value.data + 3)
    found = interpret(tiled, ctx.store, front.inputs)
    assert any(not np.array_equal(found[name], array) for name, array in expected.items())


def test_a_program_that_waits_for_less_has_faults() -> None:
    front = front_of(1)
    ctx = PassContext(store=front.store, arch=arch_of("8x8"))
    module = ConvertTileToPe().run(ConvertQnnToTile().run(front.quantised, ctx), ctx)
    program = next(op for op in module.walk() if isinstance(op, pe.ProgramOp))
    first = next(op for op in program.body.block.ops if op.attributes.get("pop_prev") == UnitAttr())
    del first.attributes["pop_prev"]
    image = program_image(program, arch_of("8x8"), ctx.store)
    assert check_program(image.program, image.array, len(image.data))
