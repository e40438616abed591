"""Waiting for the first token at fixed concurrency; `open_loop` has that at a rate of arrivals."""

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


def burst_wait_s(state: SteadyState) -> Floats:
    """Mean wait of a user when all start at once: half of the others' prompts come first [s]."""
    return np.maximum(0.0, state.users - 1) / 2 * np.maximum(0.0, state.prompt_s)
