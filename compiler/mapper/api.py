"""Mapping search for users: one op on one architecture, or one op on many of the same shape."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...archdsl import CompileError, Infeasible, Mapping, Op, SpatialArch, Tensor, ToolkitError
from ...models import (
    CONVENTIONS,
    ArchNumbers,
    Convention,
    Fidelity,
    Hierarchy,
    OpEstimate,
    estimate_op,
    hierarchy_of,
    prices_of,
    resolve,
    with_pass_times,
)
from .build import build_mapping
from .candidates import Budget, Candidate, Outcome
from .infeasible import explain_infeasible
from .objective import Objective, Scorer, parse_objective
from .problem import Constraints, Problem
from .search import Search, least_of_all
from .tables import Tables

DEFAULT_BUDGET = 20_000_000
"""Inner tilings and partial outer ones looked at for one op before the search ends with a gap; a count, so that results
can be reproduced."""
POOL = 24
"""Mappings of each kind that are compared under the detailed latency."""
_ROUNDING = 1e-9
"""By how much scores may differ that were added up in different orders."""


_Shape = tuple[tuple[tuple[str, int], ...], tuple[Tensor, ...], Hierarchy, tuple[float, ...], int]
"""What the tables of a search depend on: dims and tensors of the op, hierarchy, capacities below the fan-outs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingResult:
    """The best mapping found for one op.

    Attributes:
        op: The op.
        mapping: The mapping.
        estimate: Its estimate.
        objective: The objective that was minimised.
        score: The objective's value.
        proved_optimal: No mapping of the searched space scores better. The space: per dim all tilings whose inner
            tiles divide the next outer one, the outermost loop of a dim ragged where it must be; all loop orders;
            every placement and bypass that the hardware allows; all spatial assignments, several dims to an axis.
            What is left out is listed in README.md of `compiler`.
        space_size: Mappings (spatial and inner tilings) that the answer covers, those ruled out by bounds included.
        gap: How much better a mapping could still be, relative to the bound; 0 when proved.
    """

    op: Op
    mapping: Mapping
    estimate: OpEstimate
    objective: str
    score: float
    proved_optimal: bool
    space_size: int
    gap: float


def group_key(arch: SpatialArch) -> tuple[object, ...]:
    """Equal for architectures that share every count and every table of the search.

    Counts do not depend on capacities, bandwidths or energies; the tables of inner tilings depend on the
    capacities below the fan-outs.
    """
    hierarchy = hierarchy_of(arch)
    return (hierarchy, _inner_capacities(hierarchy, _capacities(arch)))


def _capacities(arch: SpatialArch) -> tuple[float, ...]:
    """Bytes that tiles may take per level."""
    return tuple(
        (np.inf if m.capacity_bytes is None else float(m.capacity_bytes)) / (2 if m.double_buffered else 1)
        for m in arch.memories
    )


def _inner_capacities(hierarchy: Hierarchy, capacities: Sequence[float]) -> tuple[float, ...]:
    """Capacities with those outside all fan-outs left open."""
    return tuple(
        np.inf if level.num_fanouts == 0 else capacity
        for level, capacity in zip(hierarchy.levels, capacities, strict=True)
    )


