"""Speed of evaluation and mapping search next to AccelForge and ZigZag, and the counts that tests compare.

    python benchmarks/peers.py
    python benchmarks/peers.py --accelforge AF/bin/python --zigzag ZZ/bin/python [--map] [--network] [--write]

The tools run in interpreters of their own (`pip install accelforge==1.0.467`, `pip install zigzag-dse==3.9.1
six`), one process and one core each. Without them their part is what this script recorded last in
`tests/data/peers/speed.json`, with the machine it ran on. `--write` records counts and speeds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from peer_cases import DATA, Case, load_cases, problem_of

from tileloom.archdsl import Infeasible, SpatialArch, load_arch, parse_notation
from tileloom.compiler import Mapper, load_workload, map_op
from tileloom.models import CONVENTIONS, estimate_batch, estimate_op, hierarchy_of, nest_of, prices_of, resolve

RUNNERS = {"accelforge": "peer_accelforge.py", "zigzag": "peer_zigzag.py"}
PACKAGES = {"accelforge": "accelforge", "zigzag": "zigzag-dse"}
GEMMS = ("gemm:M=512,N=512,K=512", "gemm:M=1024,N=4096,K=1024")
NETWORKS = ("onnx:resnet50",)
BATCH = 200_000


def ask(tool: str, python: str, problems: list[dict[str, Any]], *arguments: str) -> list[dict[str, Any]]:
    """Answers of a tool.

    Raises:
        SystemExit: The tool's process failed.
    """
    script = Path(__file__).with_name(RUNNERS[tool])
    env = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(
        [python, str(script), *arguments],
        check=False,
        input=json.dumps(problems),
        capture_output=True,
        text=True,
        env=env,
    )
    if done.returncode:
        raise SystemExit(f"{tool} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout)


def version_of(tool: str, python: str) -> str:
    """Installed version of a tool."""
    code = f"import importlib.metadata as m; print(m.version('{PACKAGES[tool]}'))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def machine() -> str:
    """The processor's name."""
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def short(amount: float) -> float:
    """The number, without a fraction where it has none."""
    return int(amount) if amount.is_integer() else amount


def write_counts(tool: str, python: str, answers: list[dict[str, Any]]) -> None:
    """Writes a tool's counts, one case a line: bytes as [read, write] per level and tensor."""
    head = {
        "tool": f"{PACKAGES[tool]} {version_of(tool, python)}",
        "made_by": f"python benchmarks/peers.py --{tool} PYTHON --write",
        "units": "bytes [read, write], pJ, cycles",
    }
    lines: list[str] = []
    for answer in answers:
        row: dict[str, Any] = {"name": answer["name"]}
        if "error" in answer:
            row["left_out"] = answer["error"]
        else:
            row["bytes"] = {
                level: {tensor: [short(way["read"]), short(way["write"])] for tensor, way in tensors.items()}
                for level, tensors in answer["bytes"].items()
            }
            row |= {key: short(answer[key]) for key in ("macs", "energy_pj", "latency_cycles")}
        lines.append("  " + json.dumps(row))
    text = json.dumps(head, indent=1)[:-2] + ',\n "cases": [\n' + ",\n".join(lines) + "\n ]\n}\n"
    (DATA / f"{tool}.json").write_text(text)


def time_single(cases: list[Case]) -> float:
    """Our evaluations per second, one mapping a call, tree of named parts included."""
    resolved = [resolve(case.arch) for case in cases]
    start = time.process_time()
    for case, numbers in zip(cases, resolved, strict=True):
        estimate_op(case.op, case.mapping, case.arch, convention="accelforge", numbers=numbers)
    return len(cases) / (time.process_time() - start)


def time_batch(case: Case) -> float:
    """Our evaluations per second in a batch of tilings of one structure: counts, energy, latency, fit."""
    nest, tiles = nest_of(case.op, case.mapping, hierarchy_of(case.arch))
    rng = np.random.default_rng(0)
    batch = np.repeat(tiles, BATCH, axis=1)
    # The first two loops are the outermost ones over M and N: 128 to 512, and 64 to 512.
    for idx, largest in ((0, 2), (1, 3)):
        batch[idx] = tiles[idx] * 2 ** rng.integers(0, largest + 1, BATCH)
    prices = prices_of(resolve(case.arch), case.op.datatype)
    start = time.process_time()
    estimate_batch(nest, batch, prices, CONVENTIONS["accelforge"])
    return BATCH / (time.process_time() - start)


def map_gemms(arch: SpatialArch) -> dict[str, Any]:
    """Our search of the best energy per GEMM, under each tool's convention."""
    found: dict[str, Any] = {}
    for text in GEMMS:
        for convention in RUNNERS:
            start = time.process_time()
            result = map_op(parse_notation(text), arch, "energy", convention=convention)
            seconds = time.process_time() - start
            assert not isinstance(result, Infeasible)
            proof = "proved" if result.proved_optimal else f"gap {result.gap:.1%}"
            found[f"{text} ({convention}, {proof})"] = {"cpu_s": seconds, "energy_pj": result.score}
    return found


