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
from .mapper import OBJECTIVES, Constraints, Mapper, MappingResult, group_key, map_op, parse_objective

__all__ = [
    "OBJECTIVES",
    "Constraints",
    "Mapper",
    "MappingResult",
    "OpRow",
    "TransformerBlock",
    "WorkloadSummary",
    "generate_network",
    "group_key",
    "import_onnx",
    "load_workload",
    "map_op",
    "parse_objective",
    "shipped_networks",
    "summarize_workload",
    "transformer_block",
]
