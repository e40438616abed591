"""Builds programs: emits instructions, and places the tokens that order the three units.

Every use of a buffer is ordered by tokens between neighbouring queues, and a queue takes tokens in the order in which
they are given. So that this order is known, load to execute tokens come from loads, execute to load and execute to
store ones from COMPUTE alone, and store to execute ones from stores: each unit ends what it does in order.
A dependence always points backwards in the program, so that no program of this builder can hang.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...archdsl import Instruction, PeArray

Operands = Mapping[str, int]


def output_range(array: PeArray, zero_point: int, low: int | None, high: int | None) -> dict[str, int]:
    """Operands of CFG_ST: what is added to outputs, and what they are clipped to, else the finite elements."""
    number_format = array.format
    return {
        "zero_point": zero_point,
        "low": number_format.low if low is None else low,
        "high": number_format.high if high is None else high,
    }


@dataclass(slots=True)
class _Tokens:
    """Tokens of one direction: given so far, and taken so far."""

    given: int = 0
    taken: int = 0
    wanted: int = 0

    def give(self) -> int:
        """One more token; its number."""
        self.given += 1
        return self.given

    def want(self, token: int) -> None:
        """The next instruction waits for a token, and so for all before it."""
        self.wanted = max(self.wanted, token)


@dataclass(slots=True)
class ProgramBuilder:
    """Emits a program.

    Args:
        array: The PE array.
    """

    array: PeArray
    instructions: list[Instruction] = field(default_factory=list[Instruction])
    _loaded: _Tokens = field(default_factory=_Tokens)
    _freed: _Tokens = field(default_factory=_Tokens)
    _computed: _Tokens = field(default_factory=_Tokens)
    _stored: _Tokens = field(default_factory=_Tokens)
    _config: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])

    def load(self, operands: Operands, *, after: int = 0, gives: bool = True) -> int:
        """An LD.

        Args:
            operands: Its operands.
            after: It waits for this release (see `compute`); 0 for none.
            gives: Whether computations may wait for it.

        Returns:
            The token that `preload` and `compute` can wait for.
        """
        self._freed.want(after)
        self._emit("LD", operands, self._freed, "pop_next", {"push_next": gives})
        return self._loaded.give() if gives else 0

    def preload(self, operands: Operands, *, after: int = 0) -> None:
        """A PRELOAD that waits for a load."""
        self._loaded.want(after)
        self._emit("PRELOAD", operands, self._loaded, "pop_prev", {})

    def compute(
        self, operands: Operands, *, after: int = 0, after_store: int = 0, frees: bool = True, ends: bool = False
    ) -> tuple[int, int]:
        """A COMPUTE.

        Args:
            operands: Its operands.
            after: It waits for this load.
            after_store: It waits for this store.
            frees: Whether loads may wait until it has read its inputs and weights.
            ends: Whether a store may wait for its sums.

        Returns:
            The release that loads can wait for, and the token that a store can wait for; 0 for none.
        """
        return self._walk("COMPUTE", operands, after, after_store, frees=frees, ends=ends)

    def vector(
        self, operands: Operands, *, after: int = 0, after_store: int = 0, frees: bool = True, ends: bool = False
    ) -> tuple[int, int]:
        """An ALU; see `compute`."""
        return self._walk("ALU", operands, after, after_store, frees=frees, ends=ends)

    def _walk(
        self, name: str, operands: Operands, after: int, after_store: int, *, frees: bool, ends: bool
    ) -> tuple[int, int]:
        self._loaded.want(after)
        self._stored.want(after_store)
        # One token of each kind per instruction: those that are wanted besides are taken before.
        while self._stored.wanted > self._stored.taken + 1:
            self._stored.taken += 1
            self._append("NOP", {}, {"pop_next": True})
        takes = {"pop_next": self._stored.wanted > self._stored.taken}
        self._stored.taken += takes["pop_next"]
        self._emit(name, operands, self._loaded, "pop_prev", {**takes, "push_prev": frees, "push_next": ends})
        return self._freed.give() if frees else 0, self._computed.give() if ends else 0

    def store(self, operands: Operands, *, after: int = 0, gives: bool = True) -> int:
        """An ST that waits for sums; returns the token that computations can wait for."""
        self._computed.want(after)
        self._emit("ST", operands, self._computed, "pop_prev", {"push_prev": gives})
        return self._stored.give() if gives else 0

    def configure(self, name: str, operands: Operands) -> None:
        """A CFG instruction, unless it would change nothing."""
        wanted = dict(operands)
        if self._config.get(name) != wanted:
            self._config[name] = wanted
            self._append(name, wanted, {})

    def fence(self) -> None:
        """Everything before ends before anything behind starts."""
        self._append("FENCE", {}, {})

    def finish(self) -> tuple[Instruction, ...]:
        """The program, with its HALT."""
        self._append("HALT", {}, {})
        return tuple(self.instructions)

    def _emit(self, name: str, operands: Operands, tokens: _Tokens, bit: str, bits: Mapping[str, bool]) -> None:
        """An instruction that takes the tokens that are wanted; those beyond one are taken by others before it."""
        idle = {"LD": "CFG_LD", "ST": "CFG_ST"}.get(name, "NOP")
        while tokens.wanted > tokens.taken + 1:
            tokens.taken += 1
            self._append(idle, self._config.get(idle, {}), {bit: True})
        takes = tokens.wanted > tokens.taken
        tokens.taken += takes
        self._append(name, operands, {**bits, bit: takes})

    def _append(self, name: str, operands: Operands, bits: Mapping[str, bool]) -> None:
        self.instructions.append(replace(Instruction(name=name, operands=dict(operands)), **bits))
