"""Libraries of GEMM kernels and products with quantised activations: what a library may choose, and what that costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tileloom.archdsl import GpuArch, ModelError, load_arch
from tileloom.models.gpu.chip import Chip, make_chip
from tileloom.models.gpu.gemm import Gemms
from tileloom.models.gpu.libraries import LIBRARIES
from tileloom.models.gpu.quantised import QuantisedGemms, RowQuantisations

ROWS = (1, 15, 16, 64, 129, 1000, 8192)


def chip_of(name: str) -> Chip:
    arch = load_arch(name)
    assert isinstance(arch, GpuArch)
    return make_chip(arch)


def gemms(*shapes: tuple[int, int, int], datatype: str = "bf16", weight_bits: float | None = None) -> Gemms:
    m, n, k = np.array(shapes).T
    flags = np.ones(len(m), dtype=np.bool_)
    return Gemms(
        m=m, n=n, k=k, datatype=datatype, weight_bits=weight_bits, weights_in_cache=flags, inputs_in_cache=flags
    )  # fmt: skip


def tiles_of(kernels: Gemms, chip: Chip) -> list[tuple[int, int]]:
    words = [choice.replace(",", "").split() for choice in kernels.times(chip).choices]
    return [(int(word[1]), int(word[3])) for word in words]


@pytest.mark.parametrize(
    ("name", "chip", "datatype"),
    [("weight_only", "a100_sxm", "bf16"), ("block_scaled", "b200", "fp4"), ("scaled_fp8", "h100_sxm", "fp8")],
)
def test_a_library_takes_tiles_of_the_menu_for_so_many_rows_and_is_never_faster_than_all_tiles(
    name: str, chip: str, datatype: str
) -> None:
    library = next(found for known, found in LIBRARIES.items() if known == name)
    narrow = 8 if name == "weight_only" else None
    plain = gemms(*((rows, 4096, 4096) for rows in ROWS), datatype=datatype, weight_bits=narrow)
    kernels = replace(plain, library=name)
    for rows, tile in zip(ROWS, tiles_of(kernels, chip_of(chip)), strict=True):
        menu = next(one for one in library.menus if rows <= one.most_rows)
        assert tile in menu.tiles
    if name != "weight_only":  # whose steps and turns are its own
        assert (kernels.times(chip_of(chip)).time_s >= plain.times(chip_of(chip)).time_s * (1 - 1e-9)).all()


def test_turns_of_a_split_grow_with_its_parts() -> None:
    chip = chip_of("a100_sxm")
    times = replace(gemms((16, 128, 16384), weight_bits=8), library="weight_only").times(chip)
    parts = int(times.choices[0].split()[-1])
    assert 1 < parts <= 7
    turn = 2 * chip.launch_s + chip.constants["tile_store_s"] * 16 * 128 / 128**2
    assert times.serial_s["second pass of the split"][0] == pytest.approx((parts - 1) * turn)


def test_warps_that_wait_for_products_convert_weights_in_between() -> None:
    wide, narrow = (
        gemms((8192, 8192, 8192), weight_bits=bits).times(chip_of("a100_sxm")).overlapped_s["main loop"]
        for bits in (None, 8)
    )
    assert narrow["tensor cores"][0] == pytest.approx(wide["tensor cores"][0] + narrow["dequantising"][0], rel=0.01)


def test_clusters_round_tiles_up() -> None:
    chip = chip_of("h100_sxm")
    odd, even = replace(gemms((257, 16896, 8192), (512, 16896, 8192), datatype="fp8"), library="scaled_fp8").times(
        chip
    ).overlapped_s["main loop"]["tensor cores"]  # fmt: skip
    assert odd == even


def test_the_vendors_int8_products_are_amperes_on_every_chip_and_split_no_reduction() -> None:
    # fp8 has the same rate, but instructions that read shared memory themselves.
    chip = chip_of("h100_sxm")
    integer, floating = (
        replace(gemms((8192, 8192, 8192), (32, 1024, 8192), datatype=datatype), output_bits=32).times(chip)
        for datatype in ("int8", "fp8")
    )
    assert [choice.split()[-1] for choice in integer.choices][1] == "1"
    assert floating.choices[1].split()[-1] != "1"
    assert integer.time_s[0] > floating.time_s[0] / 0.7


def test_warps_that_wait_at_each_step_add_it_to_their_products() -> None:
    chip = chip_of("h100_sxm")
    times = gemms((4096, 4096, 4096), datatype="fp32").times(chip)
    _, rows, _, cols, _, split = times.choices[0].replace(",", "").split()
    rounds = np.ceil(np.ceil(4096 / int(rows)) * np.ceil(4096 / int(cols)) * int(split) / chip.arch.num_sms)
    length = np.ceil(4096 / int(split) / 32)
    lanes = 128 * 64 / 72 * chip.constants["tensor_efficiency"]
    products = rounds * int(rows) * int(cols) * length * 32 / lanes / chip.arch.max_clock_hz
    main_loop = times.overlapped_s["main loop"]["vector units"][0]
    assert main_loop == pytest.approx(products + rounds * length * chip.constants["k_step_s"], rel=2e-3)


def test_a_block_a_row_quantises_in_waves() -> None:
    chip = chip_of("h100_sxm")
    slots = 2 * chip.arch.num_sms  # blocks of 1,024 threads
    rows, cols = np.array([slots, slots + 1, slots]), np.array([512, 512, 8193])
    kernels = RowQuantisations(quantiser="scaled_fp8", datatype="fp8", rows=rows, cols=cols)
    blocks = kernels.times(chip).overlapped_s["work"]["blocks"] / chip.constants["quantise_block_s"]
    assert blocks.tolist() == pytest.approx([1, 2, 2])


def test_quantising_moves_its_bytes_where_they_exceed_the_cache() -> None:
    chip, side = chip_of("b200"), np.array([65536])
    kernels = RowQuantisations(quantiser="block_scaled", datatype="fp4", rows=side, cols=side)
    moved = 65536.0**2 * (2 + 4.5 / 8)
    assert kernels.times(chip).main_memory_bytes[0] == pytest.approx(moved)
    assert kernels.times(chip).time_s[0] > moved / chip.memory_bytes_per_s


def test_quantised_products_cost_both_kernels() -> None:
    chip, plain = chip_of("b200"), gemms((512, 4096, 4096), datatype="fp4")
    before = RowQuantisations(quantiser="block_scaled", datatype="fp4", rows=plain.m, cols=plain.k)
    alone, product = before.times(chip), plain.times(chip)
    both = QuantisedGemms(gemms=plain, quantising=before).times(chip)
    assert both.time_s[0] == pytest.approx(alone.time_s[0] + product.time_s[0])
    assert both.energy_j is not None and alone.energy_j is not None and product.energy_j is not None
    assert both.energy_j[0] == pytest.approx(alone.energy_j[0] + product.energy_j[0])


def test_unknown_names_are_errors_that_list_the_known() -> None:
    chip, plain = chip_of("h100_sxm"), gemms((16, 128, 128), datatype="fp8")
    with pytest.raises(ModelError, match="unknown GEMM library 'vendors'; did you mean 'vendor'"):
        replace(plain, library="vendors").times(chip)
    with pytest.raises(ModelError, match="unknown quantiser 'fp7'.*known: block_scaled, scaled_fp8"):
        RowQuantisations(quantiser="fp7", datatype="fp8", rows=plain.m, cols=plain.k).times(chip)  # pyright: ignore[reportArgumentType]  on purpose
