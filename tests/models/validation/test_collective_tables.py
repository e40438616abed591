"""Tables of collectives: which rows count, on what they are priced, and the place of every fault."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tileloom.archdsl import ModelError, load_system
from tileloom.models.systems import Collectives, make_machine
from tileloom.models.validation import FORMATS, fit_constants, format_of, read_measurements, validate

NCCL = "system,op,nccl_version,num_gpus,bytes,latency_ms,latency_ms_min,repeats\n"
CUSTOM = "system,framework,version,impl,num_gpus,elements,bytes,latency_ms\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "table.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_newest_version_counts_per_op_and_number_of_chips(tmp_path: Path) -> None:
    text = NCCL + (
        "x,all_reduce,2.9.1,2,1024,0.009,0.009,1\n"
        "x,all_reduce,2.23,2,1024,0.010,0.010,1\n"
        "x,all_reduce,2.23,2,2048,0.011,0.011,1\n"
        "x,all_reduce,2.9.1,4,1024,0.012,0.012,1\n"
        "x,alltoall,2.9.1,2,1024,0.013,0.013,1\n"
    )
    found = read_measurements(written(tmp_path, text)).measurements
    assert [one.name for one in found] == ["all_reduce 2", "all_reduce 4", "all_to_all 2"]
    assert [list(one.lines) for one in found] == [[3, 4], [5], [6]]
    assert list(found[0].values) == [10e-6, 11e-6]
    assert found[2].kernels.label(0) == "alltoall 2 chips 1024 bytes"


def test_frameworks_are_told_apart_and_share_the_split(tmp_path: Path) -> None:
    text = CUSTOM + "x,vllm,1,vllm_graph,2,512,1024,0.005\nx,sglang,1,sglang_graph,2,512,1024,0.004\n"
    found = read_measurements(written(tmp_path, text)).measurements
    assert [one.name for one in found] == ["vllm_graph 2", "sglang_graph 2"]
    assert found[0].kernels.label(0) == found[1].kernels.label(0) == "custom all_reduce 2 chips 1024 bytes"


def test_collectives_are_validated_and_fitted_on_a_system(tmp_path: Path) -> None:
    machine = make_machine(load_system("dgx_a100"))
    sizes = [2**power for power in range(9, 25)]
    truth = machine.with_constants({"collective_start_s": 9e-6, "ring_hop_s": 1e-6})
    lines: list[str] = []
    for num in (2, 8):
        kernels = Collectives(op="all_gather", sizes_bytes=np.array(sizes), num_chips=num)
        times = [float(time) * 1e3 for time in kernels.times(truth).time_s]
        lines += [f"x,all_gather,2.27,{num},{size},{time!r},1,1\n" for size, time in zip(sizes, times, strict=True)]
    measured = read_measurements(written(tmp_path, NCCL + "".join(lines))).measurements
    assert validate(measured, truth).overall.mape < 1e-9
    assert validate(measured, machine).overall.mape > 5
    fit = fit_constants([measured], machine, ["collective_start_s", "ring_hop_s"])
    assert fit.constants["collective_start_s"] == pytest.approx(9e-6, rel=0.02)
    assert fit.constants["ring_hop_s"] == pytest.approx(1e-6, rel=0.05)
    assert fit.num_rows == sum(int((~one.held_back).sum()) for one in measured)
    with pytest.raises(ModelError, match="unknown constant 'ring_hop'; did you mean 'ring_hop_s'"):
        fit_constants([measured], machine, ["ring_hop"])


def test_formats_say_what_they_are_priced_on(tmp_path: Path) -> None:
    found = read_measurements(written(tmp_path, NCCL + "x,all_gather,2.27,8,1024,1,1,1\n"))
    assert format_of(found.table) == found.format
    assert found.format.target == "system"
    assert {one.name: one.target for one in FORMATS}["collectives of NCCL"] == "system"
    assert {one.name: one.target for one in FORMATS}["GEMMs"] == "chip"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (NCCL + "x,broadcast,2.9,2,1024,0.01,0.01,1\n", "2:2: op: 'broadcast' is not one of all_reduce"),
        (NCCL + "x,all_reduce,new,2,1024,0.01,0.01,1\n", "2:3: nccl_version: 'new' is not a version like 2.27.3"),
        (NCCL + "x,all_reduce,2.9,1,1024,0.01,0.01,1\n", "2:4: num_gpus: '1' is not a whole number of at least 2"),
        (CUSTOM + "x,y,1,mine,2,512,1024,0.01\n", "2:4: impl: 'mine' is not one of trtllm"),
    ],
)
def test_fault_has_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        read_measurements(written(tmp_path, text))
    assert message in str(caught.value)
