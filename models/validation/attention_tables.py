"""Tables of measured attention."""

from __future__ import annotations

import numpy as np

from ..gpu.attention import Attentions, BackendName
from .measured import Measurements
from .tables import Table, TableRow

KEYS_ALONE = {("a100_sxm", "latency_ms_trtllm")}
"""Systems and measured columns whose benchmark allots a cache of keys alone, so that decode reads values from the keys' memory.

Source: aiconfigurator, collector/trtllm/collect_attn.py: `CacheType.SELFKONLY`, whose block indices of V are those of K. On the A100 that
explains all that outruns main memory: half the bytes for grouped heads at every length, and for single ones as long as the
keys of all blocks under way fit in the cache. H100's and B200's times have no such hits, so that they stem from an earlier collector.
It is of the table, not of the chip: nothing else is priced with it."""
FRAMEWORK_DATATYPES = {"bfloat16": "bf16", "fp8": "fp8", "float16": "fp16"}


def read_own_attention(table: Table, column: str) -> list[Measurements]:
    """Scaled dot product attention of PyTorch, the cache cold, times in microseconds."""
    backends: tuple[BackendName, ...] = ("flash", "cudnn")
    by_kind: dict[tuple[str, BackendName, str, bool], list[TableRow]] = {}
    for row in table.rows:
        backend: BackendName | None = next((one for one in backends if one == row.text("backend")), None)
        if backend is None:
            raise row.fault("backend", f"one of {', '.join(backends)}")
        if row.text("phase") not in ("prefill", "decode"):
            raise row.fault("phase", "prefill or decode")
        if row.text(column):
            kind = (row.text("phase"), backend, row.text("dtype"), row.whole("causal") == 1)
            by_kind.setdefault(kind, []).append(row)
    found: list[Measurements] = []
    for (phase, backend, datatype, is_causal), rows in by_kind.items():
        kernels = Attentions(
            batch=np.array([row.whole("batch", 1) for row in rows]),
            query_heads=np.array([row.whole("q_heads", 1) for row in rows]),
            kv_heads=np.array([row.whole("kv_heads", 1) for row in rows]),
            head_dim=np.array([row.whole("head_dim", 1) for row in rows]),
            query_len=np.array([row.whole("q_len", 1) for row in rows]),
            kv_len=np.array([row.whole("kv_len", 1) for row in rows]),
            window=np.zeros(len(rows), dtype=np.int64),
            datatype=datatype,
            is_causal=is_causal,
            backend=backend,
        )
        found.append(
            Measurements(
                name=f"attention {phase} {backend}",
                kernels=kernels,
                quantity="time_s",
                values=np.array([row.number(column) * 1e-6 for row in rows]),
                lines=np.array([row.line for row in rows]),
            )
        )
    return found


def read_framework_attention(table: Table, column: str) -> list[Measurements]:
    """Attention of inference frameworks with rotary embedding and KV append, warm, times in milliseconds."""
    by_kind: dict[tuple[bool, str, str], list[TableRow]] = {}
    for row in table.rows:
        for name in ("attn_dtype", "kv_cache_dtype"):
            if row.text(name) not in FRAMEWORK_DATATYPES:
                raise row.fault(name, f"one of {', '.join(FRAMEWORK_DATATYPES)}")
        if row.text(column):
            kind = (row.whole("isl", 1) == 1, row.text("attn_dtype"), row.text("kv_cache_dtype"))
            by_kind.setdefault(kind, []).append(row)
    found: list[Measurements] = []
    for (is_decode, datatype, kv_datatype), rows in by_kind.items():
        query_len = np.array([row.whole("isl", 1) for row in rows])
        kernels = Attentions(
            batch=np.array([row.whole("batch_size", 1) for row in rows]),
            query_heads=np.array([row.whole("num_heads", 1) for row in rows]),
            kv_heads=np.array([row.whole("num_key_value_heads", 1) for row in rows]),
            head_dim=np.array([row.whole("head_dim", 1) for row in rows]),
            query_len=query_len,
            kv_len=query_len + np.array([row.whole("past_kv") for row in rows]),
            window=np.array([row.whole("window_size") for row in rows]),
            datatype=FRAMEWORK_DATATYPES[datatype],
            kv_datatype=FRAMEWORK_DATATYPES[kv_datatype],
            is_causal=not is_decode,
            backend="framework",
            kv_in_cache=True,
            values_are_keys=is_decode and (rows[0].text("system"), column) in KEYS_ALONE,
        )
        found.append(
            Measurements(
                name=f"attention {'generation' if is_decode else 'context'} {FRAMEWORK_DATATYPES[datatype]}",
                kernels=kernels,
                quantity="time_s",
                values=np.array([row.number(column) * 1e-3 for row in rows]),
                lines=np.array([row.line for row in rows]),
            )
        )
    return found
