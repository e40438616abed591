"""Times of exchanges between chips, by the collectives of `models.systems` on the graph of the system.

Sums are TensorRT-LLM's all-reduce where it has kernels for so many chips of that kind in one node; everything else is NCCL,
or, for chips that NCCL's cost model does not know, the links alone. Whatever takes another's place is told in a note.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

import numpy as np

from ...archdsl import ModelError, System
from ..gpu.calibrations import Mode
from ..gpu.times import Floats, Ints
from ..systems import CollectiveOp, Collectives, Machine, has_calibration, make_machine
from .ops import Exchange

Library = Literal["trtllm", "nccl", "ideal"]
TITLES: Final[Mapping[Library, str]] = {"trtllm": "TensorRT-LLM's all-reduce", "nccl": "NCCL", "ideal": "links alone"}
CALIBRATIONS: Final[Mapping[Library, str]] = {"trtllm": "custom_allreduce", "nccl": "nccl", "ideal": "nccl"}
"""Names of the constants of each library; `models.systems.constants` says why they are separate sets."""

COLLECTIVES: Final[Mapping[str, CollectiveOp]] = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "all_to_all": "all_to_all",
    "transfer": "point_to_point",
}
"""By kind of exchange."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeTimes:
    """What one run of an exchange costs, per step.

    Attributes:
        time_s: Time `[n]` [s].
        sent_bytes: Bytes that a chip sends `[n]`.
        notes: What was borrowed, or priced by another library.
    """

    time_s: Floats
    sent_bytes: Floats
    notes: tuple[str, ...]


def exchange_times(op: Exchange, system: System, mode: Mode = "datasheet") -> ExchangeTimes:
    """Time of one run of an exchange, one batch per size of the group.

    The group is the first chips of the system. A transfer goes from the first to the last of them: a group larger than a
    node passes on over the links out of it.

    Args:
        op: The exchange.
        system: Whose links it takes.
        mode: Where the constants come from; `calibrated` where the system or one like it has a calibration.

    Raises:
        ModelError: No links lead from one chip to another.
    """
    group, payload = op.group, op.payload_bytes
    time_s, sent = np.zeros(len(group)), np.zeros(len(group))
    notes: list[str] = []
    for size in np.unique(group):
        rows = (group == size) & (payload > 0) & (op.copies > 0)
        if size < 2 or not rows.any():
            continue
        sizes = np.ceil(payload[rows] - 1e-6).astype(np.int64)
        time_s[rows], told = _times(op, int(size), sizes, system, mode)
        notes += told
        share = 1.0 if op.kind == "transfer" else (size - 1) / size
        sent[rows] = payload[rows] * share * (2 if op.kind == "all_reduce" else 1)
    return ExchangeTimes(time_s=time_s, sent_bytes=sent, notes=tuple(dict.fromkeys(notes)))


def _times(op: Exchange, size: int, sizes_bytes: Ints, system: System, mode: Mode) -> tuple[Floats, list[str]]:
    """Time by the first library that serves these chips, and what has to be said."""
    libraries: tuple[Library, ...] = ("trtllm", "nccl", "ideal") if op.kind == "all_reduce" else ("nccl", "ideal")
    ends = (system.chip_names[0], system.chip_names[size - 1]) if op.kind == "transfer" else ()
    notes: list[str] = []
    for library, other in zip(libraries, (*libraries[1:], None), strict=True):
        machine = _machine(system, mode, CALIBRATIONS[library])
        collectives = Collectives(
            op=COLLECTIVES[op.kind],
            sizes_bytes=sizes_bytes,
            num_chips=len(ends) or size,
            chips=ends,
            library=library,
        )
        try:
            times = collectives.times(machine)
        except ModelError as error:
            if other is None:
                raise
            notes.append(f"{error}; priced by {TITLES[other]}")
            continue
        return times.time_s, [*notes, *machine.notes, *times.notes]
    raise AssertionError("the last library raised or returned")


@lru_cache(maxsize=64)
def _machine(system: System, mode: Mode, calibration: str) -> Machine:
    """The system with a calibration where there is one for it, else with published constants and a note."""
    if mode == "datasheet":
        return make_machine(system)
    if has_calibration(system, calibration):
        return make_machine(system, "calibrated", calibration)
    found = make_machine(system)
    note = f"{system.name}: no calibration '{calibration}' for it or any system like it; its exchanges have published constants"
    return Machine(system=system, mode="datasheet", calibration="", constants=found.constants, notes=(note,))
