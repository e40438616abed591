"""Hypothesis strategies; every draw goes through hypothesis, so that failing cases shrink."""

from __future__ import annotations

from hypothesis import strategies as st

from tileloom.archdsl import Mapping, Op, SpatialArch

from .random_cases import Case, random_arch, random_case, random_mapping, random_op


def cases(most_macs: int = 80) -> st.SearchStrategy[Case]:
    """A small op, an architecture with unbounded capacities, and a legal mapping."""
    return st.randoms(use_true_random=False).map(lambda rng: random_case(rng, most_macs))


def ops(most_macs: int = 80) -> st.SearchStrategy[Op]:
    """Small ops of every kind."""
    return st.randoms(use_true_random=False).map(lambda rng: random_op(rng, most_macs))


def archs(most_levels: int = 4) -> st.SearchStrategy[SpatialArch]:
    """Small architectures with unbounded capacities."""
    return st.randoms(use_true_random=False).map(lambda rng: random_arch(rng, most_levels))


def mappings(op: Op, arch: SpatialArch) -> st.SearchStrategy[Mapping]:
    """Legal mappings of one op on one architecture, capacities aside."""
    return st.randoms(use_true_random=False).map(lambda rng: random_mapping(rng, op, arch))
