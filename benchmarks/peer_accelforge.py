"""Counts of AccelForge for mappings given as plain data: run by an interpreter that has `accelforge`.

    PYTHON_WITH_ACCELFORGE benchmarks/peer_accelforge.py < problems.json > counts.json

Needs nothing of ours. `benchmarks/peers.py` writes the problems and reads the counts.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BITS = 8
PICO = 1e-12


def memory_text(node: dict[str, Any], clock_hz: float) -> str:
    """One memory level; their prices are per bit and per second."""

    def action(verb: str) -> str:
        energy = node[f"{verb}_pj_per_byte"] * PICO / BITS
        rate = node[f"{verb}_bytes_per_cycle"]
        throughput = "inf" if rate is None else repr(rate * BITS * clock_hz)
        return f"    - {{name: {verb}, energy: {energy!r}, throughput: {throughput}}}"

    size = "inf" if node["capacity_bytes"] is None else str(node["capacity_bytes"] * BITS)
    must = node.get("keeps", "All" if node["is_outermost"] else None)
    keeps = f"{{keep: {must}}}" if must else "{may_keep: All}"
    head = ["  - !Memory", f"    name: {node['name']}", f"    size: {size}", "    leak_power: 0", "    area: 0"]
    return "\n".join([*head, f"    tensors: {keeps}", "    actions:", action("read"), action("write")])


def fanout_text(node: dict[str, Any], op: dict[str, Any]) -> str:
    """One fan-out; without multicast or reduction the tensors concerned may not share accesses."""
    lines = ["  - !Container", f"    name: {node['name']}", "    spatial:"]
    for axis in node["axes"]:
        shared = [
            tensor["name"]
            for tensor in op["tensors"]
            if axis["reduction" if tensor["role"] == "output" else "multicast"]
        ]
        reuse = " | ".join(shared) if shared else "Nothing"
        lines.append(f"    - {{name: {axis['name']}, fanout: {axis['size']}, may_reuse: {reuse}}}")
    return "\n".join(lines)


def arch_text(arch: dict[str, Any], op: dict[str, Any]) -> str:
    """The architecture."""
    lines = ["arch:", "  nodes:"]
    for node in arch["nodes"]:
        if node["kind"] == "memory":
            lines.append(memory_text(node, arch["clock_hz"]))
        elif node["kind"] == "fanout":
            lines.append(fanout_text(node, op))
        else:
            lines += ["  - !Compute", f"    name: {node['name']}", "    leak_power: 0", "    area: 0", "    actions:"]
            lines.append(
                f"    - {{name: compute, energy: {node['pj_per_mac'] * PICO!r}, throughput: {arch['clock_hz']!r}}}"
            )
    return "\n".join(lines)


def projection_text(tensor: dict[str, Any]) -> str:
    """Axis expressions of one tensor."""
    axes = [" + ".join(f"{factor}*{dim.lower()}" for dim, factor in axis) for axis in tensor["axes"]]
    ranks = [f"{tensor['name']}_{idx}: {text}" if "+" in text or "*" in text else text for idx, text in enumerate(axes)]
    return "{" + ", ".join(ranks) + "}"


def workload_text(op: dict[str, Any]) -> str:
    """The op as an einsum; dims in small letters, as they ask for."""
    lines = ["workload:", "  iteration_space_shape:"]
    lines += [f"    {dim.lower()}: 0 <= {dim.lower()} < {size}" for dim, size in op["dims"]]
    widths = ", ".join(f"{tensor['name']}: {tensor['bits']}" for tensor in op["tensors"])
    lines += [f"  bits_per_value: {{{widths}}}", "  einsums:", "  - name: op", "    tensor_accesses:"]
    for tensor in op["tensors"]:
        output = ", output: True" if tensor["role"] == "output" else ""
        lines.append(f"    - {{name: {tensor['name']}, projection: {projection_text(tensor)}{output}}}")
    return "\n".join(lines)


def mapping_text(mapping: list[dict[str, Any]], compute: str) -> str:
    """The mapping, node by node."""
    lines = ["mapping:", "  nodes:"]
    for node in mapping:
        if "keep" in node:
            lines.append(f"  - !Storage {{tensors: [{', '.join(node['keep'])}], component: {node['level']}}}")
        elif "for" in node:
            lines.append(f"  - !Temporal {{rank_variable: {node['for'].lower()}, tile_shape: {node['tile']}}}")
        else:
            fanout, axis = node["axis"].split(".")
            lines.append(
                f"  - !Spatial {{rank_variable: {node['spatial'].lower()}, tile_shape: {node['tile']}, "
                f"name: {axis}, component: {fanout}}}"
            )
    return "\n".join([*lines, f"  - !Compute {{einsum: op, component: {compute}}}"])


class Evaluator:
    """Their model behind one call."""

    def __init__(self) -> None:
        self.spec = importlib.import_module("accelforge.frontend.spec").Spec
        self.evaluate = importlib.import_module("accelforge.model.main").evaluate_mapping
        importlib.import_module("accelforge.util.parallel").set_n_parallel_jobs(1)

    def load(self, problem: dict[str, Any]) -> Any:
        """Their specification of one problem; without a mapping where the problem has none."""
        parts = [arch_text(problem["arch"], problem["op"]), workload_text(problem["op"])]
        if problem["mapping"]:
            parts.append(mapping_text(problem["mapping"], problem["arch"]["nodes"][-1]["name"]))
        text = "\n".join(parts)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "spec.yaml"
            path.write_text(text + "\n")
            return self.spec.from_yaml(str(path))

    def run(self, problem: dict[str, Any]) -> dict[str, Any]:
        """Counts in bytes, energy in pJ and latency in cycles; or the error that it stops with."""
        try:
            spec = self.load(problem)
            start = time.process_time()
            found = self.evaluate(spec).to_dict()
            seconds = time.process_time() - start
        except Exception as error:  # noqa: BLE001  (whatever the peer stops with is part of the answer)
            return {"name": problem["name"], "error": f"{type(error).__name__}: {error}"[:300]}
        return {"name": problem["name"], "cpu_s": seconds, **summary(problem, found)}

    def search(self, problem: dict[str, Any]) -> dict[str, Any]:
        """Energy and CPU time of their mapper's best mapping, with W in the registers and everything in the others.

        With every tensor free to be at every level, as in our search, theirs did not end within 3 CPU-minutes.
        """
        weight = next(tensor["name"] for tensor in problem["op"]["tensors"] if tensor["role"] == "weight")
        *_, innermost = (node for node in problem["arch"]["nodes"] if node["kind"] == "memory")
        for node in problem["arch"]["nodes"]:
            node["keeps"] = weight if node is innermost else "All"
        spec = self.load(problem)
        spec.mapper.metrics = importlib.import_module("accelforge.frontend.mapper.metrics").Metrics.ENERGY
        run = importlib.import_module("accelforge.mapper.FFM.main").map_workload_to_arch
        start = time.process_time()
        # In detail they would draw each mapping, which needs Graphviz.
        found = run(spec, print_progress=False, eval_in_detail=False).to_dict()
        seconds = time.process_time() - start
        energy = float(scalars(found)["Total<SEP>energy"])
        return {"name": problem["name"], "cpu_s": seconds, "energy_pj": energy / PICO, "note": "registers hold W"}


def scalars(found: dict[str, Any]) -> dict[str, Any]:
    """Their result table with its one row's values; they give some as lists of one."""
    return {key: value[0] if isinstance(value, list) else value for key, value in found.items()}


