"""Collectives of some chips of a system, many sizes at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ...archdsl import ModelError, counted, nearest_hint
from ..gpu.times import Floats, Ints, KernelTimes
from .algorithms import OPS, CollectiveOp, algorithms_for
from .machine import Machine
from .nccl import nccl_times
from .peer import FRAMEWORKS, peer_times

LIBRARIES: Final = ("nccl", "ideal", *FRAMEWORKS)
"""Who does it: NCCL, the best algorithm at the price of links alone, or a framework's own all-reduce."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collectives:
    """One op over the same chips, many message sizes.

    Attributes:
        op: What is done.
        sizes_bytes: Sizes of the messages `[count]`, counted as in nccl-tests: what a chip holds before an all-reduce,
            reduce-scatter or all-to-all, what it holds after an all-gather, what is sent point to point.
        num_chips: How many chips take part: the first ones of the system unless `chips` names them.
        chips: Names of the chips that take part.
        library: Who does it, one of `LIBRARIES`.
    """

    op: CollectiveOp
    sizes_bytes: Ints
    num_chips: int
    chips: tuple[str, ...] = ()
    library: str = "nccl"

    def __len__(self) -> int:
        return len(self.sizes_bytes)

    def label(self, idx: int) -> str:
        """`all_reduce 8 chips 1048576 bytes`, with nccl-tests' names; frameworks' own start with `custom`."""
        custom = "custom " if self.library in FRAMEWORKS else ""
        op = "alltoall" if self.op == "all_to_all" else self.op
        return f"{custom}{op} {self.num_chips} chips {self.sizes_bytes[idx]} bytes"

    def times(self, machine: Machine) -> KernelTimes:
        """What each takes. Its regime is `memory` where moving bytes takes most of the time, else `latency`.

        Raises:
            ModelError: The system has too few chips, or the library does not serve them.
        """
        chips = self._chips_of(machine)
        if self.library == "nccl":
            return nccl_times(machine, self.op, chips, self.sizes_bytes)
        if self.library == "ideal":
            return _ideal_times(machine, self.op, chips, self.sizes_bytes)
        if self.library not in FRAMEWORKS:
            raise ModelError(f"unknown library '{self.library}'{nearest_hint(self.library, LIBRARIES)}")
        if self.op != "all_reduce":
            raise ModelError(f"{self.library} does all_reduce alone; use library 'nccl' for {self.op}")
        return peer_times(machine, self.library, chips, self.sizes_bytes)

    def _chips_of(self, machine: Machine) -> tuple[str, ...]:
        if self.op not in OPS:
            raise ModelError(f"unknown collective '{self.op}'{nearest_hint(self.op, OPS)}")
        if self.chips:
            if len(self.chips) != self.num_chips:
                raise ModelError(f"{self.num_chips} chips are to take part, and {len(self.chips)} are named")
            return self.chips
        known = machine.system.chip_names
        if not 2 <= self.num_chips <= len(known):
            raise ModelError(
                f"{machine.name} has {counted(len(known), 'chips')}; a collective takes 2 to that many, not {self.num_chips}"
            )
        return known[: self.num_chips]


def _ideal_times(machine: Machine, op: CollectiveOp, chips: tuple[str, ...], sizes_bytes: Ints) -> KernelTimes:
    """The best algorithm of each size, with nothing but links: latencies, and bytes over the full bandwidth."""
    sizes: Floats = sizes_bytes.astype(np.float64)
    algorithms = algorithms_for(machine.system, op, chips)
    latencies = np.array([[one.latency_s] for one in algorithms]) + np.zeros(len(sizes))
    moving = np.array([[one.s_per_byte] for one in algorithms]) * sizes
    chosen: Ints = np.argmin(latencies + moving, axis=0)
    at = np.arange(len(sizes))
    steps, links = latencies[chosen, at], moving[chosen, at]
    return KernelTimes(
        serial_s={"steps": steps, "links": links},
        regime=np.where(links > steps, 1, 2),
        ops=np.zeros(len(sizes)),
        main_memory_bytes=np.zeros(len(sizes)),
        choices=tuple(algorithms[int(idx)].name for idx in chosen),
        notes=("ideal: links alone, without launches and protocols",),
    )
