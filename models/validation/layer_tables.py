"""Tables of measured layers and networks."""

from __future__ import annotations

import numpy as np

from ..gpu.layers import LLAMA_3_8B, LLAMA_3_70B, LlamaShape, llama_layer
from ..gpu.resnet import resnet50
from ..gpu.sequence import KernelSequence
from .measured import Measurements
from .tables import Table, TableRow

LLAMA_LAYERS: dict[str, LlamaShape] = {"llama3-8b-layer": LLAMA_3_8B, "llama3-70b-layer": LLAMA_3_70B}
NETWORKS = ("resnet50-eager",)


def read_own_layers(table: Table, column: str) -> list[Measurements]:
    """Llama layers and ResNet-50 as eager kernels in a CUDA graph, weights cold, times in microseconds."""
    by_model: dict[str, list[TableRow]] = {}
    for row in table.rows:
        known = (*LLAMA_LAYERS, *NETWORKS)
        if row.text("model") not in known:
            raise row.fault("model", f"one of {', '.join(known)}")
        if row.text(column):
            by_model.setdefault(row.text("model"), []).append(row)
    return [
        Measurements(
            name=f"layer {model}" if model in LLAMA_LAYERS else f"network {model}",
            kernels=_llama(model, rows) if model in LLAMA_LAYERS else _resnet(model, rows),
            quantity="time_s",
            values=np.array([row.number(column) * 1e-6 for row in rows]),
            lines=np.array([row.line for row in rows]),
        )
        for model, rows in by_model.items()
    ]


def _llama(model: str, rows: list[TableRow]) -> KernelSequence:
    batch = np.array([row.whole("batch", 1) for row in rows])
    query_len = np.array([row.whole("q_len", 1) for row in rows])
    kv_len = np.array([row.whole("kv_len", 1) for row in rows])
    labels = tuple(f"{model} b{b} q{q} kv{k}" for b, q, k in zip(batch, query_len, kv_len, strict=True))
    return llama_layer(LLAMA_LAYERS[model], labels, batch, query_len, kv_len)


def _resnet(model: str, rows: list[TableRow]) -> KernelSequence:
    batch = np.array([row.whole("batch", 1) for row in rows])
    return resnet50(tuple(f"{model} b{b}" for b in batch), batch)
