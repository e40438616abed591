"""A schedule in the trace-event format that Perfetto and chrome://tracing read; one microsecond stands for a cycle.

Source: Google, "Trace Event Format", events X (slices), C (counters) and M (names).
"""

from __future__ import annotations

import json
from typing import Any, Final

from .schedules import QUEUES, UNIT_QUEUES, UNITS, Schedule, Slice

Event = dict[str, Any]
LANES: Final = 100
"""Thread numbers that a unit may use."""


def trace_text(schedule: Schedule, *, name: str, arch: str) -> str:
    """The trace as JSON: a process per queue, a track per lane of each unit, counters of queues and units.

    Args:
        schedule: What to show.
        name: Of the program.
        arch: Of the architecture.
    """
    events = [*_names(schedule), *(_slice(item) for item in schedule.slices), *_counters(schedule)]
    about = {"program": name, "architecture": arch, "cycles": schedule.replay.cycles, "unit": "1 us = 1 cycle"}
    lines = ",\n".join(json.dumps(event) for event in events)
    return f'{{"displayTimeUnit": "ns", "otherData": {json.dumps(about)}, "traceEvents": [\n{lines}\n]}}\n'


def _names(schedule: Schedule) -> list[Event]:
    events: list[Event] = []
    for idx, queue in enumerate(QUEUES):
        events.append({"ph": "M", "name": "process_name", "pid": idx + 1, "args": {"name": f"{queue} queue"}})
        events.append({"ph": "M", "name": "process_sort_index", "pid": idx + 1, "args": {"sort_index": idx}})
        events.append(_thread(idx + 1, 0, "configuration and tokens"))
    for unit_idx, unit in enumerate(UNITS):
        for lane in range(schedule.num_lanes(unit)):
            shown = unit if lane == 0 else f"{unit} (overlapping {lane + 1})"
            events.append(_thread(_process(UNIT_QUEUES[unit]), (unit_idx + 1) * LANES + lane, shown))
    return events


def _thread(process: int, thread: int, name: str) -> Event:
    return {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": name}}


def _process(queue: str) -> int:
    return QUEUES.index(queue) + 1


def _slice(item: Slice) -> Event:
    thread = 0 if item.unit is None else (UNITS.index(item.unit) + 1) * LANES + item.lane
    words = dict(word.split("=", 1) for word in item.text.split() if "=" in word)
    flags = [word for word in item.text.split()[1:] if "=" not in word]
    return {
        "ph": "X",
        "name": item.what,
        "cat": item.queue,
        "pid": _process(item.queue),
        "tid": thread,
        "ts": item.issue_cycle,
        "dur": max(1, item.end_cycle - item.issue_cycle),
        "args": {
            "instruction": item.idx,
            **words,
            "tokens": " ".join(flags),
            "dispatched": item.dispatch_cycle,
            "waited_cycles": item.issue_cycle - item.dispatch_cycle - 1,
        },
    }


def _counters(schedule: Schedule) -> list[Event]:
    events: list[Event] = []
    for queue in QUEUES:
        for cycle, level in schedule.occupancy(queue):
            events.append(_counter(f"{queue} queue", "instructions", _process(queue), cycle, level))
    for unit in UNITS:
        for cycle, level in schedule.under_way(unit):
            events.append(_counter(f"{unit} under way", "instructions", _process(UNIT_QUEUES[unit]), cycle, level))
    return events


def _counter(name: str, series: str, process: int, cycle: int, level: int) -> Event:
    return {"ph": "C", "name": name, "pid": process, "ts": cycle, "args": {series: level}}
