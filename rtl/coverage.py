"""Line coverage of the RTL, from the file that the simulator writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..archdsl import RtlError
from .sources import DESIGN


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCoverage:
    """How much of one source file ran.

    Attributes:
        file: Name of the source file.
        num_points: Branches and blocks that are counted, over all instances of the module.
        num_covered: Those that ran at least once.
        missed_lines: Lines with a point that ran in no instance.
    """

    file: str
    num_points: int
    num_covered: int
    missed_lines: tuple[int, ...]


Points = dict[tuple[int, str, str], int]


def line_coverage(paths: Sequence[Path], *, design_only: bool = True) -> tuple[FileCoverage, ...]:
    """Reads coverage files, and adds them up.

    Args:
        paths: What `run_programs(..., coverage=path)` wrote.
        design_only: Leave out the test bench and the memory of the simulation.

    Returns:
        One entry per source file, by name.

    Raises:
        RtlError: There is no such file, or it is no coverage file.
    """
    points: dict[str, Points] = {}
    for path in paths:
        for name, found in _points(path).items():
            if design_only and name not in DESIGN:
                continue
            sums = points.setdefault(name, {})
            for key, count in found.items():
                sums[key] = sums.get(key, 0) + count
    return tuple(_file(name, points[name]) for name in sorted(points))


def _points(path: Path) -> dict[str, Points]:
    """How often each point ran, by module; every record is `C 'key-value pairs' count`."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise RtlError(f"{path}: cannot read the coverage file: {error.strerror}; run the programs again") from error
    if not lines or not lines[0].startswith("# SystemC::Coverage"):
        raise RtlError(f"{path}: no coverage file; give one that a run with coverage wrote")
    points: dict[str, Points] = {}
    for line in lines[1:]:
        fields, _, count = line.removeprefix("C '").rpartition("' ")
        values = dict(field.split("\x02", 1) for field in fields.split("\x01") if "\x02" in field)
        if "f" not in values or "l" not in values:
            continue
        found = points.setdefault(Path(values["f"]).stem, {})
        key = (int(values["l"]), values.get("o", ""), values.get("n", ""))
        found[key] = found.get(key, 0) + int(count)
    return points


def _file(name: str, points: Points) -> FileCoverage:
    missed = sorted({line for (line, _, _), count in points.items() if not count})
    return FileCoverage(
        file=f"{name}.sv",
        num_points=len(points),
        num_covered=sum(count > 0 for count in points.values()),
        missed_lines=tuple(missed),
    )
