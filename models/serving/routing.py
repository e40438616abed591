"""How tokens fall on experts that a router chooses at random: balls in bins.

Served models are trained so that every expert is chosen alike, so a router is a die: how many experts have any token at all,
how many tokens the others have, and how many the fullest chip has follow from the number of tokens alone.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Final

import numpy as np

from ..gpu.times import Floats, Ints

QUANTILES: Final = (1 / 6, 1 / 2, 5 / 6)
"""Where the rows of an expert are taken: the middles of three equally likely parts."""


def experts_with_rows(num_experts: Floats | float, top_k: int, all_experts: int, tokens: Floats) -> Floats:
    """Experts of a chip that any of some tokens goes to, expected `[n]`.

    Args:
        num_experts: Experts of the chip.
        top_k: Experts that each token goes to.
        all_experts: Experts that it chooses from.
        tokens: Tokens `[n]`.
    """
    missed = (1 - top_k / all_experts) ** tokens
    return np.maximum(num_experts * (1 - missed), np.where(tokens > 0, 1.0, 0.0))


def rows_of_fullest_chip(mean_rows: Floats, num_chips: Floats) -> Floats:
    """Rows of the fullest of some groups of chips that share experts, expected `[n]`: the others wait for it.

    Args:
        mean_rows: Rows of each in the mean `[n]`.
        num_chips: Groups among which the experts are divided `[n]`.

    Source: Blom, Statistical Estimates and Transformed Beta-Variables, 1958: the largest of n normal variates is expected at
    the quantile (n - 3/8) / (n + 1/4); rows have the variance of a multinomial.
    """
    found = mean_rows.copy()
    for count in np.unique(num_chips[num_chips > 1]):
        rows = num_chips == count
        spread = NormalDist().inv_cdf((count - 0.375) / (count + 0.25))
        found[rows] += spread * np.sqrt(mean_rows[rows] * (1 - 1 / count))
    return found


def rows_of_experts(rows: Floats, active: Floats, held: Floats) -> Ints:
    """Rows of an expert that has any, at each of `QUANTILES` `[quantiles, n]`; at least 1.

    Args:
        rows: Rows of all experts of a chip together `[n]`.
        active: Experts of the chip that have any `[n]`, at least 1.
        held: Experts of the chip `[n]`.
    """
    mean = rows / active
    all_mean = rows / held
    # The variance of a multinomial's part, given that it is not empty.
    square = (all_mean * (1 - 1 / held) + all_mean**2) * held / active
    spread = np.sqrt(np.maximum(0.0, square - mean**2))
    found = [np.rint(mean + NormalDist().inv_cdf(quantile) * spread) for quantile in QUANTILES]
    return np.maximum(1, np.stack(found)).astype(np.int64)
