"""Tokens on experts: expectations in closed form against random routers."""

from __future__ import annotations

import numpy as np
import pytest

from tileloom.models.serving import Layout, layouts_of, make_steps
from tileloom.models.serving.routing import experts_with_rows, rows_of_experts, rows_of_fullest_chip

from .conftest import ServiceMaker


def random_routes(
    num_experts: int, top_k: int, tokens: int, trials: int = 400
) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Rows of each expert in each trial: every token goes to `top_k` different experts."""
    random = np.random.default_rng(tokens)
    chosen = random.random((trials, tokens, num_experts)).argsort(axis=2)[:, :, :top_k]
    return np.stack([np.bincount(one.ravel(), minlength=num_experts) for one in chosen])


@pytest.mark.parametrize(("num_experts", "top_k", "tokens"), [(8, 2, 3), (32, 4, 16), (64, 6, 64)])
def test_random_routers_agree(num_experts: int, top_k: int, tokens: int) -> None:
    routes = random_routes(num_experts, top_k, tokens)
    count = np.array([float(tokens)])
    active = experts_with_rows(float(num_experts), top_k, num_experts, count)
    assert active[0] == pytest.approx((routes > 0).sum(axis=1).mean(), rel=0.02)
    found = rows_of_experts(count * top_k, active, np.array([float(num_experts)]))
    present = routes[routes > 0]
    assert found.mean() == pytest.approx(present.mean(), rel=0.12)
    assert found[1, 0] == pytest.approx(np.median(present), abs=1)
    for chips in (2, 8):
        fullest = routes.reshape(len(routes), chips, -1).sum(axis=2).max(axis=1).mean()
        mean = np.array([tokens * top_k / chips])
        assert rows_of_fullest_chip(mean, np.array([float(chips)]))[0] == pytest.approx(fullest, rel=0.08)


def test_one_chip_has_the_mean() -> None:
    mean = np.array([7.0, 7.0])
    assert rows_of_fullest_chip(mean, np.array([1.0, 2.0]))[0] == 7.0
    assert rows_of_fullest_chip(mean, np.array([1.0, 2.0]))[1] > 7.0


@pytest.mark.parametrize(("name", "layout"), [("mixtral_8x22b", Layout(tp=8)), ("gpt_oss_120b", Layout(tp=8, ep=8))])
def test_experts_cost_more_the_more_tokens_there_are(name: str, layout: Layout, service: ServiceMaker) -> None:
    batch = np.array([1.0, 2.0, 3.0, 8.0, 20.0, 64.0, 200.0, 1024.0, 4096.0])
    made = service(name)
    times = made.timer.times(make_steps(layouts_of([layout] * len(batch)), batch=batch, context_tokens=100.0))
    experts = times.parts_s["experts"]
    # A kernel whose inputs are in the cache has its first bytes a few nanoseconds sooner.
    assert np.all(np.diff(experts) >= -1e-3 * experts[:-1])
    # All weights of the experts once it is large, never faster than the memory reads them.
    assert made.model.experts is not None
    held = made.model.num_expert_layers * made.model.experts.num_experts / 8 * 3
    weights = held * made.model.hidden_size * made.model.experts.intermediate_size * made.numerics.expert_bits / 8
    assert experts[-1] > weights / made.chip.memory_bytes_per_s
