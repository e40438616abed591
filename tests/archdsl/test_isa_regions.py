"""What instructions touch, against counting byte by byte."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tileloom.archdsl import Instruction
from tileloom.archdsl.isa.regions import Config, Region, compute_sources, store_target

from .program_schedules import places

SMALL = st.integers(0, 6)
COUNTS = st.integers(1, 5)


@given(
    compute=st.fixed_dictionaries(
        {"y": st.integers(-5, 5), "x": st.integers(-9, 9), "x_count": COUNTS, "y_count": COUNTS, "rows": COUNTS}
    ),
    walk=st.fixed_dictionaries(
        {"x_step_bytes": SMALL, "y_step_rows": st.integers(0, 3), "input_bits": st.integers(0, 1)}
    ),
    tile=st.fixed_dictionaries(
        {"address": SMALL, "row_bytes": st.integers(0, 12), "rows": SMALL, "width_bytes": SMALL}
    ),
)
def test_compute_reads_what_lies_in_the_tile(
    compute: dict[str, int], walk: dict[str, int], tile: dict[str, int]
) -> None:
    length = (compute["rows"] + 1) // 2 if walk["input_bits"] else compute["rows"]
    expected = {
        tile["address"] + y * tile["row_bytes"] + x
        for row in range(compute["y_count"])
        for vector in range(compute["x_count"])
        for byte in range(length)
        if 0 <= (y := compute["y"] + row * walk["y_step_rows"]) < tile["rows"]
        and 0 <= (x := compute["x"] + vector * walk["x_step_bytes"] + byte) < tile["width_bytes"]
    }
    config = Config(
        tile=Instruction(name="CFG_TILE", operands=tile), walk=Instruction(name="CFG_WALK", operands=walk)
    )  # fmt: skip
    regions = compute_sources(Instruction(name="COMPUTE", operands=compute), config)
    assert places(regions) == expected
    assert max((region.end for region in regions), default=0) == max(expected, default=-1) + 1


@given(
    store=st.fixed_dictionaries(
        {"address": SMALL, "x_count": COUNTS, "y_count": COUNTS, "columns": COUNTS, "format": st.integers(0, 2)}
    ),
    strides=st.fixed_dictionaries({"x_bytes": st.integers(0, 25), "y_bytes": st.integers(0, 60)}),
)
def test_store_writes_its_vectors(store: dict[str, int], strides: dict[str, int]) -> None:
    length = (store["columns"], (store["columns"] + 1) // 2, 4 * store["columns"])[store["format"]]
    expected = {
        store["address"] + x * strides["x_bytes"] + y * strides["y_bytes"] + byte
        for y in range(store["y_count"])
        for x in range(store["x_count"])
        for byte in range(length)
    }
    config = Config(st=Instruction(name="CFG_ST", operands=strides))
    assert places([store_target(Instruction(name="ST", operands=store), config)]) == expected


@given(
    st.builds(Region, first=SMALL, length=COUNTS, num_x=COUNTS, x_step=SMALL, num_y=COUNTS, y_step=st.integers(0, 40))
)
def test_merging_changes_no_place(region: Region) -> None:
    merged = region.merged()
    assert places([merged]) == places([region])
    assert merged.end == region.end
    assert merged.num_x * merged.num_y <= region.num_x * region.num_y
