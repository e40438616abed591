"""Steps of an inference engine as columns: what one pass through all layers works on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

import numpy as np

from ..gpu.times import Floats
from .parallel import Layouts


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Steps of one attention group, `[n]`: prompts, sequences that decode, or both together.

    Attributes:
        layouts: How the instance is laid out.
        prompt_tokens: Tokens of prompts worked on.
        past_tokens: Mean tokens cached of a prompt before these.
        num_prompts: Prompts that these tokens belong to, at least 1 where there are any.
        batch: Sequences that decode.
        context_tokens: Mean tokens cached of a sequence that decodes.
        queries: Tokens worked on per sequence that decodes; above 1 when drafts are verified.
    """

    layouts: Layouts
    prompt_tokens: Floats
    past_tokens: Floats
    num_prompts: Floats
    batch: Floats
    context_tokens: Floats
    queries: Floats

    def __len__(self) -> int:
        return len(self.batch)

    @property
    def tokens(self) -> Floats:
        """Tokens worked on by one attention group `[n]`."""
        return self.prompt_tokens + self.batch * self.queries


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """What steps cost.

    Attributes:
        parts_s: Parts that follow one another, by name, `[n]` [s].
        ops: Arithmetic of one chip in its busiest stage's share, 2 per multiply-accumulate, `[n]`.
        main_memory_bytes: Bytes to and from one chip's main memory `[n]`.
        dynamic_j: Energy of one chip above its idle power `[n]` [J].
        link_bytes: Bytes that one chip sends `[n]`.
        notes: Approximations that were made.
    """

    parts_s: Mapping[str, Floats]
    ops: Floats
    main_memory_bytes: Floats
    dynamic_j: Floats
    link_bytes: Floats
    notes: tuple[str, ...] = ()

    @property
    def time_s(self) -> Floats:
        """Time of each step `[n]` [s]."""
        return total_of(self.parts_s)


def total_of(parts: Mapping[str, Floats]) -> Floats:
    """Sum of named columns, added in their order so that a batch of one gives the same bits as any other."""
    return reduce(np.add, parts.values())


class StepTimer(Protocol):
    """Prices steps of one model on one kind of chip."""

    def times(self, steps: Steps) -> StepTimes:
        """What each step costs.

        Raises:
            ModelError: The chip cannot run it, e.g. for want of a datatype.
        """
        ...


def make_steps(
    layouts: Layouts,
    *,
    prompt_tokens: Floats | float = 0.0,
    past_tokens: Floats | float = 0.0,
    num_prompts: Floats | float = 1.0,
    batch: Floats | float = 0.0,
    context_tokens: Floats | float = 0.0,
    queries: Floats | float = 1.0,
) -> Steps:
    """Steps from numbers or columns."""

    def column(value: Floats | float) -> Floats:
        return np.broadcast_to(np.asarray(value, dtype=np.float64), (len(layouts),)).copy()

    return Steps(
        layouts=layouts,
        prompt_tokens=column(prompt_tokens),
        past_tokens=column(past_tokens),
        num_prompts=column(num_prompts),
        batch=column(batch),
        context_tokens=column(context_tokens),
        queries=column(queries),
    )
