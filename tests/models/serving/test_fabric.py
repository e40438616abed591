"""Systems as serving sees them: domains of fast links, and what leads out of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileloom.archdsl import ArchError, ModelError, load_system
from tileloom.models.serving import fabric_of, load_fabric

TWO_NODES = """\
schema_version: 1
kind: system
name: two_nodes
chips: [{name: gpu, count: 8, arch: h100_sxm}]
links:
  - {name: nvlink, bandwidth: 25 GB/s, latency: 0.3 us, source: data sheet}
  - {name: rail, bandwidth: 50 GB/s, latency: 2 us, source: data sheet}
racks: [{name: node, count: 2, chips: {gpu: 4}}]
topology:
  - {kind: switch, name: nvswitch, link: nvlink, parallel_links: 18, members: [gpu], per_rack: true}
  - {kind: switch, name: spine, link: rail, parallel_links: 4, members: [nvswitch]}
"""


def test_described_nodes_are_domains_whose_chips_share_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "two_nodes.yaml"
    path.write_text(TWO_NODES, encoding="utf-8")
    found = fabric_of(load_system(path))
    assert (found.num_chips, found.domain_chips) == (8, 4)
    assert found.link_bytes_per_s == 18 * 25e9
    assert found.link_latency_s == pytest.approx(0.6e-6)  # to the switch and back
    assert found.outer_bytes_per_s == 4 * 50e9 / 4
    assert found.outer_latency_s == pytest.approx(2 * 0.3e-6 + 2 * 2e-6)


def test_notation_makes_nodes_of_eight() -> None:
    found = load_fabric("16xh200_sxm")
    assert (found.num_chips, found.domain_chips, found.link_bytes_per_s) == (16, 8, 450e9)
    assert load_fabric("4xb200").link_bytes_per_s == 900e9
    assert load_fabric("h100_sxm").num_chips == 1


def test_nodes_that_nothing_connects_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "apart.yaml"
    lines = [line for line in TWO_NODES.splitlines() if "spine" not in line]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(ModelError, match=r"two_nodes: gpu\.0 reaches 4 of 8 chips over its links"):
        fabric_of(load_system(path))


def test_mixed_chips_and_other_kinds_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mixed.yaml"
    mixed = "chips: [{name: gpu, count: 8, arch: h100_sxm}, {name: other, arch: a100_sxm}]"
    text = TWO_NODES.replace("chips: [{name: gpu, count: 8, arch: h100_sxm}]", mixed)
    text = text.partition("topology:")[0].replace("racks: [{name: node, count: 2, chips: {gpu: 4}}]\n", "")
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ModelError, match="chips of h100_sxm, a100_sxm; serving needs one kind of GPU"):
        fabric_of(load_system(path))
    with pytest.raises(ModelError, match="tpu_v1 is of kind spatial; language models are served on GPUs"):
        load_fabric("4xtpu_v1")
    with pytest.raises(ArchError, match="unknown preset 'h1000'"):
        load_fabric("h1000")
    with pytest.raises(ModelError, match="0 chips of h100_sxm; a system has at least 1"):
        load_fabric("0xh100_sxm")
