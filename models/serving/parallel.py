"""How one instance of a model is laid out over chips, for many layouts at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...archdsl import GroupedAttention, LanguageModel, ModelError
from ..gpu.times import Ints

__all__ = ["Layout", "Layouts", "layout_faults", "layouts_of", "possible_layouts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One instance of a model on `tp * pp * dp` chips.

    Attributes:
        tp: Chips over which every matrix and head of a layer is divided.
        pp: Stages that the layers are divided into.
        dp: Groups that keep sequences of their own (data-parallel attention); each has all weights but the experts'.
        ep: Groups over which the experts are divided; an expert is divided over the chips of its group. When `ep` exceeds
            `tp`, experts are shared by all `dp` groups of a stage, else every group has its own.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1

    @property
    def num_chips(self) -> int:
        """Chips of one instance."""
        return self.tp * self.pp * self.dp

    def __str__(self) -> str:
        return f"tp={self.tp} pp={self.pp} dp={self.dp} ep={self.ep}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layouts:
    """Many layouts as columns `[n]`; see `Layout`."""

    tp: Ints
    pp: Ints
    dp: Ints
    ep: Ints

    def __len__(self) -> int:
        return len(self.tp)

    @property
    def num_chips(self) -> Ints:
        """Chips of one instance `[n]`."""
        return self.tp * self.pp * self.dp

    @property
    def expert_chips(self) -> Ints:
        """Chips that share the experts of a layer `[n]`."""
        return np.where(self.ep > self.tp, self.tp * self.dp, self.tp)

    @property
    def expert_groups(self) -> Ints:
        """Attention groups whose tokens meet in the experts `[n]`."""
        return np.where(self.ep > self.tp, self.dp, 1)

    def at(self, idx: int) -> Layout:
        """One of them."""
        return Layout(tp=int(self.tp[idx]), pp=int(self.pp[idx]), dp=int(self.dp[idx]), ep=int(self.ep[idx]))

    def take(self, rows: Ints) -> Layouts:
        """Some of them, in that order."""
        return Layouts(tp=self.tp[rows], pp=self.pp[rows], dp=self.dp[rows], ep=self.ep[rows])


def layouts_of(layouts: list[Layout]) -> Layouts:
    """Layouts as columns."""
    return Layouts(
        tp=np.array([one.tp for one in layouts], dtype=np.int64),
        pp=np.array([one.pp for one in layouts], dtype=np.int64),
        dp=np.array([one.dp for one in layouts], dtype=np.int64),
        ep=np.array([one.ep for one in layouts], dtype=np.int64),
    )


def layout_faults(model: LanguageModel, layout: Layout) -> list[str]:
    """Why a model cannot be laid out so; empty when it can."""
    found: list[str] = []
    heads = model.attention.num_heads
    if heads % layout.tp:
        found.append(f"tp={layout.tp} does not divide the {heads} heads of {model.name}")
    if not _suits_kv_heads(model, layout.tp):
        found.append(f"tp={layout.tp} neither divides nor is a multiple of the key-value heads")
    if found:
        suited = [str(tp) for tp in range(1, heads + 1) if heads % tp == 0 and _suits_kv_heads(model, tp)]
        found.append(f"tp may be {', '.join(suited)}")
    if layout.pp > model.num_layers:
        found.append(f"pp={layout.pp} is above the {model.num_layers} layers of {model.name}")
    if model.experts is None:
        if layout.ep > 1:
            found.append(f"ep={layout.ep}, and {model.name} has no experts")
        return found
    chips = layout.tp * layout.dp if layout.ep > layout.tp else layout.tp
    if chips % layout.ep:
        what = "tp * dp" if layout.ep > layout.tp else "tp"
        found.append(f"ep={layout.ep} does not divide {what} = {chips}")
    if model.experts.num_experts % layout.ep:
        found.append(f"ep={layout.ep} does not divide the {model.experts.num_experts} experts of {model.name}")
    return found


def _suits_kv_heads(model: LanguageModel, tp: int) -> bool:
    """Whether heads of keys and values are divided evenly, or copied evenly where there are fewer than chips."""
    attention = model.attention
    if not isinstance(attention, GroupedAttention):
        return True
    return attention.num_kv_heads % tp == 0 or tp % attention.num_kv_heads == 0


def require_layout(model: LanguageModel, layout: Layout) -> None:
    """Check a layout.

    Raises:
        ModelError: The model cannot be laid out so.
    """
    if found := layout_faults(model, layout):
        raise ModelError("; ".join(found))


def possible_layouts(model: LanguageModel, num_chips: int) -> list[Layout]:
    """Every layout of powers of two on at most so many chips; `dp` above 1 only where experts are shared."""
    powers = [2**power for power in range(num_chips.bit_length()) if 2**power <= num_chips]
    found: list[Layout] = []
    for tp in powers:
        for pp in (pp for pp in powers if tp * pp <= num_chips):
            found += _with_experts(model, tp, pp, [dp for dp in powers if tp * pp * dp <= num_chips])
    return [layout for layout in found if not layout_faults(model, layout)]


def _with_experts(model: LanguageModel, tp: int, pp: int, groups: list[int]) -> list[Layout]:
    if model.experts is None:
        return [Layout(tp=tp, pp=pp)]
    found: list[Layout] = []
    for dp in groups:
        choices = {1, tp} if dp == 1 else {tp * dp}
        found += [Layout(tp=tp, pp=pp, dp=dp, ep=ep) for ep in sorted(choices)]
    return found
