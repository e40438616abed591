"""Speculative decoding: a draft of some tokens is verified in one step."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...archdsl import ModelError


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """Drafts of a fixed length.

    Attributes:
        draft_tokens: Tokens of a draft; 0 without speculation.
        acceptance: Chance that a drafted token is accepted when those before it were.
        draft_share: Time of drafting over that of the step which verifies.
    """

    draft_tokens: int = 0
    acceptance: float = 0.0
    draft_share: float = 0.0

    def __post_init__(self) -> None:
        if self.draft_tokens < 0:
            raise ModelError(f"drafts of {self.draft_tokens} tokens; at least 0")
        if not 0 <= self.acceptance < 1:
            raise ModelError(f"acceptance {self.acceptance:g} is not between 0 and 1 (1 excluded)")
        if not (self.draft_share >= 0 and math.isfinite(self.draft_share)):
            raise ModelError(f"draft share {self.draft_share:g} is not a number of at least 0")
        if self.draft_tokens == 0 and (self.acceptance or self.draft_share):
            raise ModelError(
                "an acceptance or draft share without drafts: give draft tokens of at least 1, or leave both out"
            )

    @property
    def queries(self) -> float:
        """Tokens worked on per sequence and step: the draft and the token before it."""
        return 1.0 + self.draft_tokens

    @property
    def tokens_per_step(self) -> float:
        """Tokens that a sequence gains in a step, expected: accepted ones and the one that the model adds.

        Source: Leviathan, Kalman, Matias, Fast Inference from Transformers via Speculative Decoding, ICML 2023,
        equation 1: (1 - a^(g + 1)) / (1 - a).
        """
        return (1 - self.acceptance ** (self.draft_tokens + 1)) / (1 - self.acceptance)


NO_SPECULATION = Speculation()
