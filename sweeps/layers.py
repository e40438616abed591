"""Where the cycles, bytes and joules of a replayed program go, op by op of the network ("layer" as networks have them).

An op's time is from the end of the op before to its own last store or walk, so that the times of all ops add up to the
program's. Within it every cycle counts for the first of these that works in it: the PE array, the vector unit, the
bus, PRELOAD, the store unit; what is left is waiting for memory's latency or for tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from ..archdsl import CompileError, OpRecord, ProgramImage, nearest_hint
from .tilings import Tiling, tiling_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ..models import Part, Replay

    Ints = npt.NDArray[np.int64]

Activity = Literal["PE array", "vector unit", "bus", "weight switch", "store unit", "waiting"]
ACTIVITIES: Final[tuple[Activity, ...]] = ("PE array", "vector unit", "bus", "weight switch", "store unit", "waiting")
ALU_TAIL_CYCLES: Final = 4
"""From the read of ALU's last vector to its last sum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One op of a program.

    Attributes:
        op: What the manifest says of it.
        program: Name of its program.
        first_cycle, last_cycle: Its time, the last one excluded.
        activity_cycles: What its cycles went into; they add up to its cycles.
        busy_cycles: Cycles in which each works, whatever else does.
        read_bytes, written_bytes: Main-memory traffic, in whole beats.
        energy: In pJ, as a tree.
        tiling: How it was cut.
        num_pes: PEs of the array.
    """

    op: OpRecord
    program: str
    first_cycle: int
    last_cycle: int
    activity_cycles: dict[Activity, int]
    busy_cycles: dict[Activity, int]
    read_bytes: int
    written_bytes: int
    energy: Part
    tiling: Tiling
    num_pes: int

    @property
    def cycles(self) -> int:
        """Cycles of its time."""
        return self.last_cycle - self.first_cycle

    @property
    def bottleneck(self) -> Activity:
        """What works in most of its cycles, the first of equals; waiting where nothing works in more of them."""
        return max(ACTIVITIES, key=lambda activity: self.busy_cycles[activity])

    @property
    def bottleneck_share(self) -> float:
        """Share of its cycles in which the bottleneck works, or in which nothing does, 0 to 1."""
        return self.busy_cycles[self.bottleneck] / self.cycles if self.cycles else 0.0

    @property
    def utilization(self) -> float:
        """Useful MACs over (PEs x cycles), 0 to 1."""
        return self.op.macs / (self.num_pes * self.cycles) if self.cycles else 0.0

    @property
    def ratio(self) -> float | None:
        """Cycles over the bound; None where there is no bound."""
        return self.cycles / self.op.bound_cycles if self.op.bound_cycles else None


def kernels_of(image: ProgramImage) -> Ints:
    """[instructions] index of the op that each belongs to; -1 for what belongs to none."""
    import numpy as np

    found = np.full(len(image.program), -1, dtype=np.int64)
    for idx, op in enumerate(image.manifest.ops):
        found[op.first_instruction : op.first_instruction + op.num_instructions] = idx
    for idx, op in enumerate(image.manifest.ops):
        for part in op.loads:
            found[part.first : part.first + part.num] = idx
    return found


def layers_of(image: ProgramImage, found: Replay, program: str) -> list[Layer]:
    """The ops of a replayed image.

    Args:
        image: The image.
        found: Its replay.
        program: Its name.

    Raises:
        CompileError: The manifest names no ops.
    """
    from ..models import AccessPrices, count_accesses

    ops = image.manifest.ops
    if not ops:
        raise CompileError(f"{program}: its manifest names no ops, so there is nothing to explain by op")
    kernels = kernels_of(image)
    ends = _ends(image, found, kernels)
    shares, busy = _activities(image, found, ends)
    accesses = count_accesses(image.array, image.program)
    groups = accesses.grouped(kernels, len(ops))
    prices = AccessPrices(image.arch)
    begins = [0, *ends[:-1]]
    return [
        Layer(
            op=op, program=program, first_cycle=begins[idx], last_cycle=ends[idx], activity_cycles=shares[idx],
            busy_cycles=busy[idx],
            read_bytes=int(groups.memory_read_bytes[idx]), written_bytes=int(groups.memory_written_bytes[idx]),
            energy=prices.energy(groups, idx), tiling=tiling_of(image, idx, kernels, accesses),
            num_pes=image.array.rows * image.array.cols,
        )
        for idx, op in enumerate(ops)
    ]  # fmt: skip


def network_layers(images: Mapping[str, ProgramImage], replays: Mapping[str, Replay]) -> list[Layer]:
    """The ops of all programs of a network, each program's cycles counted from its own start.

    Args:
        images: Its programs, by name.
        replays: Of each.

    Raises:
        CompileError: A manifest names no ops.
    """
    return [layer for name, image in images.items() for layer in layers_of(image, replays[name], name)]


def find_layer(layers: Sequence[Layer], name: str) -> Layer:
    """The layer of a number (from 1), or of a name, of a node, or of a part of either that no other has.

    Raises:
        CompileError: There is none, or several.
    """
    if name.isdecimal() and 1 <= int(name) <= len(layers):
        return layers[int(name) - 1]
    exact = [layer for layer in layers if name in (layer.op.name, *layer.op.nodes)]
    part = [layer for layer in layers if any(name in known for known in (layer.op.name, *layer.op.nodes))]
    found = exact or part
    if len(found) == 1:
        return found[0]
    if found:
        raise CompileError(f"'{name}' stands for {len(found)} ops; give one's number, from 1 to {len(layers)}")
    # Names that a converter made can be hundreds of characters long, so the others are not listed.
    hint = nearest_hint(name, [layer.op.name for layer in layers], show=0)
    raise CompileError(f"there is no op '{name}'{hint}; give a number from 1 to {len(layers)}")


def _ends(image: ProgramImage, found: Replay, kernels: Ints) -> list[int]:
    """Last cycle of each op's walks and stores, never before that of an earlier op; the last is that of the program."""
    import numpy as np

    is_work = np.array([insn.name in ("COMPUTE", "ALU", "ST") for insn in image.program])
    ends = np.zeros(len(image.manifest.ops), dtype=np.int64)
    chosen = is_work & (kernels >= 0)
    np.maximum.at(ends, kernels[chosen], found.end_cycles[chosen])
    ends = np.maximum.accumulate(ends)
    ends[-1] = found.cycles
    return [int(end) for end in ends]


