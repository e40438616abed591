"""Our optimum against the one that AccelForge's own mapper finds in the space that both can be held to."""

import math

import pytest

from tileloom.archdsl import Infeasible, SpatialArch, load_arch, parse_notation
from tileloom.compiler import Constraints, MappingResult, map_op

W_IN_REGISTERS = Constraints(
    keep=frozenset({("scratchpad", "A"), ("scratchpad", "W"), ("scratchpad", "Z"), ("register", "W")}),
    bypass=frozenset({("register", "A"), ("register", "Z")}),
)

THEIRS_UJ = {"gemm:M=512,N=512,K=512": 164.823039, "gemm:M=1024,N=4096,K=1024": 5005.901679}
"""Energy that accelforge 1.0.467 finds; `benchmarks/peers.py --map` ran it (tests/data/peers/speed.json)."""


def optimum(text: str) -> MappingResult:
    arch = load_arch("ref16")
    assert isinstance(arch, SpatialArch)
    found = map_op(parse_notation(text), arch, "energy", convention="accelforge", constraints=W_IN_REGISTERS)
    assert not isinstance(found, Infeasible)
    assert found.proved_optimal
    return found


def test_optimum_equals_accelforge_s_where_ragged_tiles_gain_nothing() -> None:
    text = "gemm:M=512,N=512,K=512"
    assert math.isclose(optimum(text).score / 1e6, THEIRS_UJ[text], rel_tol=1e-7)


@pytest.mark.parametrize("text", THEIRS_UJ)
def test_optimum_is_no_worse_than_accelforge_s(text: str) -> None:
    """Its tiles divide; ours may be ragged at the outermost loop of a dim."""
    assert optimum(text).score / 1e6 <= THEIRS_UJ[text] * (1 + 1e-7)