def summary(problem: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """The part of their result table that is compared."""
    values = scalars(found)
    counts: dict[str, dict[str, dict[str, float]]] = {}
    macs = 0.0
    cycles: dict[str, float] = {}
    for key, value in values.items():
        parts = key.split("<SEP>")
        if parts[:2] == ["op", "action"]:
            level, tensor, verb = parts[2:]
            if verb == "compute":
                macs = float(value)
            else:
                counts.setdefault(level, {}).setdefault(tensor, {})[verb] = float(value) / BITS
        elif parts[:2] == ["op", "latency"]:
            cycles[parts[2]] = float(value) * problem["arch"]["clock_hz"]
    return {
        "bytes": counts,
        "macs": macs,
        "energy_pj": float(values["Total<SEP>energy"]) / PICO,
        "latency_cycles": float(values["Total<SEP>latency"]) * problem["arch"]["clock_hz"],
        "level_cycles": cycles,
    }


def main() -> int:
    """Answers every problem on standard input."""
    parser = argparse.ArgumentParser(description="counts of AccelForge for problems on standard input")
    parser.add_argument("--repeat", type=int, default=1, help="times to evaluate each; the fastest time is kept")
    parser.add_argument("--search", action="store_true", help="search the best mapping instead")
    args = parser.parse_args()
    evaluator = Evaluator()
    answers: list[dict[str, Any]] = []
    with contextlib.redirect_stdout(sys.stderr):  # whatever they print is no part of the answer
        for problem in json.load(sys.stdin):
            if args.search:
                answers.append(evaluator.search(problem))
                continue
            runs = [evaluator.run(problem) for _ in range(args.repeat)]
            answers.append(min(runs, key=lambda run: run.get("cpu_s", 0.0)))
    json.dump(answers, sys.stdout, indent=1)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
