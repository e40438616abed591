"""Rates of files that extend a GPU: in proportion to SMs and boost clock, unless the file gives them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileloom.archdsl import GpuArch, load_arch, load_system, load_tree, variant_from_tree
from tileloom.models.gpu.chip import make_chip


def gpu(folder: Path, text: str, name: str = "mine") -> GpuArch:
    """A file that extends another."""
    path = folder / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    found = load_arch(path)
    assert isinstance(found, GpuArch)
    return found


def rate(arch: GpuArch, datatype: str = "bf16") -> float:
    return arch.tensor_cores.datatypes[datatype].dense_ops_per_s


@pytest.fixture(name="h100")
def _h100() -> GpuArch:
    found = load_arch("h100_sxm")
    assert isinstance(found, GpuArch)
    return found


@pytest.mark.parametrize(
    ("text", "overrides", "scale"),
    [
        ("sms: 66", {"sms": 66}, 0.5),
        ("clocks: {boost: 0.915 GHz}", {"clocks.boost": "0.915 GHz"}, 0.5),
        ("override: {sms: 264, clocks.boost: 1.83 GHz}", {"sms": 264}, 2.0),
    ],
)
def test_a_file_and_an_override_have_the_same_rates(
    text: str, overrides: dict[str, object], scale: float, tmp_path: Path, h100: GpuArch
) -> None:
    mine = gpu(tmp_path, f"extends: h100_sxm\nname: mine\n{text}\n")
    variant = variant_from_tree(load_tree("h100_sxm"), h100, overrides).description
    assert isinstance(variant, GpuArch)
    for datatype in h100.tensor_cores.datatypes:
        assert rate(mine, datatype) == pytest.approx(scale * rate(h100, datatype))
        assert rate(mine, datatype) == pytest.approx(rate(variant, datatype))
    assert mine.vector_units.ops_per_s == pytest.approx(variant.vector_units.ops_per_s)
    assert mine.macs_per_cycle("bf16") == pytest.approx(h100.macs_per_cycle("bf16"))


def test_rates_that_the_file_gives_stay(tmp_path: Path, h100: GpuArch) -> None:
    text = "extends: h100_sxm\nname: mine\nsms: 66\ntensor_cores: {datatypes: {fp8: {dense: 3000 TOP/s}}}\n"
    mine = gpu(tmp_path, text + "override: {vector_units.dense.fp32: 50 TFLOP/s}\n")
    assert rate(mine, "fp8") == 3000e12
    assert mine.vector_units.ops_per_s["fp32"] == 50e12
    assert rate(mine) == pytest.approx(rate(h100) / 2)


def test_files_in_a_chain_scale_once_each(tmp_path: Path, h100: GpuArch) -> None:
    gpu(tmp_path, "extends: h100_sxm\nname: half\nsms: 66\n", "half")
    mine = gpu(tmp_path, "extends: half.yaml\nname: mine\nsms: 33\n")
    assert rate(mine) == pytest.approx(rate(h100) / 4)
    assert mine.rates_from == "h100_sxm"


def test_a_file_that_changes_neither_keeps_the_rates(tmp_path: Path, h100: GpuArch) -> None:
    mine = gpu(tmp_path, "extends: h100_sxm\nname: mine\nmain_memory: {capacity: 141 GB}\n")
    assert (rate(mine), mine.rates_from) == (rate(h100), None)


def test_results_say_whose_rates_they_are(tmp_path: Path) -> None:
    mine = gpu(tmp_path, "extends: h100_sxm\nname: mine\nsms: 66\n")
    note = "mine: rates of h100_sxm in proportion to SMs and boost clock; power limit and idle power as given"
    assert note in make_chip(mine).notes


def test_chips_of_a_system_scale_as_files_do(tmp_path: Path, h100: GpuArch) -> None:
    gpu(tmp_path, "extends: h100_sxm\nname: mine\nsms: 66\n")
    path = tmp_path / "box.yaml"
    path.write_text(
        "schema_version: 1\nkind: system\nname: box\nchips: [{name: gpu, arch: mine.yaml}]\n", encoding="utf-8"
    )
    arch = load_system(path).chips[0].arch
    assert isinstance(arch, GpuArch)
    assert rate(arch) == pytest.approx(rate(h100) / 2)
