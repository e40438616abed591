"""Each spatial preset admits the mapping that its chip is known for, and refuses what its hardware cannot do."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tileloom.archdsl import Mapping, Op, Spatial, SpatialArch, ceil_div, check_mapping, load_arch, parse_mapping

from ..random_cases import conv, gemm

# AlexNet's third layer as one row-stationary pass: a filter row per PE, 3 filter rows x 4 channel groups down a column,
# 13 output rows across; 4 channels x 3 taps fill the 12-word input store, 16 filters the rest.
EYERISS = """
  - {keep: [I, W, O], level: main_memory}
  - {for: B, tile: 1}
  - {for: K, tile: 64}
  - {keep: [O], level: scratchpad}
  - {for: C, tile: 16}
  - {keep: [I], level: scratchpad}
  - {for: K, tile: 16}
  - {spatial: FY, axis: pe_array.rows, tile: 1}
  - {spatial: C, axis: pe_array.rows, tile: 4}
  - {spatial: OY, axis: pe_array.cols, tile: 1}
  - {keep: [W], level: pe_weight_scratchpad}
  - {for: OX, tile: 1}
  - {keep: [I], level: input_register_file}
  - {keep: [O], level: output_register_file}
  - {for: C, tile: 1}
  - {for: FX, tile: 1}
  - {for: K, tile: 1}
"""

SIMBA = """
  - {keep: [I, W, O], level: main_memory}
  - {for: OY, tile: 7}
  - {keep: [I, O], level: global_scratchpad}
  - {for: OY, tile: 1}
  - {spatial: C, axis: pe_mesh.rows, tile: 16}
  - {spatial: K, axis: pe_mesh.cols, tile: 16}
  - {keep: [I], level: input_scratchpad}
  - {keep: [W], level: weight_scratchpad}
  - {keep: [O], level: accumulation_scratchpad}
  - {for: FY, tile: 1}
  - {for: FX, tile: 1}
  - {for: C, tile: 8}
  - {for: K, tile: 8}
  - {spatial: K, axis: vector_mac_array.vector_macs, tile: 1}
  - {spatial: C, axis: vector_mac_array.lanes, tile: 1}
  - {keep: [W], level: weight_register}
  - {for: OX, tile: 1}
"""

TPU = """
  - {keep: [A, W, Z], level: main_memory}
  - {keep: [A, Z], level: unified_buffer}
  - {for: N, tile: 256}
  - {keep: [Z], level: accumulators}
  - {for: K, tile: 256}
  - {keep: [W], level: weight_fifo}
  - {spatial: K, axis: matrix_unit.rows, tile: 1}
  - {spatial: N, axis: matrix_unit.cols, tile: 1}
  - {keep: [W], level: weight_register}
  - {for: M, tile: 1}
"""

GEMMINI_WEIGHTS = """
  - {keep: [A, W, Z], level: main_memory}
  - {for: M, tile: 64}
  - {for: N, tile: 64}
  - {keep: [A, W], level: scratchpad}
  - {keep: [Z], level: accumulator}
  - {for: K, tile: 16}
  - {for: N, tile: 16}
  - {spatial: K, axis: pe_array.rows, tile: 1}
  - {spatial: N, axis: pe_array.cols, tile: 1}
  - {keep: [W], level: register}
  - {for: M, tile: 1}
"""

GEMMINI_OUTPUTS = """
  - {keep: [A, W, Z], level: main_memory}
  - {for: M, tile: 64}
  - {for: N, tile: 64}
  - {keep: [A, W], level: scratchpad}
  - {keep: [Z], level: accumulator}
  - {for: M, tile: 16}
  - {for: N, tile: 16}
  - {spatial: M, axis: pe_array.rows, tile: 1}
  - {spatial: N, axis: pe_array.cols, tile: 1}
  - {keep: [Z], level: register}
  - {for: K, tile: 1}
"""

# A stripe of 16 pixels under one kernel group, as NVDLA's sequencer walks it.
NVDLA = """
  - {keep: [I, W, O], level: main_memory}
  - {for: K, tile: 32}
  - {keep: [I, W], level: convolution_buffer}
  - {for: OY, tile: 1}
  - {for: OX, tile: 16}
  - {keep: [O], level: accumulator}
  - {for: FY, tile: 1}
  - {for: FX, tile: 1}
  - {for: C, tile: 64}
  - {spatial: K, axis: mac_array.kernels, tile: 1}
  - {spatial: C, axis: mac_array.channels, tile: 1}
  - {keep: [W], level: weight_register}
  - {for: OX, tile: 1}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataflow:
    """A mapping that a chip is known for.

    Attributes:
        preset: The chip.
        op: What is mapped.
        nodes: The mapping's nodes as YAML.
        busy_pes: PEs that it keeps busy.
    """

    preset: str
    op: Op
    nodes: str
    busy_pes: int


