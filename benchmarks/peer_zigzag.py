"""Counts of ZigZag for mappings given as plain data: run by an interpreter that has `zigzag-dse`.

    PYTHON_WITH_ZIGZAG benchmarks/peer_zigzag.py < problems.json > counts.json

Needs nothing of ours. `benchmarks/peers.py` writes the problems and reads the counts. Bypasses are
said by giving the architecture, for each problem, memories that serve just the tensors kept there.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import logging
import math
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BITS = 8
NAMES = {"input": "I", "weight": "W", "output": "O"}
MEMORY_NAMES = {"input": "I1", "weight": "I2", "output": "O"}
UNBOUNDED_BITS = 2**40
READS = ("to_low", "to_high")
DIRECTIONS = {
    "to_low": "RD_OUT_TO_LOW",
    "to_high": "RD_OUT_TO_HIGH",
    "by_low": "WR_IN_BY_LOW",
    "by_high": "WR_IN_BY_HIGH",
}


def holders_of(problem: dict[str, Any], tensor: str) -> list[tuple[str, int]]:
    """Levels that hold a tensor and their places in the mapping, innermost first."""
    places = [(node["level"], place) for place, node in enumerate(problem["mapping"]) if tensor in node.get("keep", ())]
    return places[::-1]


def bounds_of(problem: dict[str, Any]) -> list[int]:
    """Trip count of every node of the mapping; 1 for those that are no loops.

    Raises:
        ValueError: A tile does not divide the extent that it cuts, which fixed mappings of theirs cannot say.
    """
    extents = dict(problem["op"]["dims"])
    found: list[int] = []
    for node in problem["mapping"]:
        dim = node.get("for") or node.get("spatial")
        if dim is None:
            found.append(1)
            continue
        if extents[dim] % node["tile"]:
            raise ValueError(f"tile {node['tile']} does not divide {dim} = {extents[dim]}")
        found.append(extents[dim] // node["tile"])
        extents[dim] = node["tile"]
    return found


def loops_of(problem: dict[str, Any], tensor: str, kind: str) -> list[list[tuple[str, int]]]:
    """A tensor's loops per level, innermost first.

    Temporal loops belong to the level that holds the tensor next outside them. Spatial ones get one
    list more: index 0 lies between the compute units and the innermost holder.
    """
    holders = holders_of(problem, tensor)
    levels: list[list[tuple[str, int]]] = [[] for _ in range(len(holders) + (kind == "spatial"))]
    bounds = bounds_of(problem)
    for place in reversed(range(len(bounds))):
        node = problem["mapping"][place]
        if kind in node or (kind == "temporal" and "for" in node):
            inside = sum(1 for _, held in holders if held > place)
            if bounds[place] > 1:
                levels[inside].append((node.get("for") or node["spatial"], bounds[place]))
    return levels


def memory_data(problem: dict[str, Any], node: dict[str, Any], *, is_exact: bool) -> dict[str, Any]:
    """One memory with a port that reads and writes take turns on.

    With `is_exact` its words are bytes, so that counts of words are counts of bytes.
    """
    kept = [t for t in problem["op"]["tensors"] if any(node["level"] == lv for lv, _ in holders_of(problem, t["name"]))]
    moves = [
        f"{MEMORY_NAMES[t['role']]}, {way}"
        for t in kept
        for way in (("tl", "fh") if t["role"] != "output" else ("tl", "th", "fl", "fh"))
    ]
    rate = None if node["rate"] is None else int(node["rate"] * BITS)
    widest = BITS if is_exact else (2**20 if rate is None else rate)
    scale = widest / BITS
    return {
        "size": UNBOUNDED_BITS if node["capacity_bytes"] is None else node["capacity_bytes"] * BITS,
        "r_cost": node["read_pj_per_byte"] * scale,
        "w_cost": node["write_pj_per_byte"] * scale,
        "area": 0,
        "latency": 1,
        "mem_type": "sram",
        "auto_cost_extraction": False,
        "force_double_buffering": False,
        "operands": [MEMORY_NAMES[t["role"]] for t in kept],
        "served_dimensions": node["served"],
        "ports": [
            {
                "name": "rw_port_1",
                "type": "read_write",
                "bandwidth_min": BITS,
                "bandwidth_max": widest,
                "allocation": moves,
            }
        ],
    }


def accelerator_data(problem: dict[str, Any], *, is_exact: bool) -> dict[str, Any]:
    """The architecture, memories innermost first."""
    axes = [axis for node in problem["arch"]["nodes"] if node["kind"] == "fanout" for axis in node["axes"]]
    dimensions = [f"D{idx + 1}" for idx in range(len(axes))]
    memories: dict[str, Any] = {}
    served: list[str] = []
    num_axes = len(axes)
    for node in reversed(problem["arch"]["nodes"]):
        if node["kind"] == "fanout":
            served = served + dimensions[num_axes - len(node["axes"]) : num_axes]
            num_axes -= len(node["axes"])
        elif node["kind"] == "memory":
            facts = {**node, "level": node["name"], "rate": node["read_bytes_per_cycle"], "served": list(served)}
            data = memory_data(problem, facts, is_exact=is_exact)
            if data["operands"]:
                memories[node["name"]] = data
    return {
        "name": "peer",
        "memories": memories,
        "operational_array": {
            "is_imc": False,
            "unit_energy": problem["arch"]["nodes"][-1]["pj_per_mac"],
            "unit_area": 0,
            "dimensions": dimensions,
            "sizes": [axis["size"] for axis in axes],
            "systolic_dimensions": [],
        },
    }


def layer_data(problem: dict[str, Any]) -> dict[str, Any]:
    """The op as an equation; an axis of two dims becomes a dim of its own with a relation."""
    relations: list[str] = []
    terms: dict[str, str] = {}
    for tensor in problem["op"]["tensors"]:
        text = NAMES[tensor["role"]]
        for axis in tensor["axes"]:
            if len(axis) == 1:
                text += f"[{axis[0][0].lower()}]"
                continue
            (dim_a, factor_a), (dim_b, factor_b) = axis
            joined = f"i{dim_a.lower()}"
            relations.append(f"{joined} = {factor_a} * {dim_a.lower()} + {factor_b} * {dim_b.lower()}")
            text += f"[{joined}]"
        terms[NAMES[tensor["role"]]] = text
    widths = {NAMES[t["role"]]: t["bits"] for t in problem["op"]["tensors"]}
    return {
        "id": 0,
        "name": "op",
        "operator_type": "Conv",
        "equation": f"{terms['O']}+={terms['I']}*{terms['W']}",
        "dimension_relations": relations,
        "loop_dims": [dim for dim, _ in problem["op"]["dims"]],
        "loop_sizes": [size for _, size in problem["op"]["dims"]],
        "operand_precision": {**widths, "O_final": widths["O"]},
        "operand_source": {"I": 0, "W": 0},
    }


class Evaluator:
    """Their cost model behind one call."""

    def __init__(self) -> None:
        logging.disable(logging.CRITICAL)
        self.factory = importlib.import_module("zigzag.parser.accelerator_factory").AcceleratorFactory
        self.layers = importlib.import_module("zigzag.parser.workload_factory").LayerNodeFactory
        self.spatial = importlib.import_module("zigzag.mapping.spatial_mapping_internal").SpatialMappingInternal
        temporal = importlib.import_module("zigzag.mapping.temporal_mapping")
        self.temporal, self.uneven = temporal.TemporalMapping, temporal.TemporalMappingType.UNEVEN
        self.cost = importlib.import_module("zigzag.cost_model.cost_model").CostModelEvaluation
        types = importlib.import_module("zigzag.datatypes")
        self.dim, self.operand = types.LayerDim, types.LayerOperand
        self.directions = importlib.import_module("zigzag.mapping.data_movement").DataDirection

    def prepare(self, problem: dict[str, Any], *, is_exact: bool) -> dict[str, Any]:
        """Arguments of their cost model.

        Raises:
            ValueError: Their architectures or mappings cannot say this.
        """
        for node in problem["arch"]["nodes"]:
            if not all(axis["multicast"] and axis["reduction"] for axis in node.get("axes", ())):
                raise ValueError("every network multicasts and reduces")
        links = {name: MEMORY_NAMES[role] for role, name in NAMES.items()}
        mapping = {"name": "default", "spatial_mapping": None, "memory_operand_links": links}
        layer = self.layers(layer_data(problem), [mapping]).create()

        def loops(kind: str) -> dict[Any, list[list[Any]]]:
            return {
                self.operand(NAMES[t["role"]]): [
                    [(self.dim(dim), bound) for dim, bound in level] for level in loops_of(problem, t["name"], kind)
                ]
                for t in problem["op"]["tensors"]
            }

        spatial = self.spatial(loops("spatial"), layer)
        return {
            "accelerator": self.factory(accelerator_data(problem, is_exact=is_exact)).create(),
            "layer": layer,
            "spatial_mapping": spatial,
            "spatial_mapping_int": spatial,
            "temporal_mapping": self.temporal(loops("temporal"), layer, self.uneven),
        }

    def run(self, problem: dict[str, Any]) -> dict[str, Any]:
        """Counts in bytes, energy in pJ and latency in cycles; or the error that it stops with."""
        try:
            exact = self.cost(**self.prepare(problem, is_exact=True))
            arguments = self.prepare(problem, is_exact=False)
            start = time.process_time()
            timed = self.cost(**arguments)
            seconds = time.process_time() - start
        except Exception as error:  # noqa: BLE001  (whatever the peer stops with is part of the answer)
            return {"name": problem["name"], "error": f"{type(error).__name__}: {error}"[:300]}
        counts, ways = self.counts(problem, exact)
        return {
            "name": problem["name"],
            "cpu_s": seconds,
            "bytes": counts,
            "ways": ways,
            "macs": float(exact.layer.total_mac_count),
            "energy_pj": float(exact.energy_total),
            "latency_cycles": float(timed.latency_total2),
            "compute_cycles": float(timed.ideal_temporal_cycle),
            "stall_cycles": float(timed.stall_slack_comb),
        }

    def counts(self, problem: dict[str, Any], found: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Bytes read and written, and the same per direction, per level and tensor."""
        counts: dict[str, Any] = {}
        ways: dict[str, Any] = {}
        for tensor in problem["op"]["tensors"]:
            accesses = found.memory_word_access[self.operand(NAMES[tensor["role"]])]
            for (level, _), words in zip(holders_of(problem, tensor["name"]), accesses, strict=True):
                moved = {way: float(words.get(self.directions[name])) for way, name in DIRECTIONS.items()}
                ways.setdefault(level, {})[tensor["name"]] = moved
                counts.setdefault(level, {})[tensor["name"]] = {
                    "read": math.fsum(moved[way] for way in READS),
                    "write": math.fsum(amount for way, amount in moved.items() if way not in READS),
                }
        return counts, ways


