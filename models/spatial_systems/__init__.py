"""Spatial and statically scheduled processors: weight-stationary arrays, weights resident on chip, schedules across chips."""

from .array import ArrayTimes, TiledArray, array_times, tiled_array_of
from .placement import Placement, Stage, place
from .reach import Reach, reach_of
from .schedule import StageRun, StaticSchedule, TransferRun, schedule_faults, schedule_statically

__all__ = [
    "ArrayTimes",
    "Placement",
    "Reach",
    "Stage",
    "StageRun",
    "StaticSchedule",
    "TiledArray",
    "TransferRun",
    "array_times",
    "place",
    "reach_of",
    "schedule_faults",
    "schedule_statically",
    "tiled_array_of",
]
