"""Cycles of a kernel on the tensor PE array from its loads, units and stores, without its instructions.

The total is that of a max-plus recurrence over units (`closed_core`), not of one formula: each step's loads, preload,
computation and store begin at the latest of what they wait for. Nothing is fitted. It is cut into parts that are formulas of the shape alone, and what is left:

- start-up: until the first step's weights are there: fetch, the memory's latency, the first input and weights;
- steady: what the busiest resource needs from then on, if it never waits. A step computes for
  `max(vectors, rows + 1)` cycles, since a preload takes `rows` cycles and begins in the cycle behind the swap before;
  the bus takes `cycles_per_beat` cycles a beat, of loads and stores; the store unit takes
  `max(num_passes, beats * cycles_per_beat)` cycles a vector;
- exposed latency: what waiting adds to it: loads that cannot run ahead (slots of weights and input tiles, loads and
  requests in flight), halves of the accumulators that wait for stores, fetch that waits for a full queue;
- drain: from when everything but the last store is over: through the array, the last store, the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from ...archdsl import OUT_DEPTH, ModelError, PeArray
from ..parts import Part, max_of, sum_of

if TYPE_CHECKING:
    from .closed_core import Batch

Ints = npt.NDArray[np.int64]
Bottleneck = Literal["compute", "switch", "load", "store"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KernelTiming:
    """A kernel's structure: units, with loads in front of them and stores behind.

    A step is a PRELOAD and a COMPUTE. The steps of a unit stream the same number of vectors through the array. The first load
    in front of a unit waits for the unit before. Loads are counted from 1, and 0 stands for none.

    Attributes:
        load_rows, load_beats: Rows and beats of a row, [loads].
        loads_end: How many loads stand in front of a unit and those before it, [units].
        steps, vectors: Steps, and vectors of each, [units].
        begins_tile: Whether the unit is the first on its input tile, [units].
        wants_weights, wants_input, wants_parameters: The load that its first preload, its first and its last computation
            wait for, [units].
        wants_stores: How many stores must have ended before its first computation, [units].
        num_stores: Stores behind it, of as many vectors, [units].
        store_beats: Beats of a vector, [stores].
    """

    load_rows: Ints
    load_beats: Ints
    loads_end: Ints
    steps: Ints
    vectors: Ints
    begins_tile: Ints
    wants_weights: Ints
    wants_input: Ints
    wants_parameters: Ints
    wants_stores: Ints
    num_stores: Ints
    store_beats: Ints

    @property
    def num_steps(self) -> int:
        """Steps of the kernel."""
        return int(self.steps.sum())

    @property
    def store_vectors(self) -> Ints:
        """Vectors of each store, [stores]."""
        return np.repeat(self.vectors, self.num_stores)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCycles:
    """Cycles of kernels, each at every timing of main memory, [kernels, timings].

    Attributes:
        cycles: All.
        start_up: Until the first weights are there.
        vectors, switch: What the execute unit takes for vectors, and what changing weights adds.
        load, store: What the bus takes for loads after the first step's, and for stores before the last.
        store_unit: What the store unit takes for those stores.
        exposed: What waiting adds to the largest of vectors + switch, load + store and store_unit.
        drain: After all but the last store.
    """

    cycles: Ints
    start_up: Ints
    vectors: Ints
    switch: Ints
    load: Ints
    store: Ints
    store_unit: Ints
    exposed: Ints
    drain: Ints

    @property
    def steady(self) -> Ints:
        """What the busiest resource needs."""
        return np.maximum(np.maximum(self.vectors + self.switch, self.load + self.store), self.store_unit)

    def bottleneck(self, kernel_idx: int = 0, timing_idx: int = 0) -> Bottleneck:
        """The resource that the steady part is spent on."""
        at = (kernel_idx, timing_idx)
        steady = self.steady[at]
        if self.vectors[at] + self.switch[at] == steady:
            return "switch" if self.switch[at] > self.vectors[at] else "compute"
        if self.store_unit[at] == steady:
            return "store"
        return "load" if self.load[at] >= self.store[at] else "store"

    def part(self, kernel_idx: int = 0, timing_idx: int = 0) -> Part:
        """One of them as a tree."""

        def leaf(name: str, values: Ints) -> Part:
            return Part(name=name, amount=float(values[kernel_idx, timing_idx]), unit="cycles")

        compute = sum_of("compute", "cycles", [leaf("vectors", self.vectors), leaf("switch", self.switch)])
        bus = sum_of("bus", "cycles", [leaf("load", self.load), leaf("store", self.store)])
        steady = max_of("steady", "cycles", [compute, bus, leaf("store unit", self.store_unit)])
        ends = [leaf("exposed latency", self.exposed), leaf("drain", self.drain)]
        return sum_of("kernel", "cycles", [leaf("start-up", self.start_up), steady, *ends])


def time_kernels(
    kernels: Sequence[KernelTiming],
    arrays: Sequence[PeArray],
    *,
    latency_cycles: Sequence[int] | Ints,
    cycles_per_beat: Sequence[int] | Ints,
) -> KernelCycles:
    """Cycles of many kernels, each on its array, at many timings of main memory.

    Args:
        kernels: [kernels] as `kernel_timing` derives them for an array.
        arrays: [kernels] the array of each.
        latency_cycles: [timings] main memory's latency, at least 0.
        cycles_per_beat: [timings] main memory's cycles per beat, at least 1.

    Raises:
        ModelError: An array whose banks have a port for reading and writing together, or too few for input and
            weights, or the two halves of sums, to stand apart.
        ValueError: The lists do not fit together.

    Limits: Units that wait for each other's banks are not modelled; replay such an array. Main memory answers after a
        fixed latency, at a fixed rate.
    """
    from .closed_core import NUM_TIMES, run_batch

    if len(kernels) != len(arrays) or len(latency_cycles) != len(cycles_per_beat):
        raise ValueError("every kernel needs one array, and every latency its cycles per beat")
    for array in arrays:
        _refuse_shared_banks(array)
    latency, beat = np.asarray(latency_cycles, dtype=np.int64), np.asarray(cycles_per_beat, dtype=np.int64)
    times = np.zeros((len(kernels), len(latency), NUM_TIMES), dtype=np.int64)
    run_batch(_packed(kernels, arrays, latency, beat), times)
    return _cut(kernels, arrays, beat, times)


def time_kernel(
    kernel: KernelTiming, array: PeArray, *, latency_cycles: int | None = None, cycles_per_beat: int | None = None
) -> Part:
    """Cycles of one kernel as a tree of parts; a batch of one.

    Args:
        kernel: As `kernel_timing` derives it for the array.
        array: The array.
        latency_cycles: Main memory's latency; the array's unless given.
        cycles_per_beat: Main memory's cycles per beat; the array's unless given.
    """
    latency = array.latency_cycles if latency_cycles is None else latency_cycles
    beat = array.cycles_per_beat if cycles_per_beat is None else cycles_per_beat
    return time_kernels([kernel], [array], latency_cycles=[latency], cycles_per_beat=[beat]).part()


def _refuse_shared_banks(array: PeArray) -> None:
    if array.is_single_port or array.scratchpad_banks == 1 or array.accumulator_banks % 2:
        raise ModelError(
            f"the closed form takes scratchpads with a port to read and one to write, several banks, and accumulators of an even"
            f" number of banks, not"
            f" {'one port' if array.is_single_port else 'two ports'}, {array.scratchpad_banks} scratchpad banks and"
            f" {array.accumulator_banks} accumulator banks; use `replay`"
        )


def _packed(kernels: Sequence[KernelTiming], arrays: Sequence[PeArray], latency: Ints, beat: Ints) -> Batch:
    from .closed_core import Batch

    machines = [
        (
            array.rows,
            array.cols,
            array.num_passes,
            OUT_DEPTH,
            array.queue_depth,
            array.loads_in_flight,
            array.requests_in_flight,
        )
        for array in arrays
    ]
    loads = [np.stack([kernel.load_rows, kernel.load_beats], axis=1) for kernel in kernels]
    units = [_unit_table(kernel) for kernel in kernels]
    stores = [kernel.store_beats for kernel in kernels]
    lengths = [[len(some) for some in tables] for tables in zip(loads, units, stores, strict=True)]
    return Batch(
        np.array(machines, dtype=np.int64).reshape(-1, 7),
        np.cumsum(np.array(lengths, dtype=np.int64).reshape(-1, 3), axis=0),
        np.concatenate([np.zeros((0, 2), dtype=np.int64), *loads]),
        np.concatenate([np.zeros((0, 9), dtype=np.int64), *units]),
        np.concatenate([np.zeros(0, dtype=np.int64), *stores]),
        np.array([_lookback(kernel) for kernel in kernels], dtype=np.int64),
        latency,
        beat,
    )


def _unit_table(kernel: KernelTiming) -> Ints:
    """A row per unit, with the columns of `closed_core`."""
    columns = (
        kernel.loads_end, kernel.steps, kernel.vectors, kernel.begins_tile, kernel.wants_weights, kernel.wants_input,
        kernel.wants_parameters, kernel.wants_stores, kernel.num_stores,
    )  # fmt: skip
    return np.stack(columns, axis=1).astype(np.int64)


def _lookback(kernel: KernelTiming) -> int:
    """How many loads may stand behind one that is waited for, and in front of what waits."""
    wants = (kernel.wants_weights, kernel.wants_input, kernel.wants_parameters)
    return max(int((kernel.loads_end - want)[want > 0].max(initial=0)) for want in wants)


def _cut(kernels: Sequence[KernelTiming], arrays: Sequence[PeArray], beat: Ints, times: Ints) -> KernelCycles:
    """Cuts totals into parts."""
    from .closed_core import CYCLES, FIRST_WEIGHTS, LAST_COMPUTE, LAST_LOAD, LAST_STORE_BUT_ONE

    work = np.array([_work(kernel, array) for kernel, array in zip(kernels, arrays, strict=True)], dtype=np.int64)
    vectors, switch, loads, stores = (np.repeat(column[:, None], len(beat), axis=1) for column in work.reshape(-1, 4).T)
    unit = np.array(
        [[_store_unit(kernel, array, int(b)) for b in beat] for kernel, array in zip(kernels, arrays, strict=True)],
        dtype=np.int64,
    ).reshape(len(kernels), len(beat))
    start_up = times[..., FIRST_WEIGHTS]
    steady_end = np.maximum(np.maximum(times[..., LAST_LOAD], times[..., LAST_COMPUTE]), times[..., LAST_STORE_BUT_ONE])
    cut = KernelCycles(
        cycles=times[..., CYCLES],
        start_up=start_up,
        vectors=vectors,
        switch=switch,
        load=loads * beat,
        store=stores * beat,
        store_unit=unit,
        exposed=steady_end - start_up,
        drain=times[..., CYCLES] - steady_end,
    )
    return replace(cut, exposed=cut.exposed - cut.steady)


def _work(kernel: KernelTiming, array: PeArray) -> tuple[int, int, int, int]:
    """Cycles of vectors and of switching weights, beats of loads after the first unit's and of stores but the last."""
    gaps = np.maximum(0, array.rows + 1 - kernel.vectors)
    # The first preload hides behind nothing, and the last switch is none.
    switch = array.rows + int(gaps @ kernel.steps) - int(gaps[-1])
    beats = kernel.load_rows * kernel.load_beats
    stores = kernel.store_vectors * kernel.store_beats
    loads = int(beats[kernel.wants_weights[0] :].sum())
    return int(kernel.vectors @ kernel.steps), switch, loads, int(stores[:-1].sum())


def _store_unit(kernel: KernelTiming, array: PeArray, cycles_per_beat: int) -> int:
    """Cycles of stores but the last: a vector goes through post-processing, and over the bus."""
    cycles = kernel.store_vectors * np.maximum(array.num_passes, kernel.store_beats * cycles_per_beat)
    return int(cycles[:-1].sum())
