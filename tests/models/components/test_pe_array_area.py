"""Area of the tensor PE array: by hand for a small one, and how it grows."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tileloom.archdsl import PeArray, SpatialArch, load_arch, pe_array
from tileloom.models import Part, pe_array_area, post_processing_area, resolve
from tileloom.models.components.mac import MAC

NODE_NM = 45.0
FLIP_FLOP, MUX = 4.522, 1.862


def spatial(name: str, changes: dict[str, object] | None = None) -> SpatialArch:
    arch = load_arch(name, changes)
    assert isinstance(arch, SpatialArch)
    return arch


@pytest.fixture
def array() -> PeArray:
    return pe_array(spatial("tpe_8x8"))


def um2(part: Part) -> float:
    return part.amount * 1e6


def named(part: Part, name: str) -> float:
    (found,) = (inner for inner in part.walk() if inner.name == name)
    return um2(found)


def test_small_array_by_hand(array: PeArray) -> None:
    small = pe_array_area(replace(array, rows=3, cols=2), node_nm=NODE_NM)
    # Six 8-bit products; in each of two columns a sum of 17 bits and one of 32.
    assert named(small, "mac") == pytest.approx(6 * 3.413 * 64 + 2 * 4.281 * (17 + 32))
    assert named(small, "register") == pytest.approx(6 * 16 * (FLIP_FLOP + MUX))
    # Input and swap move right from the first column; sums have 16, 17 and 32 bits.
    assert named(small, "pe_pipeline") == pytest.approx((3 * 9 + 2 * (16 + 17 + 32)) * FLIP_FLOP)


def test_totals_are_sums_of_their_parts(array: PeArray) -> None:
    for tree in (pe_array_area(array, node_nm=NODE_NM), post_processing_area(array, node_nm=NODE_NM)):
        leaves = [part.amount for part in tree.walk() if part.rule == "leaf"]
        assert tree.amount == pytest.approx(math.fsum(leaves))
        assert all(amount > 0 for amount in leaves)


def test_twice_the_cols_or_rows_is_twice_the_array(array: PeArray) -> None:
    base = um2(pe_array_area(array, node_nm=NODE_NM))
    assert um2(pe_array_area(replace(array, cols=16), node_nm=NODE_NM)) == pytest.approx(2 * base, rel=0.01)
    assert um2(pe_array_area(replace(array, rows=16), node_nm=NODE_NM)) == pytest.approx(2 * base, rel=0.05)


def test_lanes_cost_the_same_each_and_narrow_sums_less(array: PeArray) -> None:
    two, four = (post_processing_area(replace(array, post_lanes=num), node_nm=NODE_NM) for num in (2, 4))
    assert named(four, "lanes") == pytest.approx(2 * named(two, "lanes"))
    narrow = replace(array, accumulator_bits=24)
    for model in (pe_array_area, post_processing_area):
        assert um2(model(narrow, node_nm=NODE_NM)) < um2(model(array, node_nm=NODE_NM))


def test_more_slots_columns_and_bus_grow_the_store_unit(array: PeArray) -> None:
    base = named(post_processing_area(array, node_nm=NODE_NM), "store_unit")
    for changes in ({"parameter_slots": 8}, {"cols": 16}, {"bus_bytes": 16}):
        assert named(post_processing_area(replace(array, **changes), node_nm=NODE_NM), "store_unit") > base


def test_a_lane_is_as_large_as_a_dozen_pes(array: PeArray) -> None:
    pe_um2 = um2(pe_array_area(array, node_nm=NODE_NM)) / 64
    assert 10 < named(post_processing_area(array, node_nm=NODE_NM), "lanes") / 8 / pe_um2 < 16


def test_smaller_nodes_shrink_everything_alike(array: PeArray) -> None:
    for model in (pe_array_area, post_processing_area):
        for large, small in zip(model(array, node_nm=45.0).walk(), model(array, node_nm=7.0).walk(), strict=True):
            assert small.amount == pytest.approx(0.059 * large.amount)


def test_resolve_charges_the_cells_with_the_overhead_of_placing() -> None:
    arch = spatial("tpe_16x16")
    array = pe_array(arch)
    numbers = resolve(arch)
    parts = {part.name: part.amount for part in numbers.area.parts}
    cells = pe_array_area(array, node_nm=NODE_NM).amount
    assert parts["mac"] + parts["register"] + parts["pe_pipeline"] == pytest.approx(cells * MAC.block_overhead)
    post = post_processing_area(array, node_nm=NODE_NM).amount
    assert parts["vector_unit"] + parts["store_unit"] == pytest.approx(post * MAC.block_overhead)
    for name in ("pe_pipeline", "vector_unit", "store_unit"):
        assert numbers.source_of(f"{name}.area_mm2").origin == "model"


def test_a_given_area_of_the_unit_has_its_registers() -> None:
    given = resolve(spatial("tpe_8x8", {"hierarchy.mac.area": "900 um2", "hierarchy.mac.source": "assumption: test"}))
    assert given.compute.area_mm2 == pytest.approx(9e-4)
    assert "pe_pipeline" not in [part.name for part in given.area.parts]


def test_an_architecture_without_rtl_is_priced_like_any_other() -> None:
    odd = resolve(spatial("tpe_8x8", {"hierarchy.mac.vector_lanes": 3}))  # three lanes do not divide eight columns
    assert [part.name for part in odd.area.parts][-2:] == ["mac", "vector_unit"]
    assert odd.source_of("vector_unit.area_mm2").origin == "assumed"
    assert odd.left_out[-1] == "pe_pipeline and store_unit: modelled for integer arrays whose RTL can be built"
    assert not any("pe_pipeline" in text for text in resolve(spatial("tpe_8x8")).left_out)
