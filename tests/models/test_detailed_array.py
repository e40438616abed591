"""The PE array's time: SCALE-Sim's closed forms, shadow weights, and the pace of instructions."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from tileloom.archdsl import Keep, Mapping, Op, Spatial, SpatialArch, Temporal, ceil_div, parse_notation
from tileloom.models import CONVENTIONS, detailed_batch, hierarchy_of, nest_of, timing_of

ROWS_FILE = Path(__file__).parents[1] / "data" / "scalesim_gemm_cycles.csv"
SHARED_FILE = Path(__file__).parents[3] / "shared" / "data" / "model_reference" / "scalesim_gemm_cycles.csv"
UNBOUNDED = {"kind": "memory", "memory_class": "scratchpad", "capacity_bytes": None, "read_bandwidth": "unbounded"}
FREE = {**UNBOUNDED, "write_bandwidth": "unbounded", "latency_cycles": 0, "source": "assumption: never in the way"}


@dataclass(frozen=True, slots=True)
class Lie:
    """Dims along rows, columns and time of an array, and the tensor that stays."""

    rows: str
    cols: str
    time: str
    stays: str
    role: str


LIES = {
    "os": Lie("M", "N", "K", "Z", "output"),
    "ws": Lie("K", "N", "M", "W", "weight"),
    "is": Lie("K", "M", "N", "A", "input"),
}


def systolic(rows: int, cols: int, dataflow: str = "ws", network: str = "systolic", **compute: object) -> SpatialArch:
    """A systolic array between a free memory and one register per PE."""
    axes = [{"name": name, "size": n, "network": network} for name, n in (("rows", rows), ("cols", cols))]
    unit: dict[str, object] = {
        "kind": "compute",
        "name": "mac",
        "datatypes": {"int8": {"macs_per_cycle": 1}},
        "stationary": LIES[dataflow].role,
        **compute,
    }
    hierarchy: list[dict[str, object]] = [
        {**FREE, "name": "main_memory"},
        {"kind": "fanout", "name": "pe_array", "axes": axes},
        {**FREE, "name": "register", "double_buffered": True},
        unit,
    ]
    return SpatialArch.model_validate(
        {
            "schema_version": 1,
            "kind": "spatial",
            "name": "systolic",
            "clock_hz": 1e9,
            "technology": {"node_nm": 45, "source": "assumption: test"},
            "source": "assumption: test",
            "hierarchy": hierarchy,
        }
    )


def lay(op: Op, rows: int, cols: int, dataflow: str, inner: int | None = None) -> Mapping:
    """Passes over the two dims on the array, then the third in time, cut into runs of `inner` if given."""
    lie, sizes = LIES[dataflow], op.sizes
    runs = () if inner is None else (Temporal(dim=lie.time, tile=min(inner, sizes[lie.time])),)
    return Mapping(
        nodes=(
            Keep(level="main_memory", tensors=("A", "W", "Z")),
            Temporal(dim=lie.rows, tile=min(rows, sizes[lie.rows])),
            Temporal(dim=lie.cols, tile=min(cols, sizes[lie.cols])),
            Spatial(dim=lie.rows, tile=1, fanout="pe_array", axis="rows"),
            Spatial(dim=lie.cols, tile=1, fanout="pe_array", axis="cols"),
            Keep(level="register", tensors=(lie.stays,)),
            *runs,
            Temporal(dim=lie.time, tile=1),
        )
    )


def array_time(op: Op, mapping: Mapping, arch: SpatialArch) -> float:
    """The array's part of the detailed latency."""
    nest, tiles = nest_of(op, mapping, hierarchy_of(arch))
    latency = detailed_batch(nest, tiles, timing_of(arch), CONVENTIONS["tileloom"]).at(0)
    return next(part for part in latency.walk() if part.name == "PE array").amount


def gemm(m: int, n: int, k: int) -> Op:
    return parse_notation(f"gemm:M={m},N={n},K={k}")


def closed_form(dataflow: str, m: int, n: int, k: int, rows: int, cols: int) -> int:
    """SCALE-Sim's cycles, for an array of `rows` x `cols`."""
    skew = rows + cols - 2
    if dataflow == "os":
        return ceil_div(m, rows) * ceil_div(n, cols) * (k + skew)
    if dataflow == "ws":
        return ceil_div(k, rows) * ceil_div(n, cols) * (m + rows + skew)
    return ceil_div(k, rows) * ceil_div(m, cols) * (n + rows + skew)


