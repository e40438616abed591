"""Our counts against AccelForge's and ZigZag's own, for the mappings of tests/data/peers/cases.yaml.

`benchmarks/peers.py --write` ran the tools and wrote their counts. Where a tool counts otherwise the
difference is named here with both numbers; every other count must be equal, to the byte.
"""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tileloom.archdsl import ANY_OP, SpatialArch, dump_yaml, load_arch, parse_mapping, parse_notation
from tileloom.models import OpEstimate, estimate_op, resolve

DATA = Path(__file__).parents[1] / "data/peers"
TOOLS = ("accelforge", "zigzag")
ENERGY_TOLERANCE = {"accelforge": 1e-6, "zigzag": 1e-12}
"""AccelForge gives single-precision results."""

HELD_BY_LOOP = "a level refills at each step of every loop outside its Keep, also of loops that do not index the tensor"
WHOLE_WINDOWS = "every step fetches whole windows, also what the step before held"
OWN_WINDOWS = "windows that spatial neighbours share are fetched for each of them"
AVERAGE_PIECES = "ragged loops have fractional trip counts, with every piece of average size"
SKIPPED_READS = "without reduction on the way every instance's first sum is written without adding it to the others'"

Counts = dict[str, float]
"""Bytes by `level.tensor.verb`."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Why a tool counts otherwise, and (ours, theirs) in bytes where it does."""

    reason: str
    counts: dict[str, tuple[int, int]]


def whole_windows(ours: int, theirs: int) -> Difference:
    """Input windows that slide between main memory and scratchpad in ours only."""
    return Difference(WHOLE_WINDOWS, {"main_memory.I.read": (ours, theirs), "scratchpad.I.write": (ours, theirs)})


SLIDING = {
    "conv_slide": whole_windows(5184, 6912),
    "conv_stride": whole_windows(17424, 19008),
    "conv_dilated": whole_windows(2304, 4608),
}

DIFFERENCES: dict[str, dict[str, Difference]] = {
    "zigzag": SLIDING,
    "accelforge": {
        **SLIDING,
        "stay_weight": Difference(
            HELD_BY_LOOP, {"scratchpad.W.read": (4096, 65536), "register.W.write": (4096, 65536)}
        ),
        "stay_output": Difference(
            HELD_BY_LOOP,
            {
                "scratchpad.Z.read": (8192, 65536),
                "scratchpad.Z.write": (8192, 65536),
                "register.Z.read": (524288, 581632),
                "register.Z.write": (524288, 581632),
            },
        ),
        "no_reduction": Difference(SKIPPED_READS, {"scratchpad.Z.read": (524288, 401408)}),
        "no_reduction_spill": Difference(SKIPPED_READS, {"scratchpad.Z.read": (131072, 69632)}),
        "ragged_outer": Difference(
            AVERAGE_PIECES, {"scratchpad.W.read": (16384, 12800), "register.W.write": (16384, 12800)}
        ),
        "ragged_spatial": Difference(
            AVERAGE_PIECES, {"scratchpad.Z.read": (12288, 10240), "scratchpad.Z.write": (12288, 10240)}
        ),
        "conv_eyeriss": Difference(OWN_WINDOWS, {"scratchpad.I.read": (27648, 73728)}),
    },
}

LEFT_OUT: dict[str, dict[str, str]] = {
    "accelforge": {},
    "zigzag": {
        "no_multicast": "every network multicasts and reduces",
        "no_reduction": "every network multicasts and reduces",
        "no_reduction_spill": "every network multicasts and reduces",
        "ragged_outer": "does not divide",
        "ragged_spatial": "does not divide",
    },
}
"""Cases that a tool's architectures or mappings cannot say."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool says of a case."""

    counts: Counts
    macs: float
    energy_pj: float
    latency_cycles: float


@dataclass(slots=True)
class Tool:
    """A tool's answers by case, and the cases that it could not do, with the reason."""

    name: str
    answers: dict[str, Answer] = field(default_factory=dict[str, Answer])
    left_out: dict[str, str] = field(default_factory=dict[str, str])


def load_tool(name: str) -> Tool:
    tool = Tool(name)
    for row in json.loads((DATA / f"{name}.json").read_text())["cases"]:
        if "left_out" in row:
            tool.left_out[row["name"]] = row["left_out"]
            continue
        counts = {
            f"{level}.{tensor}.{verb}": amount
            for level, tensors in row["bytes"].items()
            for tensor, ways in tensors.items()
            for verb, amount in zip(("read", "write"), ways, strict=True)
        }
        tool.answers[row["name"]] = Answer(counts, row["macs"], row["energy_pj"], row["latency_cycles"])
    return tool