class Mapper:
    """Searches mappings and keeps what equal ops and equally shaped architectures share.

    What it returns for an op and an architecture does not depend on what it was asked before.

    Args:
        objective: `energy`, `latency`, `edp`, `main_memory_bytes` or a weighted set (`energy=2,latency=1`).
        convention: Counting convention, by name or as switches.
        fidelity: Latency fidelity of estimates and of objectives that include latency.
        constraints: What the user fixes.
        budget: Inner tilings and partial outer ones looked at per op before the search ends with a gap.
        time_limit_s: Time per op after which the search ends with a gap; such results cannot be reproduced.
    """

    def __init__(
        self,
        objective: str = "energy",
        *,
        convention: str | Convention = "tileloom",
        fidelity: Fidelity = "throughput",
        constraints: Constraints | None = None,
        budget: int = DEFAULT_BUDGET,
        time_limit_s: float | None = None,
    ) -> None:
        self.objective: Objective = parse_objective(objective)
        self.convention = _convention(convention)
        self.fidelity: Fidelity = fidelity
        self.constraints = constraints or Constraints()
        self.budget = budget
        self.time_limit_s = time_limit_s
        self._problems: dict[_Shape, Problem] = {}
        self._tables: dict[_Shape, Tables] = {}
        self._results: dict[object, MappingResult | Infeasible] = {}
        self._outcomes: dict[object, Outcome] = {}

    def map_op(self, op: Op, arch: SpatialArch, *, numbers: ArchNumbers | None = None) -> MappingResult | Infeasible:
        """The best mapping of an op, or why there is none.

        Raises:
            CompileError: A constraint names a dim, level, axis or tensor that is not there.
            ModelError: The architecture cannot run the op's datatype.
        """
        resolved = resolve(arch) if numbers is None else numbers
        found = self._found(op, arch, resolved)
        if isinstance(found, Infeasible):
            return replace(found, op=op.name)
        estimate = estimate_op(
            op, found.mapping, arch, convention=self.convention, fidelity=self.fidelity, numbers=resolved
        )
        return replace(found, op=op, estimate=estimate)

    def _found(self, op: Op, arch: SpatialArch, numbers: ArchNumbers) -> MappingResult | Infeasible:
        """The answer for an equal op on an architecture with equal prices, whatever else differs."""
        shape = self._shape_of(op, arch)
        scorer = Scorer(
            self.objective, self._problem_of(op, shape).with_latch(prices_of(numbers, op.datatype)), op.macs
        )
        key = (
            shape,
            tuple(getattr(scorer.prices, n).tobytes() for n in self._price_names()),
            self._arch_key(arch),
            # Infeasible answers tell the whole capacity, of which prices show half where it is double-buffered.
            tuple(memory.double_buffered for memory in arch.memories),
        )
        if key not in self._results:
            self._results[key] = self._search(op, arch, numbers, shape, scorer)
        return self._results[key]

    def map_ahead(self, op: Op, archs: Sequence[SpatialArch]) -> None:
        """Maps an op on several architectures, so that `map_op` has the answers ready.

        Tables are dropped after the last of them: mapping one op on all architectures, then the next op, needs much
        less memory than the other way round. Whatever goes wrong shows when `map_op` is called.
        """
        for arch in archs:
            with contextlib.suppress(ToolkitError):
                self._found(op, arch, resolve(arch))
        self._tables.clear()
        self._outcomes.clear()

    def _price_names(self) -> tuple[str, ...]:
        """Prices that can change which mapping is best."""
        names = ["read_pj", "write_pj", "capacity_bytes", "mac_pj"]
        if self.objective.latency:
            names += ["read_bytes_per_cycle", "write_bytes_per_cycle", "shares_port", "cycles_per_step"]
        return tuple(names)

    def _arch_key(self, arch: SpatialArch) -> object:
        return arch if self._is_detailed else None

    @property
    def _is_detailed(self) -> bool:
        return self.fidelity == "detailed" and self.objective.latency > 0

    def _shape_of(self, op: Op, arch: SpatialArch) -> _Shape:
        hierarchy = hierarchy_of(arch)
        return (op.dims, op.tensors, hierarchy, _inner_capacities(hierarchy, _capacities(arch)), hierarchy.sum_bits(op))

    def _problem_of(self, op: Op, shape: _Shape) -> Problem:
        if shape not in self._problems:
            problem = Problem(op=op, memories=shape[2], convention=self.convention, constraints=self.constraints)
            problem.check_constraints()
            self._problems[shape] = problem
        return self._problems[shape]

    def _tables_of(self, op: Op, shape: _Shape) -> Tables:
        if shape not in self._tables:
            problem = self._problem_of(op, shape)
            latch = () if problem.latch is None else (np.inf,)
            self._tables[shape] = Tables(problem, (*shape[3], *latch))
        return self._tables[shape]

    def _search(
        self, op: Op, arch: SpatialArch, numbers: ArchNumbers, shape: _Shape, scorer: Scorer
    ) -> MappingResult | Infeasible:
        tables = self._tables_of(op, shape)
        deadline = np.inf if self.time_limit_s is None else time.perf_counter() + self.time_limit_s

        def value(candidate: Candidate) -> float:
            mapping = build_mapping(tables.problem, tables.spread, candidate)
            found = estimate_op(op, mapping, arch, convention=self.convention, numbers=numbers)
            return float(self.objective.score(found.energy_pj, found.latency_cycles, found.main_memory_bytes))

        first = None if self._is_detailed else self._without_main_memory_limit(shape, tables, scorer, deadline)
        if first is not None:
            # More bandwidth is never slower: what is best without its limit, and no worse with it, is best with it.
            candidate = replace(first.best[0], score=value(first.best[0]))
            if candidate.score <= first.bound * (1 + _ROUNDING):
                return self._result(op, arch, numbers, tables, scorer, first, [candidate])
            budget = Budget(self.budget, deadline)
            outcome = Search(tables, scorer, budget=budget, start=candidate).run()
            return self._result(op, arch, numbers, tables, scorer, outcome, outcome.best)
        if self._is_detailed:
            scorer = replace(scorer, prices=with_pass_times(scorer.prices, arch, op))
        search = Search(tables, scorer, budget=Budget(self.budget, deadline), keep=POOL if self._is_detailed else 1)
        outcome = search.run()
        if not outcome.best:
            return explain_infeasible(tables, arch.memories, op.name, is_complete=outcome.is_complete)
        candidates = list(outcome.best)
        if self._is_detailed:
            # Of mappings with one throughput, those that move little leave few transfers exposed.
            lean = replace(self.objective, energy=self.objective.energy + self.objective.latency)
            budget = Budget(self.budget, deadline)
            candidates += Search(tables, replace(scorer, objective=lean), budget=budget, keep=POOL).run().best
        return self._result(op, arch, numbers, tables, scorer, outcome, candidates)

    def _without_main_memory_limit(
        self, shape: _Shape, tables: Tables, scorer: Scorer, deadline: float
    ) -> Outcome | None:
        """The search as if main memory had any bandwidth, which architectures that differ in it share.

        None where that is no easier, or ended without a proof.
        """
        if not self.objective.latency:
            return None
        prices = scorer.prices
        read, write = prices.read_bytes_per_cycle.copy(), prices.write_bytes_per_cycle.copy()
        read[0], write[0] = np.inf, np.inf
        free = replace(scorer, prices=replace(prices, read_bytes_per_cycle=read, write_bytes_per_cycle=write))
        key = (shape, tuple(getattr(free.prices, name).tobytes() for name in self._price_names()))
        if key not in self._outcomes:
            self._outcomes[key] = Search(tables, free, budget=Budget(self.budget, deadline)).run()
        found = self._outcomes[key]
        return found if found.is_complete and found.best else None

    def _result(
        self,
        op: Op,
        arch: SpatialArch,
        numbers: ArchNumbers,
        tables: Tables,
        scorer: Scorer,
        outcome: Outcome,
        candidates: Sequence[Candidate],
    ) -> MappingResult:
        """The candidate whose estimate scores best, the first of equals."""
        best: tuple[float, Mapping, OpEstimate] | None = None
        for candidate in candidates:
            mapping = build_mapping(tables.problem, tables.spread, candidate)
            estimate = estimate_op(
                op, mapping, arch, convention=self.convention, fidelity=self.fidelity, numbers=numbers
            )
            score = float(self.objective.score(estimate.energy_pj, estimate.latency_cycles, estimate.main_memory_bytes))
            if best is None or score < best[0]:
                best = (score, mapping, estimate)
        assert best is not None
        score, mapping, estimate = best
        bound = outcome.bound
        is_proved = outcome.is_complete and score <= bound * (1 + _ROUNDING)
        if score < bound * (1 - _ROUNDING):
            # The search counts too much for some mappings outside its space (README.md). This one is in fact cheaper,
            # and so may others be.
            bound, is_proved = min(score, least_of_all(tables, scorer)), False
        return MappingResult(
            op=op,
            mapping=mapping,
            estimate=estimate,
            objective=self.objective.name,
            score=score,
            proved_optimal=is_proved,
            space_size=outcome.num_covered,
            gap=0.0 if is_proved else score / bound - 1,
        )


def map_op(
    op: Op,
    arch: SpatialArch,
    objective: str = "energy",
    *,
    convention: str | Convention = "tileloom",
    fidelity: Fidelity = "throughput",
    constraints: Constraints | None = None,
    budget: int = DEFAULT_BUDGET,
    time_limit_s: float | None = None,
) -> MappingResult | Infeasible:
    """Searches the best mapping of one op on one architecture; see `Mapper`."""
    mapper = Mapper(
        objective,
        convention=convention,
        fidelity=fidelity,
        constraints=constraints,
        budget=budget,
        time_limit_s=time_limit_s,
    )
    return mapper.map_op(op, arch)


def _convention(convention: str | Convention) -> Convention:
    if isinstance(convention, Convention):
        return convention
    if convention not in CONVENTIONS:
        raise CompileError(f"unknown convention '{convention}'; use one of {', '.join(CONVENTIONS)}")
    return CONVENTIONS[convention]