def scalesim_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def assert_agrees(rows: list[dict[str, str]]) -> None:
    assert rows
    for row in rows:
        m, n, k = (int(row[dim]) for dim in "MNK")
        height, width = (int(x) for x in row["array"].split("x"))
        dataflow = row["dataflow"]
        ours = array_time(gemm(m, n, k), lay(gemm(m, n, k), height, width, dataflow), systolic(height, width, dataflow))
        assert ours - 1 == float(row["total_cycles"]), row


def test_array_time_equals_scalesim_on_rows_kept_here() -> None:
    assert_agrees(scalesim_rows(ROWS_FILE))


def test_array_time_equals_scalesim_on_every_row() -> None:
    if not SHARED_FILE.exists():
        pytest.skip(f"reference data is absent: {SHARED_FILE}; the rows kept here are checked")
    rows = scalesim_rows(SHARED_FILE)
    assert len(rows) == 45
    assert_agrees(rows)


@pytest.mark.parametrize("dataflow", sorted(LIES))
def test_array_time_equals_the_closed_form_on_random_rectangles(dataflow: str) -> None:
    rng = Random(7)
    for _ in range(60):
        m, n, k = (rng.randint(1, 90) for _ in range(3))
        rows, cols = rng.choice((1, 2, 4, 8, 16, 32)), rng.choice((1, 3, 4, 8, 16))
        op = gemm(m, n, k)
        ours = array_time(op, lay(op, rows, cols, dataflow), systolic(rows, cols, dataflow))
        assert ours == closed_form(dataflow, m, n, k, rows, cols), (m, n, k, rows, cols)


def test_shadowed_weights_cost_max_of_stream_and_load() -> None:
    for m, per_pass in ((4, 16), (16, 16), (40, 40)):
        op = gemm(m, 32, 64)
        arch = systolic(16, 16, preload="shadowed")
        # 8 passes, one exposed load of 16 cycles, one fill and drain of 30.
        assert array_time(op, lay(op, 16, 16, "ws"), arch) == 8 * per_pass + 16 + 30


def test_next_weights_hide_only_behind_the_last_instruction_of_a_pass() -> None:
    op = gemm(24, 16, 32)  # 2 passes of 16 + 8 rows
    arch = systolic(16, 16, preload="shadowed", instruction_steps=16)
    # Instructions of a pass count as equally long: 2 x 12 rows, and the last waits for 16 cycles of loading.
    assert array_time(op, lay(op, 16, 16, "ws", inner=16), arch) == 2 * (24 + (16 - 12)) + 16 + 30


def test_short_instructions_take_the_least_time_each() -> None:
    op = gemm(18, 16, 16)  # one pass, instructions of 16 and 2 rows
    arch = systolic(16, 16, preload="shadowed", instruction_steps=16, min_instruction_cycles=4)
    assert array_time(op, lay(op, 16, 16, "ws", inner=16), arch) == 16 + 4 + (16 - 10) + 16 + 30


def paced(rows: int, num: int, window: int, latency: int, passes: int) -> float:
    """Starts of instructions one by one: in order, and not before the one `window` back has left."""
    lengths = ([rows] * (num - 1) + [max(rows, 16)]) * passes
    starts: list[int] = []
    for idx, _ in enumerate(lengths):
        start = starts[-1] + lengths[idx - 1] if starts else 0
        if idx >= window:
            start = max(start, starts[idx - window] + lengths[idx - window] + latency)
        starts.append(start)
    third = passes // 3
    return (starts[2 * third * num] - starts[third * num]) / third


@pytest.mark.parametrize("num", [1, 2, 4, 6, 7, 14, 28])
@pytest.mark.parametrize("rows", [4, 6, 8, 12, 16])
def test_limited_instructions_in_flight_agree_with_starts_one_by_one(rows: int, num: int) -> None:
    passes = 60
    op = gemm(rows * num, 16, 16 * passes)
    arch = systolic(16, 16, preload="shadowed", instruction_steps=rows, max_in_flight=5)
    time = array_time(op, lay(op, 16, 16, "ws", inner=rows), arch) - 16 - 30
    assert math.isclose(time / passes, paced(rows, num, 5, 30, passes), rel_tol=0.03)


def test_broadcast_array_neither_fills_nor_loads() -> None:
    op = gemm(10, 16, 16)
    assert array_time(op, lay(op, 16, 16, "ws"), systolic(16, 16, network="broadcast")) == 10
