"""Constraints: what they may say, what they mean, and where they are wrong."""

from __future__ import annotations

import pytest

from tileloom.sweeps.constraints import ConstraintError, parse_constraint

NOT_ALLOWED = (
    "is not allowed in a constraint; there are + - * / // % **, < <= > >= == !=, and, or, not, parentheses "
    "and min, max, abs, ceil, floor, log2"
)


@pytest.mark.parametrize(
    ("text", "environment", "expected"),
    [
        ("area_mm2 <= 20", {"area_mm2": 20.0}, True),
        ("area_mm2 < 20", {"area_mm2": 20.0}, False),
        ("a.capacity >= 2 * 32 KiB", {"a.capacity": 65536.0}, True),
        ("clock > 1.5 GHz", {"clock": 2e9}, True),
        ("0 < a.x <= 3", {"a.x": 3.0}, True),
        ("a.x == 1 or a.x == 2", {"a.x": 2.0}, True),
        ("not a.x < 3 and a.x != 4", {"a.x": 4.0}, False),
        ("max(a.x, 3) - min(a.x, 3, 1) == 2", {"a.x": 2.0}, True),
        ("log2(a.x) == floor(log2(a.x))", {"a.x": 48.0}, False),
        ("a.x ** 2 // 2 % 5 == 2", {"a.x": 5.0}, True),
        ("energy_pj / 2 B/cycle < 3", {"energy_pj": 5.0}, True),
        ("a.x <= 32e9 and a.x >= 3.2E-1", {"a.x": 32e9}, True),
        ("-a.x <= abs(-3)", {"a.x": -3.0}, True),
        ("1 / a.x > 0", {"a.x": 0.0}, False),
        ("log2(a.x) < 3", {"a.x": 0.0}, False),
        ("9 ** 9 ** 9 ** 9 > a.x", {"a.x": 0.0}, False),
    ],
)
def test_meaning_of_a_constraint(text: str, environment: dict[str, float], expected: bool) -> None:
    constraint = parse_constraint(text)
    assert constraint.is_decided_by(environment)
    assert constraint.holds(environment) is expected


def test_names_are_metrics_or_paths() -> None:
    constraint = parse_constraint("energy_pj < hierarchy.scratchpad.capacity * parameters.scale")
    assert constraint.metrics == ("energy_pj",)
    assert constraint.paths == ("hierarchy.scratchpad.capacity", "parameters.scale")
    assert not constraint.is_decided_by({"energy_pj": 1.0})


@pytest.mark.parametrize(
    ("text", "offset", "message"),
    [
        ("area_mm2 <=", 0, "'area_mm2 <=' is not a constraint; write a comparison such as 'area_mm2 <= 20'"),
        ("area_mm2 + 1", 0, "'area_mm2 + 1' is not a comparison; write one such as 'area_mm2 <= 20'"),
        ("a and b < 3", 0, "'a and b < 3' is not a comparison; write one such as 'area_mm2 <= 20'"),
        ("x < 3 KB", 6, "unknown unit 'KB' in '3 KB'; did you mean 'KiB'?"),
        ("x < 3 GB/s", 4, "'3 GB/s' is a bandwidth per second; constraints see bandwidths in B/cycle"),
        ("x < open(3)", 4, f"'open(3)' {NOT_ALLOWED}"),
        ("x < [1][0]", 4, f"'[1][0]' {NOT_ALLOWED}"),
        ("f(2).y < 3", 0, "'f(2)' is not a name or dotted path"),
        ("log2(1, 2) < 3", 0, "log2 takes 1 argument, not 2"),
        ("(lambda: 1)() < 3", 0, f"'(lambda: 1)()' {NOT_ALLOWED}"),
    ],
)  # fmt: skip
def test_faults_of_a_constraint(text: str, offset: int, message: str) -> None:
    with pytest.raises(ConstraintError) as caught:
        parse_constraint(text)
    assert (caught.value.offset, str(caught.value)) == (offset, message)
