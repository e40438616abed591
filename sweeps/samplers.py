"""Samplers: which combinations of a design space are run.

A sampler is asked for combinations until it has no more, and told what came out of each. Every choice
follows from the seed, so that running again asks for the same points in the same order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from ..archdsl import SweepError
from .space import Space
from .spec import GridSampler, Nsga2Sampler, RandomSampler
from .store import InputValue

Inputs = tuple[tuple[str, InputValue], ...]
IsAllowed = Callable[[Inputs], bool]

MAX_SHUFFLED = 1 << 20
MAX_DRAWS_PER_POINT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a sampler learns of a combination.

    Attributes:
        objectives: Values to minimise; empty without a result.
        penalty: 0 for a design that counts; larger for one that is further from counting.
    """

    objectives: tuple[float, ...]
    penalty: float


class PointSampler(Protocol):
    """Proposes combinations."""

    def ask(self) -> Sequence[Inputs]:
        """The next combinations; empty when there are no more."""
        ...

    def tell(self, outcomes: Iterable[Outcome]) -> None:
        """What came out of the last ones, in their order."""
        ...


def make_sampler(
    options: GridSampler | RandomSampler | Nsga2Sampler, space: Space, num_objectives: int, is_allowed: IsAllowed
) -> PointSampler:
    """The sampler that a specification asks for.

    Args:
        options: Its `sampler` section.
        space: The design space.
        num_objectives: Number of objectives.
        is_allowed: Whether a combination satisfies the constraints that can be decided before it runs.

    Raises:
        SweepError: NSGA-II is asked for and pymoo is not installed.
    """
    match options:
        case GridSampler():
            return _Once(lambda: [space.inputs(space.digits(i)) for i in range(space.num_points)])
        case RandomSampler():
            return _Once(lambda: draw(space, options.seed, options.points, is_allowed))
        case Nsga2Sampler():
            return _Nsga2(options, space, num_objectives)


class _Once:
    """A sampler that knows all its combinations at once."""

    def __init__(self, combinations: Callable[[], list[Inputs]]) -> None:
        self._combinations: Callable[[], list[Inputs]] | None = combinations

    def ask(self) -> Sequence[Inputs]:
        combinations, self._combinations = self._combinations, None
        return combinations() if combinations else ()

    def tell(self, outcomes: Iterable[Outcome]) -> None:
        """Learns nothing."""


def draw(space: Space, seed: int, count: int, is_allowed: IsAllowed) -> list[Inputs]:
    """Distinct random combinations that are allowed, uniformly.

    A larger `count` starts with the same combinations. Fewer come back when the space has no more of
    them, or when next to none is allowed.

    Args:
        space: The design space.
        seed: The seed.
        count: How many to draw.
        is_allowed: Whether a combination may be drawn.
    """
    found: list[Inputs] = []
    for grid_idx in _shuffled(space.num_points, seed, MAX_DRAWS_PER_POINT * count):
        inputs = space.inputs(space.digits(grid_idx))
        if is_allowed(inputs):
            found.append(inputs)
            if len(found) == count:
                break
    return found


def _shuffled(size: int, seed: int, max_draws: int) -> Iterator[int]:
    """Numbers below `size` in random order, each once; of a large range only some.

    SHA-256 rather than a library's generator: the order is the same with every version of everything.
    """
    if size <= MAX_SHUFFLED:
        yield from sorted(range(size), key=lambda idx: _hash(seed, idx))
        return
    seen: set[int] = set()
    for draw_idx in range(max_draws):
        grid_idx = _hash(seed, draw_idx) % size
        if grid_idx not in seen:
            seen.add(grid_idx)
            yield grid_idx


def _hash(seed: int, index: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}:{index}".encode()).digest(), "big")


class _Nsga2:
    """NSGA-II over the index of the value on each axis.

    Source: K. Deb, A. Pratap, S. Agarwal, T. Meyarivan, "A fast and elitist multiobjective genetic
    algorithm: NSGA-II", IEEE Transactions on Evolutionary Computation 6(2), 2002; implementation: pymoo.
    """

    def __init__(self, options: Nsga2Sampler, space: Space, num_objectives: int) -> None:
        self._space = space
        self._free = [i for i, axis in enumerate(space.axes) if len(axis.values) > 1]
        self._algorithm = _pymoo_algorithm([len(space.axes[i].values) for i in self._free], num_objectives, options)
        self._num_objectives = num_objectives
        self._population: Any = None  # of pymoo's own type
        self._is_asked = False

    def ask(self) -> Sequence[Inputs]:
        if not self._free:  # one combination: nothing to evolve
            is_first, self._is_asked = not self._is_asked, True
            return [self._space.inputs([0] * len(self._space.axes))] if is_first else ()
        if not self._algorithm.has_next():
            return ()
        self._population = self._algorithm.ask()
        if self._population is None or len(self._population) == 0:
            return ()
        return [self._space.inputs(self._digits(genes)) for genes in self._population.get("X")]

    def tell(self, outcomes: Iterable[Outcome]) -> None:
        if not self._free:
            return
        nothing = (0.0,) * self._num_objectives  # never compared: its penalty puts the point behind all others
        told = list(outcomes)
        values = np.array([outcome.objectives if outcome.penalty == 0 else nothing for outcome in told])
        penalties = np.array([[outcome.penalty] for outcome in told])
        known = _pymoo("problems.static").StaticProblem(self._algorithm.problem, F=values, G=penalties)
        _pymoo("core.evaluator").Evaluator().eval(known, self._population)
        self._algorithm.tell(infills=self._population)

    def _digits(self, genes: Sequence[float]) -> list[int]:
        digits = [0] * len(self._space.axes)
        for axis_idx, gene in zip(self._free, genes, strict=True):
            digits[axis_idx] = round(gene)
        return digits


def _pymoo_algorithm(sizes: Sequence[int], num_objectives: int, options: Nsga2Sampler) -> Any:
    """NSGA-II set up over whole numbers `0 .. size - 1`."""
    repair = _pymoo("operators.repair.rounding").RoundingRepair()
    problem = _pymoo("core.problem").Problem(
        n_var=len(sizes),
        n_obj=num_objectives,
        n_ieq_constr=1,
        xl=np.zeros(len(sizes), dtype=int),
        xu=np.array(sizes, dtype=int) - 1,
        vtype=int,
    )
    algorithm = _pymoo("algorithms.moo.nsga2").NSGA2(
        pop_size=options.population,
        sampling=_pymoo("operators.sampling.rnd").IntegerRandomSampling(),
        crossover=_pymoo("operators.crossover.sbx").SBX(repair=repair),
        mutation=_pymoo("operators.mutation.pm").PM(repair=repair),
        eliminate_duplicates=True,
    )
    algorithm.setup(problem, termination=("n_gen", options.generations), seed=options.seed, verbose=False)
    return algorithm


def _pymoo(module: str) -> Any:
    """A module of pymoo, which is optional and has no type stubs."""
    try:
        return import_module(f"pymoo.{module}")
    except ImportError as err:
        raise SweepError("sampler nsga2 needs pymoo; install it with: pip install 'tileloom[opt]'") from err
