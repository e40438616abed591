"""Waiting for the first token: at fixed concurrency and at a rate of arrivals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..gpu.times import Floats
from .engine import SteadyState


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Mean waits of a request before its own prompt is worked on, per layout `[n]` [s].

    Attributes:
        slot_s: For room in the batch.
        running_s: For the end of the step that runs.
        prompts_s: For prompts that came before.
        busy: Share of time in which steps with prompts run.
    """

    slot_s: Floats
    running_s: Floats
    prompts_s: Floats
    busy: Floats

    @property
    def total_s(self) -> Floats:
        """All waits [s]."""
        return self.slot_s + self.running_s + self.prompts_s


def closed_loop(state: SteadyState, osl: int) -> Waiting:
    """Users who ask again as soon as they are answered (a load generator with fixed concurrency).

    A request waits for prompts of others as the steady state says. Users for whom there is no room in the batch wait until as
    many have finished.
    """
    busy = np.minimum(0.999, state.prompts_per_step * np.maximum(0.0, state.prompt_s) / state.step_s)
    served_s = state.prompt_wait_s + state.mixed_prompt_s + (osl - 1) * state.tpot_s
    per_request_s = served_s / np.maximum(state.batch, 1e-12)
    return Waiting(
        slot_s=np.maximum(0.0, state.users - state.batch) * per_request_s,
        running_s=np.zeros_like(busy),  # who is answered at the end of a step asks again at its end
        prompts_s=state.prompt_wait_s,
        busy=busy,
    )


def open_loop(state: SteadyState, requests_per_s: Floats) -> Waiting:
    """Users who arrive at random at a mean rate, each attention group and pipeline slot its share.

    An arrival waits for the rest of the step that runs (half of one, since arrivals are random) and for the prompts before
    its own: an M/G/1 queue whose service is one prompt. The rate is that of the state, so that decoding sequences are as
    many as the rate keeps busy; there is room in the batch for all.

    Args:
        state: The engine at the concurrency that the rate leads to.
        requests_per_s: Arrivals per group and slot `[n]`.
    """
    prompt_s = np.maximum(0.0, state.prompt_s)
    busy = requests_per_s * prompt_s
    behind = np.where(busy < 1, busy * prompt_s / (2 * np.maximum(1e-9, 1 - busy)), np.inf)
    return Waiting(
        slot_s=np.zeros_like(busy), running_s=state.decode_step_s / 2, prompts_s=behind, busy=np.minimum(busy, 1.0)
    )


def burst_wait_s(state: SteadyState) -> Floats:
    """Mean wait of a user when all start at once: half of the others' prompts come first [s]."""
    return np.maximum(0.0, state.users - 1) / 2 * np.maximum(0.0, state.prompt_s)
