"""Tables of measured kernels: what is read, what is refused, and how far the models are from a slice of H100 data."""

from pathlib import Path

import pytest

from tileloom.archdsl import ModelError
from tileloom.models.validation import read_measurements, validate

from .chips import chip_of

ATTENTION = "phase,dtype,batch,q_heads,kv_heads,head_dim,q_len,kv_len,causal,backend,median_us\n"
SLICE = Path(__file__).parents[2] / "data" / "h100_sxm"


@pytest.mark.parametrize(
    ("table", "most_percent"),
    [("memory", 14), ("attention", 10)],
)
def test_datasheet_models_are_near_measurements(table: str, most_percent: float):
    measurements = read_measurements(SLICE / f"{table}.csv").measurements
    assert validate(measurements, chip_of()).overall.mape < most_percent


def test_energy_of_a_copy_and_of_vector_products_is_near():
    measurements = read_measurements(SLICE / "energy.csv").measurements
    copy = [one for one in measurements if one.name == "energy copy bf16"]
    assert validate(copy, chip_of()).overall.mape < 25


def test_the_idle_row_is_no_kernel():
    measurements = read_measurements(SLICE / "energy.csv").measurements
    assert sum(len(one.kernels) for one in measurements) == 6


def test_sustained_times_are_read_from_their_column():
    measurements = read_measurements(SLICE / "energy.csv", "mean_us").measurements
    assert {one.quantity for one in measurements} == {"time_s"}
    assert measurements[0].values[0] == pytest.approx(28.34e-6)


def test_layers_become_sequences_per_model():
    measurements = read_measurements(SLICE / "block.csv").measurements
    assert [one.name for one in measurements] == [
        "layer llama3-8b-layer",
        "layer llama3-70b-layer",
        "network resnet50-eager",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "op,dtype,rows,cols,bytes_moved,median_us\nsort,bf16,1,1,4,1.0\n",
            r"t.csv:2:1: .*'sort' is not one of copy, fill",
        ),
        (
            "op,dtype,rows,cols,bytes_moved,median_us\ncopy,bf16,0,1,4,1.0\n",
            r"t.csv:2:3: .*'0' is not a whole number of",
        ),
        (
            ATTENTION + "prefill,bf16,1,8,8,64,64,64,1,math,1.0\n",
            r"t.csv:2:10: .*'math' is not one of flash, cudnn",
        ),
        ("system,m,k,quant_dtype,latency_ms\nh100_sxm,1,1,int8,1.0\n", r"t.csv:2:4: .*'int8' is not fp8"),
        (
            "op,dtype,m_or_rows,n_or_cols,k,joules_per_call,mean_us\nconv,bf16,1,1,1,1.0,1.0\n",
            r"t.csv:2:1: .*'conv' is not gemm, copy or idle",
        ),
        (
            "model,phase,batch,q_len,kv_len,median_us\ngpt2,decode,1,1,1,1.0\n",
            r"t.csv:2:1: .*'gpt2' is not one of llama3-8b-layer, llama3-70b-layer, resnet50-eager",
        ),
    ],
)
def test_rows_that_cannot_be_read_are_refused_with_their_place(tmp_path: Path, text: str, message: str):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ModelError, match=message):
        read_measurements(tmp_path / "t.csv")