def working_spans(image: ProgramImage, found: Replay) -> dict[Activity, Ints]:
    """[spans, 2] per activity the cycles, last one excluded, in which its instructions move something."""
    import numpy as np

    array = image.array
    cycles_per_beat = array.cycles_per_beat
    spans: dict[Activity, list[tuple[int, int]]] = {activity: [] for activity in ACTIVITIES[:-1]}
    for insn, start, end in zip(image.program, found.issue_cycles.tolist(), found.end_cycles.tolist(), strict=True):
        match insn.name:
            case "COMPUTE":
                spans["PE array"].append((start, end - (array.rows + array.cols + 1)))
            case "ALU":
                spans["vector unit"].append((start, end - ALU_TAIL_CYCLES))
            case "PRELOAD":
                spans["weight switch"].append((max(start, end - array.rows), end))
            case "ST":
                spans["bus" if insn["space"] == 0 else "store unit"].append((start, end))
            case "LD":
                beats = insn["rows"] * insn["row_beats"]
                spans["bus"].append((max(start, end - beats * cycles_per_beat), end))
            case _:
                pass
    return {name: np.array(some, dtype=np.int64).reshape(-1, 2) for name, some in spans.items()}


def _activities(
    image: ProgramImage, found: Replay, ends: Sequence[int]
) -> tuple[list[dict[Activity, int]], list[dict[Activity, int]]]:
    """Per op what each of its cycles went into, and in how many each activity is at work."""
    import numpy as np

    spans = working_spans(image, found)
    times = np.unique(np.concatenate([np.array([0, *ends]), *(some.ravel() for some in spans.values())]))
    times = times[(times >= 0) & (times <= found.cycles)]
    lengths = np.diff(times)
    layer = np.searchsorted(np.array(ends), times[:-1], side="right")
    table = np.zeros((2, len(ends), len(ACTIVITIES)), dtype=np.int64)
    state = np.full(len(lengths), ACTIVITIES.index("waiting"))
    for idx, activity in reversed(list(enumerate(ACTIVITIES[:-1]))):
        some = np.clip(spans[activity], 0, found.cycles)
        some = some[some[:, 1] > some[:, 0]]
        level = np.zeros(len(times), dtype=np.int64)
        np.add.at(level, np.searchsorted(times, some[:, 0]), 1)
        np.add.at(level, np.searchsorted(times, some[:, 1]), -1)
        is_busy = np.cumsum(level)[:-1] > 0
        state[is_busy] = idx
        np.add.at(table[1, :, idx], layer[is_busy], lengths[is_busy])
    np.add.at(table[0], (layer, state), lengths)
    table[1, :, -1] = table[0, :, -1]  # waiting is what nothing else works in
    shares, busy = ([dict(zip(ACTIVITIES, row, strict=True)) for row in rows] for rows in table.tolist())
    return shares, busy
