"""A batch, however it is computed, gives the bits that each of its mappings gives alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from random import Random

import numpy as np
import pytest

from tileloom.archdsl import SpatialArch, load_arch, parse_notation
from tileloom.models import (
    CONVENTIONS,
    Convention,
    Counts,
    Holder,
    Nest,
    NestLoop,
    Priced,
    Prices,
    count,
    estimate_batch,
    estimate_op,
    hierarchy_of,
    make_nest,
    nest_of,
    prices_of,
    resolve,
    stack_prices,
)
from tileloom.models import batches as batches_module
from tileloom.models.nest import FloatArray

from ..random_cases import Case, random_case

BATCH = 40
SOME_CONVENTIONS = tuple(CONVENTIONS.values())


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traces batches of any size, in blocks of 16."""
    monkeypatch.setattr(batches_module, "LEAST_TRACED", 2)
    monkeypatch.setattr(batches_module, "BLOCK", 16)


def random_tiles(rng: Random, nest: Nest, batch: int = BATCH) -> FloatArray:
    """Tilings of one structure: the first half without a ragged tile, the other half with any."""
    tiles = np.ones((len(nest.loops), batch))
    for column in range(batch):
        left = dict(nest.op.dims)
        for idx, loop in enumerate(nest.loops):
            size = left[loop.dim]
            fitting = [t for t in range(1, size + 1) if size % t == 0 or column >= batch // 2]
            is_last = all(other.dim != loop.dim for other in nest.loops[idx + 1 :])
            left[loop.dim] = 1 if is_last else rng.choice([size, *fitting])
            tiles[idx, column] = left[loop.dim]
    return tiles


def cases_of(seeds: range) -> Iterator[tuple[Random, Case, Nest, FloatArray, Convention]]:
    for seed in seeds:
        rng = Random(seed)
        case = random_case(rng)
        nest, _ = nest_of(case.op, case.mapping, hierarchy_of(case.arch))
        yield rng, case, nest, random_tiles(rng, nest), SOME_CONVENTIONS[seed % len(SOME_CONVENTIONS)]


def prices_per_mapping(rng: Random, prices: Prices, batch: int = BATCH) -> Prices:
    """Other energies and capacities for every mapping."""

    def vary() -> Prices:
        return dataclasses.replace(
            prices,
            read_pj=prices.read_pj * rng.uniform(0.5, 2.0),
            capacity_bytes=np.minimum(prices.capacity_bytes, rng.choice((4.0, 12.5, 64.0, np.inf))),
            shares_port=np.array([[rng.choice((0.0, 1.0))] for _ in prices.shares_port]),
        )

    return stack_prices([vary() for _ in range(batch)])


def assert_same_counts(whole: Counts, alone: Counts, at: int) -> None:
    ours, theirs = whole.numbers(), alone.numbers()
    assert len(ours) == len(theirs)
    assert [float(x[at]) for x in ours] == [float(x[0]) for x in theirs]


def assert_same_prices(whole: Priced, alone: Priced, at: int) -> None:
    assert whole.energy_pj[at] == alone.energy_pj[0]
    assert whole.latency_cycles[at] == alone.latency_cycles[0]
    assert whole.compute_cycles[at] == alone.compute_cycles[0]
    assert [x[at] for x in whole.level_cycles] == [x[0] for x in alone.level_cycles]
    assert whole.fits[at] == alone.fits[0]


def test_counts_of_a_batch_are_those_of_each_mapping() -> None:
    for _, _, nest, tiles, convention in cases_of(range(40)):
        whole = count(nest, tiles, convention)
        for at in range(BATCH):
            assert_same_counts(whole, count(nest, tiles[:, at : at + 1], convention), at)


@pytest.mark.usefixtures("small_blocks")
def test_traced_counts_are_those_of_each_mapping() -> None:
    for _, _, nest, tiles, convention in cases_of(range(40, 80)):
        whole = count(nest, tiles, convention)
        for at in range(BATCH):
            assert_same_counts(whole, count(nest, tiles[:, at : at + 1], convention), at)


@pytest.mark.usefixtures("small_blocks")
def test_traced_prices_are_those_of_each_mapping() -> None:
    # The first block has no ragged tile, so that the facts taken from it break later.
    for _, case, nest, tiles, convention in cases_of(range(80, 130)):
        prices = prices_of(resolve(case.arch), case.op.datatype)
        whole = estimate_batch(nest, tiles, prices, convention)
        for at in range(BATCH):
            assert_same_prices(whole, estimate_batch(nest, tiles[:, at : at + 1], prices, convention), at)


@pytest.mark.usefixtures("small_blocks")
def test_traced_prices_per_mapping_are_those_of_each_mapping() -> None:
    for rng, case, nest, tiles, convention in cases_of(range(130, 160)):
        prices = prices_per_mapping(rng, prices_of(resolve(case.arch), case.op.datatype))
        whole = estimate_batch(nest, tiles, prices, convention)
        for at in range(BATCH):
            one = Prices(**{f: getattr(prices, f)[..., at : at + 1] for f in Prices.__dataclass_fields__})
            assert_same_prices(whole, estimate_batch(nest, tiles[:, at : at + 1], one, convention), at)


@pytest.mark.usefixtures("small_blocks")
def test_batches_agree_past_the_largest_exact_count() -> None:
    # 300007^3 multiply-accumulates exceed 2^53: rounded, but alike.
    op = parse_notation("gemm:M=300007,N=300007,K=300007,bits=8")
    arch = load_arch("ref16")
    assert isinstance(arch, SpatialArch)
    hierarchy = hierarchy_of(arch)
    loops = [NestLoop(dim=dim, axis=None) for dim in ("M", "N", "K", "K", "N", "M")]
    chain = [Holder(level=0, num_loops=0), Holder(level=1, num_loops=3), Holder(level=2, num_loops=3)]
    nest = make_nest(op, hierarchy, loops, [chain for _ in op.tensors])
    rng = np.random.default_rng(0)
    tiles = np.ones((6, BATCH))
    tiles[:3, 1:] = rng.integers(1, 300007, (3, BATCH - 1))
    whole = count(nest, tiles, CONVENTIONS["tileloom"])
    for at in range(BATCH):
        assert_same_counts(whole, count(nest, tiles[:, at : at + 1], CONVENTIONS["tileloom"]), at)


def test_one_estimate_has_the_bits_of_a_batch() -> None:
    for seed in range(20):
        case = random_case(Random(seed))
        nest, tiles = nest_of(case.op, case.mapping, hierarchy_of(case.arch))
        prices = prices_of(resolve(case.arch), case.op.datatype)
        batch = estimate_batch(nest, np.repeat(tiles, 3, axis=1), prices, CONVENTIONS["tileloom"])
        estimate = estimate_op(case.op, case.mapping, case.arch)
        assert estimate.latency_cycles == batch.latency_cycles[2]
        # The tree adds up in another order.
        assert estimate.energy_pj == pytest.approx(batch.energy_pj[2], rel=1e-12)
