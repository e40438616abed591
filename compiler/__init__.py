"""The ONNX front end and the mapper."""

from .frontend import (
    OpRow,
    TransformerBlock,
    WorkloadSummary,
    generate_network,
    import_onnx,
    load_workload,
    shipped_networks,
    summarize_workload,
    transformer_block,
)

__all__ = [
    "OpRow",
    "TransformerBlock",
    "WorkloadSummary",
    "generate_network",
    "import_onnx",
    "load_workload",
    "shipped_networks",
    "summarize_workload",
    "transformer_block",
]