def search(problem: dict[str, Any], network: str | None) -> dict[str, Any]:
    """Energy and CPU time of their default search, with W in the registers and everything in the other levels.

    Args:
        problem: What to map, and the architecture.
        network: An ONNX file to map instead of the problem's op.
    """
    tensors = [tensor["name"] for tensor in problem["op"]["tensors"]]
    levels = [node["name"] for node in problem["arch"]["nodes"] if node["kind"] == "memory"]
    weight = next(tensor["name"] for tensor in problem["op"]["tensors"] if tensor["role"] == "weight")
    keeps = [{"keep": [weight] if level == levels[-1] else tensors, "level": level} for level in levels]
    links = {name: MEMORY_NAMES[role] for role, name in NAMES.items()}
    run = importlib.import_module("zigzag.api").get_hardware_performance_zigzag
    dump = importlib.import_module("yaml").safe_dump
    with tempfile.TemporaryDirectory() as folder:
        arch, mapping = Path(folder) / "arch.yaml", Path(folder) / "mapping.yaml"
        arch.write_text(dump(accelerator_data({**problem, "mapping": keeps}, is_exact=False), sort_keys=False))
        mapping.write_text(dump([{"name": "default", "memory_operand_links": links}]))
        workload = network or [{**layer_data(problem), "operator_type": "Gemm"}]
        start = time.process_time()
        energy, _, _ = run(
            workload, str(arch), str(mapping), opt="energy", dump_folder=folder, loma_show_progress_bar=False
        )
        seconds = time.process_time() - start
    if network:  # their widths of partial sums differ from those of the other rows: no energy to compare
        return {"name": Path(network).name, "cpu_s": seconds}
    return {"name": problem["name"], "cpu_s": seconds, "energy_pj": float(energy), "note": "registers hold W"}


def shipped_network() -> str:
    """The ResNet-18 that comes with the package."""
    package = importlib.import_module("zigzag").__file__
    assert package is not None
    return str(Path(package).parent / "inputs/workload/resnet18.onnx")


def main() -> int:
    """Answers every problem on standard input."""
    parser = argparse.ArgumentParser(description="counts of ZigZag for problems on standard input")
    parser.add_argument("--repeat", type=int, default=1, help="times to evaluate each; the fastest time is kept")
    parser.add_argument("--search", action="store_true", help="search the best mapping instead")
    parser.add_argument("--network", action="store_true", help="search the ResNet-18 that comes with ZigZag instead")
    args = parser.parse_args()
    evaluator = Evaluator()
    answers: list[dict[str, Any]] = []
    with contextlib.redirect_stdout(sys.stderr):  # whatever they print is no part of the answer
        for problem in json.load(sys.stdin):
            if args.search or args.network:
                answers.append(search(problem, shipped_network() if args.network else None))
                continue
            runs = [evaluator.run(problem) for _ in range(args.repeat)]
            answers.append(min(runs, key=lambda run: run.get("cpu_s", 0.0)))
    json.dump(answers, sys.stdout, indent=1)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