def load_cases() -> dict[str, dict[str, Any]]:
    return {case["name"]: case for case in yaml.safe_load((DATA / "cases.yaml").read_text())["cases"]}


def arch_of(case: dict[str, Any]) -> SpatialArch:
    arch = load_arch("ref16", case.get("overrides"))
    assert isinstance(arch, SpatialArch)
    return arch


def estimate_of(case: dict[str, Any], convention: str) -> OpEstimate:
    text = dump_yaml({"schema_version": 1, "mapping": case["mapping"]})
    mapping = parse_mapping(text, case["name"])[ANY_OP]
    return estimate_op(parse_notation(case["op"]), mapping, arch_of(case), convention=convention)


def counts_of(estimate: OpEstimate) -> Counts:
    return {
        f"{level}.{tensor}.{verb}": amount
        for level, tensors in estimate.actions.items()
        for tensor, action in tensors.items()
        for verb, amount in (("read", action.read), ("write", action.write))
    }


CASES = load_cases()
ANSWERS = {name: load_tool(name) for name in TOOLS}
ANSWERED = [(tool, case) for tool in TOOLS for case in ANSWERS[tool].answers]
EQUAL = [(tool, case) for tool, case in ANSWERED if case not in DIFFERENCES[tool]]


@pytest.mark.parametrize("tool", TOOLS)
def test_every_case_is_answered_or_left_out_for_a_known_reason(tool: str) -> None:
    found = ANSWERS[tool]
    assert set(found.answers) | set(found.left_out) == set(CASES)
    assert set(found.left_out) == set(LEFT_OUT[tool])
    for case, reason in LEFT_OUT[tool].items():
        assert reason in found.left_out[case]


@pytest.mark.parametrize(("tool", "case"), ANSWERED)
def test_every_count_equals_the_tool_s_but_for_named_differences(tool: str, case: str) -> None:
    estimate = estimate_of(CASES[case], tool)
    theirs = ANSWERS[tool].answers[case]
    ours = counts_of(estimate)
    # A level that a tensor bypasses is not in theirs.
    unequal = {key: (value, theirs.counts.get(key, 0.0)) for key, value in ours.items()}
    unequal = {key: pair for key, pair in unequal.items() if pair[0] != pair[1]}
    assert set(theirs.counts) <= set(ours)
    assert estimate.op.macs == theirs.macs
    assert unequal == (DIFFERENCES[tool][case].counts if case in DIFFERENCES[tool] else {})


@pytest.mark.parametrize(("tool", "case"), EQUAL)
def test_energy_equals_the_tool_s(tool: str, case: str) -> None:
    energy_pj = estimate_of(CASES[case], tool).energy_pj
    assert math.isclose(energy_pj, ANSWERS[tool].answers[case].energy_pj, rel_tol=ENERGY_TOLERANCE[tool])


@pytest.mark.parametrize(("tool", "case"), ANSWERED)
def test_the_tool_s_energy_is_its_counts_at_our_prices(tool: str, case: str) -> None:
    theirs = ANSWERS[tool].answers[case]
    numbers = resolve(arch_of(CASES[case]))
    prices = {
        f"{level.name}.{verb}": price
        for level in numbers.levels
        for verb, price in (("read", level.read_pj_per_byte), ("write", level.write_pj_per_byte))
    }
    parts = [amount * prices[f"{key.split('.')[0]}.{key.split('.')[2]}"] for key, amount in theirs.counts.items()]
    total = math.fsum([*parts, theirs.macs * numbers.mac_pj("int8")])
    assert math.isclose(total, theirs.energy_pj, rel_tol=ENERGY_TOLERANCE[tool])


@pytest.mark.parametrize("case", [case for tool, case in EQUAL if tool == "accelforge"])
def test_throughput_latency_equals_accelforge_s(case: str) -> None:
    latency = estimate_of(CASES[case], "accelforge").latency_cycles
    assert math.isclose(latency, ANSWERS["accelforge"].answers[case].latency_cycles, rel_tol=1e-6)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("case", ["stay_weight", "stay_output"])
def test_moving_a_keep_outside_loops_that_do_not_index_its_tensor_changes_no_count(tool: str, case: str) -> None:
    """So that our mapping in AccelForge's words is the moved one, whose counts it shares with ours."""
    written = counts_of(estimate_of(CASES[case], tool))
    assert written == counts_of(estimate_of(CASES[f"{case}_moved"], tool))
    assert f"{case}_moved" not in DIFFERENCES[tool]


@pytest.mark.parametrize(("case", "energy_uj"), [("ws_512", 193.0428), ("os_512", 199.8848)])
def test_zigzag_energy_of_the_reference_mappings(case: str, energy_uj: float) -> None:
    assert round(estimate_of(CASES[case], "zigzag").energy_pj / 1e6, 4) == energy_uj
