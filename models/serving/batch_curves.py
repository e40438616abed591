"""What the steps of many layouts cost by the number of sequences that decode: priced at some batches, straight lines between.

Numbers of sequences are means, so that what is wanted of a curve lies between batches; and what is searched over rates needs
prices thousands of times, which the curves give without a kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..gpu.times import Floats, Ints
from .engine import Engine, SteadyState, Traffic, steady_state
from .parallel import Layouts
from .steps import StepTimer

MAX_USERS = 4096
"""Most users of an attention group and pipeline slot that are priced."""
NUM_BATCHES = 64
"""Batches of a curve, evenly spaced in the logarithm from 1 to the most that there is room for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCurves:
    """Costs of steps, per layout and batch `[n, m]`.

    Attributes:
        decoding: Sequences that decode; from 1 to `slots`.
        decode_step_s: A step in which no prompt is worked on [s].
        prompt_s: What one prompt adds to the time of those that decode, at least 0 [s].
        request_j: Energy of one chip above its idle power for one request [J].
        lone_prompt_s: A prompt alone on an idle instance `[n]` [s].
        slots: Most sequences of an attention group and pipeline slot at once `[n]`.
        decode_parts_s: Parts of `decode_step_s`.
        prompt_parts_s: Parts of what one prompt adds.
        notes: Approximations.
    """

    decoding: Floats
    decode_step_s: Floats
    prompt_s: Floats
    request_j: Floats
    lone_prompt_s: Floats
    slots: Floats
    decode_parts_s: Mapping[str, Floats]
    prompt_parts_s: Mapping[str, Floats]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where some batches lie on the curves of some layouts `[p]`: between two of a curve's batches."""

    rows: Ints
    left: Ints
    share: Floats

    def of(self, values: Floats) -> Floats:
        """A curve's values there."""
        low, high = values[self.rows, self.left], values[self.rows, self.left + 1]
        return low + self.share * (high - low)


def place(decoding: Floats, rows: Ints, batch: Floats) -> Place:
    """Where batches lie; those beyond an end lie there.

    Args:
        decoding: Batches of the curves, rising `[n, m]`.
        rows: Layout of each wanted batch `[p]`.
        batch: The wanted batches `[p]`.
    """
    grid = decoding[rows]
    left = np.clip(np.sum(grid <= batch[:, None], axis=1) - 1, 0, grid.shape[1] - 2)
    at = np.arange(len(rows))
    low, high = grid[at, left], grid[at, left + 1]
    share = np.clip(np.divide(batch - low, high - low, out=np.zeros_like(batch), where=high > low), 0.0, 1.0)
    return Place(rows=rows, left=left.astype(np.int64), share=share)


def user_counts() -> Ints:
    """Users per attention group and pipeline slot that are priced: steps of about a fifth, all small ones."""
    counts = {1, 2, 3, 4, 5, 6, 7, 8}
    power = 8
    while power < MAX_USERS:
        counts |= {power, power * 5 // 4, power * 3 // 2, power * 7 // 4}
        power *= 2
    return np.array(sorted({*counts, MAX_USERS}), dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedBatches:
    """Steady states of some layouts with each of `user_counts`; `curves` joins them.

    Attributes:
        state: All of them, layout by layout `[n x users]`.
        num_layouts: Layouts.
        engine: How they batch.
        traffic: What users ask for.
    """

    state: SteadyState
    num_layouts: int
    engine: Engine
    traffic: Traffic

    def curves(self, slots: Floats) -> BatchCurves:
        """Curves up to as many sequences as there are slots.

        Args:
            slots: Sequences of an attention group and pipeline slot for which there is memory `[n]`.
        """
        state = self.state
        shape = (self.num_layouts, len(state.users) // self.num_layouts)
        room = np.minimum(self.engine.max_sequences or MAX_USERS, state.batch.reshape(shape)[:, -1])
        most = np.clip(slots, 1.0, np.maximum(1.0, np.floor(room)))
        decoding = np.exp(np.linspace(0.0, 1.0, NUM_BATCHES)[None, :] * np.log(most)[:, None])
        rows = np.repeat(np.arange(shape[0], dtype=np.int64), NUM_BATCHES)
        at = place(state.decoding.reshape(shape), rows, decoding.reshape(-1))

        def curve(values: Floats) -> Floats:
            return at.of(values.reshape(shape)).reshape(decoding.shape)

        return BatchCurves(
            decoding=decoding,
            decode_step_s=curve(state.decode_step_s),
            # Where a larger product is made faster, prompts cost nothing.
            prompt_s=np.maximum(0.0, curve(state.prompt_s)),
            request_j=curve(_request_j(state, self.traffic)),
            lone_prompt_s=state.lone_prompt_s.reshape(shape)[:, 0],
            slots=most,
            decode_parts_s={name: curve(column) for name, column in state.decode_parts_s.items()},
            prompt_parts_s={name: curve(column) for name, column in state.prompt_parts_s.items()},
            notes=state.notes,
        )


def price_batches(timer: StepTimer, layouts: Layouts, engine: Engine, traffic: Traffic) -> PricedBatches:
    """Price some layouts at all batches, as one batch of kernels.

    Args:
        timer: Prices steps.
        layouts: How instances are laid out.
        engine: How they batch.
        traffic: What users ask for.
    """
    users = user_counts().astype(np.float64)
    rows = np.repeat(np.arange(len(layouts)), len(users))
    state = steady_state(timer, layouts.take(rows), engine, traffic, np.tile(users, len(layouts)))
    return PricedBatches(state=state, num_layouts=len(layouts), engine=engine, traffic=traffic)


def _request_j(state: SteadyState, traffic: Traffic) -> Floats:
    """Energy of one chip above its idle power for one request: that of its time, over those who share it [J]."""
    served_s = state.prompt_wait_s + state.mixed_prompt_s + (traffic.osl - 1) * state.tpot_s
    return state.dynamic_j_per_step / state.step_s * served_s / state.batch
