"""Arrays of weights: hand-worked cycles, limits, and published results of TPU v1 and Groq's TSP."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tileloom.archdsl import ModelError, Op, SpatialArch, Workload, load_arch, parse_notation
from tileloom.models.spatial_systems import TiledArray, array_times, tiled_array_of
from tileloom.models.spatial_systems.published import APPLICATIONS, resnet50, workload_of

# ISCA 2017, Table 3: achieved TOPS. Several networks have what is published of LSTM1 and CNN1: test_families.py.
ACHIEVED_TOPS = {"MLP0": 12.3, "MLP1": 9.7, "LSTM0": 3.7, "CNN0": 86.0}


def array_of(name: str) -> TiledArray:
    arch = load_arch(name)
    assert isinstance(arch, SpatialArch)
    return tiled_array_of(arch)


def network(*notations: str) -> Workload:
    ops: tuple[Op, ...] = tuple(replace(parse_notation(text), name=f"op{i}") for i, text in enumerate(notations))
    return Workload(name="net", ops=ops)


def test_tpu_has_one_array_fed_from_main_memory() -> None:
    array = array_of("tpu_v1")
    assert (array.rows, array.cols, array.num_arrays, array.accumulator_rows) == (256, 256, 1, 2048)
    assert array.supply_bytes_per_cycle == pytest.approx(30 * 1024**3 / 700e6)
    assert not array.is_resident


def test_tsp_has_four_planes_with_resident_weights() -> None:
    array = array_of("groq_tsp")
    assert (array.rows, array.cols, array.num_arrays) == (320, 320, 4)
    assert array.is_resident
    # ISCA 2020: all weights in 40 cycles.
    assert array.supply_bytes_per_cycle == pytest.approx(4 * 320 * 320 / 40)


def test_weights_bind_small_batches_and_rows_large_ones() -> None:
    array = array_of("tpu_v1")
    small = array_times(array, network("gemm:M=200,N=256,K=256,bits=8"))
    large = array_times(array, network("gemm:M=2048,N=256,K=256,bits=8"))
    assert small.total.amount == pytest.approx(256 * 256 / array.supply_bytes_per_cycle)
    assert large.total.amount == 2048


def test_ragged_tiles_cost_whole_ones() -> None:
    array = array_of("tpu_v1")
    ragged = array_times(array, network("gemm:M=96,N=600,K=600,bits=8"))
    # ISCA 2017, section 7: 600 x 600 takes nine tiles of 256 x 256 and 18 us.
    assert ragged.time_s == pytest.approx(18e-6, rel=0.05)


def test_wide_activations_halve_the_rate_of_rows() -> None:
    array = array_of("tpu_v1")
    op = parse_notation("gemm:M=2048,N=256,K=256,bits=8")
    wide = replace(op, tensors=(replace(op.tensors[0], bits=16), *op.tensors[1:]))
    narrow_cycles = array_times(array, Workload(name="narrow", ops=(op,))).total.amount
    assert array_times(array, Workload(name="wide", ops=(wide,))).total.amount == 2 * narrow_cycles


def test_more_rows_than_accumulators_fetch_weights_again() -> None:
    array = array_of("tpu_v1")
    once = array_times(array, network("gemm:M=2048,N=256,K=256,bits=8")).total
    twice = array_times(array, network("gemm:M=2049,N=256,K=256,bits=8")).total
    weights = [part.amount for total in (once, twice) for part in total.walk() if part.name == "weights"]
    assert weights[1] == 2 * weights[0]


def test_taps_that_share_no_tile_cost_more_tiles() -> None:
    array = array_of("tpu_v1")
    workload = network("conv:B=1,K=64,C=100,OY=64,OX=64,FY=3,FX=3,bits=8")
    # 900 rows of weights make 4 tiles; 300 per row of the window make 2 each; 100 per tap make 1 each.
    for packing, tiles in (("kernel", 4), ("kernel row", 6), ("tap", 9)):
        assert array_times(replace(array, tap_packing=packing), workload).total.amount == tiles * 64 * 64


def test_waiting_for_results_costs_time_only_where_weights_do_not_bind() -> None:
    array = array_of("tpu_v1")
    waiting = replace(array, exposes_borders=True)
    by_weights, by_rows = network("gemm:M=200,N=256,K=256,bits=8"), network("gemm:M=3000,N=256,K=256,bits=8")
    assert array_times(waiting, by_weights).total.amount == array_times(array, by_weights).total.amount
    # Of 3,000 rows the accumulators still hold 952, which came 256 + 256 cycles later.
    assert array_times(waiting, by_rows).total.amount == 3000 + 952 + 512


def test_no_network_beats_the_peak() -> None:
    for name in ("tpu_v1", "groq_tsp"):
        array = array_of(name)
        peak = 2 * array.rows * array.cols * array.num_arrays * array.clock_hz
        for workload in (resnet50(), *(workload_of(one) for one in APPLICATIONS)):
            assert array_times(array, workload).ops_per_s <= peak


@pytest.mark.parametrize("name", sorted(ACHIEVED_TOPS))
def test_tpu_application_is_within_15_percent_of_published(name: str) -> None:
    application = next(one for one in APPLICATIONS if one.name == name)
    found = array_times(array_of("tpu_v1"), workload_of(application))
    assert found.ops_per_s / 1e12 == pytest.approx(ACHIEVED_TOPS[name], rel=0.15)


def test_applications_have_the_published_weights_and_intensity() -> None:
    for application in APPLICATIONS:
        workload = workload_of(application)
        weights = sum(op.tensor_bytes(op.tensor("W")) for op in workload.mac_ops())
        assert weights == pytest.approx(application.num_weights, rel=0.01)
        # CNN1's pixels are rounded to a square.
        assert workload.macs / weights == pytest.approx(application.macs_per_weight, rel=0.12)
        assert workload.notices


def test_resnet50_has_its_published_size() -> None:
    workload = resnet50()
    assert workload.macs == pytest.approx(4.1e9, rel=0.01)
    assert sum(op.tensor_bytes(op.tensor("W")) for op in workload.mac_ops()) == pytest.approx(25.5e6, rel=0.01)


def test_tsp_resnet50_is_within_20_percent_of_published() -> None:
    found = array_times(array_of("groq_tsp"), resnet50())
    # ISCA 2020: 20.4 thousand images per second at batch 1, 49 us each.
    assert found.time_s == pytest.approx(1 / 20.4e3, rel=0.20)


def test_parts_add_up() -> None:
    found = array_times(array_of("groq_tsp"), resnet50())
    assert found.total.amount == pytest.approx(sum(part.amount for part in found.total.parts))
    assert len(found.total.parts) == 56


def test_chip_without_such_an_array_is_refused() -> None:
    arch = load_arch("eyeriss_v1")
    assert isinstance(arch, SpatialArch)
    with pytest.raises(ModelError, match="eyeriss_v1: no fan-out with one axis that carries reduction alone"):
        tiled_array_of(arch)


def test_empty_network_is_refused() -> None:
    with pytest.raises(ModelError, match="nothing: no ops to run on tpu_v1"):
        array_times(array_of("tpu_v1"), Workload(name="nothing", ops=()))