CONV = {"K": 64, "C": 64, "OY": 28, "OX": 28, "FY": 3, "FX": 3}
DATAFLOWS = {
    # Chen et al., JSSC 2017, Table V: 156 of 168 PEs are active in AlexNet's third layer.
    "eyeriss row-stationary": Dataflow(
        preset="eyeriss_v1",
        op=conv({"B": 4, "K": 384, "C": 256, "OY": 13, "OX": 13, "FY": 3, "FX": 3}, bits=(16, 16, 16)),
        nodes=EYERISS,
        busy_pes=156,
    ),
    "simba": Dataflow(
        preset="simba_chiplet",
        op=conv({"K": 64, "C": 64, "OY": 14, "OX": 14, "FY": 3, "FX": 3}, bits=(8, 8, 24)),
        nodes=SIMBA,
        busy_pes=1024,
    ),
    "tpu": Dataflow(preset="tpu_v1", op=gemm(200, 512, 512, (8, 8, 32)), nodes=TPU, busy_pes=65536),
    "gemmini weight-stationary": Dataflow(
        preset="gemmini_16x16", op=gemm(128, 128, 128, (8, 8, 32)), nodes=GEMMINI_WEIGHTS, busy_pes=256
    ),
    "gemmini output-stationary": Dataflow(
        preset="gemmini_16x16", op=gemm(128, 128, 128, (8, 8, 32)), nodes=GEMMINI_OUTPUTS, busy_pes=256
    ),
    "nvdla": Dataflow(preset="nvdla_large", op=conv(CONV, bits=(8, 8, 32)), nodes=NVDLA, busy_pes=2048),
}


def arch_of(flow: Dataflow) -> SpatialArch:
    arch = load_arch(flow.preset)
    assert isinstance(arch, SpatialArch)
    return arch


def mapping_of(flow: Dataflow, edit: Callable[[str], str] = str) -> Mapping:
    (mapping,) = parse_mapping(f"schema_version: 1\nmapping:\n{edit(flow.nodes)}").values()
    return mapping


def busy_pes(mapping: Mapping, op: Op) -> int:
    """PEs that the first step of the spatial loops keeps busy."""
    extents = op.sizes
    trips: list[int] = []
    for loop in mapping.loops:
        if isinstance(loop, Spatial):
            trips.append(ceil_div(extents[loop.dim], loop.tile))
        extents[loop.dim] = loop.tile
    return math.prod(trips)


@pytest.mark.parametrize("name", DATAFLOWS)
def test_preset_admits_its_dataflow(name: str) -> None:
    flow = DATAFLOWS[name]
    mapping = mapping_of(flow)
    assert [str(fault) for fault in check_mapping(mapping, flow.op, arch_of(flow))] == []
    assert busy_pes(mapping, flow.op) == flow.busy_pes


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("tpu", "spatial: K, axis: matrix_unit.rows", "spatial: M, axis: matrix_unit.rows", "carries"),
        ("nvdla", "{spatial: C, axis: mac_array.channels", "{spatial: K, axis: mac_array.channels", "carries"),
        ("eyeriss row-stationary", "spatial: OY, axis: pe_array.cols", "spatial: FX, axis: pe_array.cols", "carries"),
        ("eyeriss row-stationary", "  - {keep: [O], level: output_register_file}\n", "", "output_register_file"),
        ("simba", "  - {keep: [W], level: weight_register}\n", "", "weight_register"),
        ("gemmini weight-stationary", "keep: [A, W], level: scratchpad", "keep: [A], level: scratchpad", "scratchpad"),
        ("tpu", "keep: [Z], level: accumulators", "keep: [A], level: accumulators", "accumulators"),
    ],
)
def test_preset_refuses_what_its_hardware_cannot_do(name: str, old: str, new: str, message: str) -> None:
    flow = DATAFLOWS[name]
    assert flow.nodes.count(old) == 1
    faults = check_mapping(mapping_of(flow, lambda nodes: nodes.replace(old, new)), flow.op, arch_of(flow))
    assert any(message in str(fault) for fault in faults), [str(fault) for fault in faults]


def test_eyeriss_input_store_is_full_at_four_channels() -> None:
    flow = DATAFLOWS["eyeriss row-stationary"]
    # Two channel groups of 8 instead of four of 4: 8 channels x 3 taps need 48 bytes of the 24 there.
    mapping = mapping_of(
        flow, lambda nodes: nodes.replace("axis: pe_array.rows, tile: 4", "axis: pe_array.rows, tile: 8")
    )
    faults = check_mapping(mapping, flow.op, arch_of(flow))
    assert any("input_register_file needs 48 bytes" in str(fault) for fault in faults), [str(f) for f in faults]