def map_networks(arch: SpatialArch, networks: list[str]) -> dict[str, Any]:
    """Our search over whole networks counted as int8; equal ops are searched once."""
    found: dict[str, Any] = {}
    for network in networks:
        workload = load_workload(network, datatype="int8")
        mapper = Mapper("energy")
        start = time.process_time()
        results = [mapper.map_op(op, arch) for op in workload.mac_ops()]
        seconds = time.process_time() - start
        proved = sum(not isinstance(result, Infeasible) and result.proved_optimal for result in results)
        found[f"{Path(network).name} ({proved} of {len(results)} ops proved)"] = {"cpu_s": seconds}
    return found


def peer_speed(tool: str, python: str, args: argparse.Namespace) -> dict[str, Any]:
    """A tool's speeds; searches only where asked for, since they take minutes."""
    arch = load_arch("ref16")
    assert isinstance(arch, SpatialArch)
    problems = [problem_of(case.name, case.op, case.arch, case.nodes) for case in load_cases()]
    answers = ask(tool, python, problems, "--repeat", "3")
    if args.write:
        write_counts(tool, python, answers)
    times = [answer["cpu_s"] for answer in answers if "cpu_s" in answer]
    speed: dict[str, Any] = {
        "tool": f"{PACKAGES[tool]} {version_of(tool, python)}",
        "machine": machine(),
        "evaluations_per_s": len(times) / sum(times),
    }
    if args.map:
        searches = [problem_of(text, parse_notation(text), arch, []) for text in GEMMS]
        found = ask(tool, python, searches, "--search")
        speed["search"] = {one.pop("name"): one for one in found}
    if args.network and tool == "zigzag":
        found = ask(tool, python, [problem_of("", parse_notation(GEMMS[0]), arch, [])], "--network")
        speed["network"] = {one.pop("name"): one for one in found}
    return speed


def report(title: str, speed: dict[str, Any]) -> None:
    """Prints one tool's speeds."""
    print(f"\n{title}")
    if "evaluations_per_s" in speed:
        print(f"  fixed mappings, one at a time: {speed['evaluations_per_s']:,.0f} evaluations/s")
    for kind in ("search", "network"):
        for name, found in speed.get(kind, {}).items():
            energy = f"  {found['energy_pj'] / 1e6:10.4f} uJ" if "energy_pj" in found else ""
            print(f"  {name:66s} {found['cpu_s']:8.2f} CPU-s{energy}{'  ' + found['note'] if 'note' in found else ''}")


def peer_report(args: argparse.Namespace) -> None:
    """Measures or recalls the tools' speeds, and records them where asked to."""
    path = DATA / "speed.json"
    recorded: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for tool in RUNNERS:
        python = getattr(args, tool)
        if python is None:
            speed = recorded.get(tool, {})
            report(f"{speed.get('tool', tool)} as recorded on one core of {speed.get('machine', '(never)')}", speed)
            continue
        speed = peer_speed(tool, python, args)
        recorded[tool] = {**recorded.get(tool, {}), **speed}
        report(f"{speed['tool']}, measured now", speed)
    if args.write:
        path.write_text(json.dumps(recorded, indent=1) + "\n")


def main() -> int:
    """Prints our speeds and the tools'."""
    parser = argparse.ArgumentParser(description="evaluation and mapping speed next to AccelForge and ZigZag")
    for tool in RUNNERS:
        parser.add_argument(f"--{tool}", metavar="PYTHON", help=f"interpreter that has {PACKAGES[tool]}")
    parser.add_argument("--map", action="store_true", help="let the tools search the GEMMs too (minutes)")
    parser.add_argument("--network", action="store_true", help="let ZigZag search ResNet-18 too (minutes)")
    parser.add_argument("--resnet18", metavar="ONNX", help="a ResNet-18 for our search, such as the one in zigzag-dse")
    parser.add_argument("--write", action="store_true", help="record counts and speeds in tests/data/peers")
    args = parser.parse_args()
    cases = load_cases()
    arch = load_arch("ref16")
    assert isinstance(arch, SpatialArch)
    measure: Callable[[], float]
    print(f"tileloom on one core of {machine()}")
    for what, measure in (
        ("one mapping a call", lambda: time_single(cases)),
        (f"a batch of {BATCH:,}", lambda: time_batch(cases[0])),
    ):
        print(f"  fixed mappings, {what}: {max(measure() for _ in range(3)):,.0f} evaluations/s")
    networks = [*NETWORKS, *([args.resnet18] if args.resnet18 else [])]
    report("  search", {"search": map_gemms(arch), "network": map_networks(arch, networks)})
    peer_report(args)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
