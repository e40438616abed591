"""Objectives: a monotone score of traffic, time and energy, so that bounds on parts bound the whole."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...archdsl import CompileError
from ...models import Prices
from .problem import FloatArray, IntArray

OBJECTIVES = ("energy", "latency", "edp", "main_memory_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A product of powers of energy, latency and main-memory bytes, to be minimised.

    A product needs no common unit: `energy` is energy to the power of 1, EDP is energy x latency, and
    `energy=2,latency=1` weighs energy twice.

    Attributes:
        name: As the user wrote it.
        energy: Exponent of the energy [pJ].
        latency: Exponent of the latency [cycles].
        main_memory_bytes: Exponent of the bytes read from and written to the outermost memory.
    """

    name: str
    energy: float = 0.0
    latency: float = 0.0
    main_memory_bytes: float = 0.0

    def score(
        self, energy: FloatArray | float, latency: FloatArray | float, main_memory_bytes: FloatArray | float
    ) -> FloatArray | float:
        """The score; lower is better."""
        total: FloatArray | float = 1.0
        for amount, power in (
            (energy, self.energy),
            (latency, self.latency),
            (main_memory_bytes, self.main_memory_bytes),
        ):
            if power:
                total = total * (amount if power == 1.0 else amount**power)
        return total


def parse_objective(text: str) -> Objective:
    """Reads `energy`, `latency`, `edp`, `main_memory_bytes` or a weighted set such as `energy=2,latency=1`.

    Raises:
        CompileError: The text is none of these.
    """
    if text == "edp":
        return Objective(name=text, energy=1.0, latency=1.0)
    weights: dict[str, float] = {}
    for item in text.split(","):
        name, equals, weight = item.partition("=")
        try:
            value = float(weight) if equals else 1.0
        except ValueError:
            value = -1.0
        if name not in ("energy", "latency", "main_memory_bytes") or not 0 < value < 100 or name in weights:
            allowed = ", ".join(OBJECTIVES)
            raise CompileError(
                f"objective '{text}': '{item}' is not understood; use one of {allowed},"
                " or a weighted set such as 'energy=2,latency=1' with each weight above 0"
            )
        weights[name] = value
    return Objective(
        name=text,
        energy=weights.get("energy", 0.0),
        latency=weights.get("latency", 0.0),
        main_memory_bytes=weights.get("main_memory_bytes", 0.0),
    )


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes read and written per level, steps, and instances per level, over an array of candidates."""

    read: list[FloatArray | float]
    write: list[FloatArray | float]
    instances: list[FloatArray | float]
    steps: FloatArray | float

    def take(self, rows: IntArray) -> Traffic:
        """The candidates `rows`."""

        def pick(values: Sequence[FloatArray | float]) -> list[FloatArray | float]:
            return [v[rows] if isinstance(v, np.ndarray) else v for v in values]

        return Traffic(pick(self.read), pick(self.write), pick(self.instances), pick([self.steps])[0])

    def broadcast_counts(self, shape: tuple[int, ...]) -> Traffic:
        """Every array of reads and writes in full shape, contiguous; scalars stay."""

        def grow(values: Sequence[FloatArray | float]) -> list[FloatArray | float]:
            return [np.ascontiguousarray(np.broadcast_to(v, shape)) if isinstance(v, np.ndarray) else v for v in values]

        return Traffic(grow(self.read), grow(self.write), self.instances, self.steps)

    def moved(self, level: int, other: int) -> Traffic:
        """The reads and writes of one level charged to another, which has none."""
        if level == other:
            return self
        read, write = list(self.read), list(self.write)
        read[level], read[other] = read[other], read[level]
        write[level], write[other] = write[other], write[level]
        return Traffic(read, write, self.instances, self.steps)

    def plus(self, other: Traffic) -> Traffic:
        """Sum of traffic; steps and instances are this one's."""
        return Traffic(
            [a + b for a, b in zip(self.read, other.read, strict=True)],
            [a + b for a, b in zip(self.write, other.write, strict=True)],
            self.instances,
            self.steps,
        )


def joined_traffic(parts: Sequence[Traffic], sizes: Sequence[int]) -> Traffic:
    """Arrays of several end to end; `sizes` has the number of candidates of each."""
    ends = list(itertools.accumulate(sizes))

    def join(values: Sequence[FloatArray | float]) -> FloatArray:
        joined = np.empty(ends[-1])
        for value, size, end in zip(values, sizes, ends, strict=True):
            joined[end - size : end] = value
        return joined

    levels = range(len(parts[0].read))
    return Traffic(
        [join([part.read[level] for part in parts]) for level in levels],
        [join([part.write[level] for part in parts]) for level in levels],
        [join([part.instances[level] for part in parts]) for level in levels],
        join([part.steps for part in parts]),
    )


@dataclass(frozen=True, slots=True)
class Scorer:
    """Scores traffic on one architecture under one objective."""

    objective: Objective
    prices: Prices
    macs: int

    @property
    def mac_energy(self) -> float:
        """Energy of the multiply-accumulates [pJ]."""
        return self.macs * float(self.prices.mac_pj[0])

    def parts(self, traffic: Traffic) -> tuple[FloatArray | float, FloatArray | float, FloatArray | float]:
        """Energy [pJ], throughput latency [cycles] and main-memory bytes."""
        p = self.prices
        energy: FloatArray | float = self.mac_energy
        latency: FloatArray | float = traffic.steps * float(p.cycles_per_step[0])
        for idx, (read, write) in enumerate(zip(traffic.read, traffic.write, strict=True)):
            energy = energy + (read * float(p.read_pj[idx, 0]) + write * float(p.write_pj[idx, 0]))
            read_rate, write_rate = float(p.read_bytes_per_cycle[idx, 0]), float(p.write_bytes_per_cycle[idx, 0])
            if self.objective.latency and (np.isfinite(read_rate) or np.isfinite(write_rate)):
                times = read / read_rate, write / write_rate
                both = times[0] + times[1] if p.shares_port[idx, 0] else np.maximum(*times)
                latency = np.maximum(latency, both / traffic.instances[idx])
        return energy, latency, traffic.read[0] + traffic.write[0]

    def score(self, traffic: Traffic) -> FloatArray | float:
        """The objective's value."""
        energy, latency, main_bytes = self.parts(traffic)
        return self.objective.score(energy, latency, main_bytes)
