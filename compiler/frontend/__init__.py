"""The ONNX front end: files, shipped and generated networks as workloads.

`reading` parses a file, `flattening` walks it once and infers every shape, `storage` finds how tensors
of quantised graphs are held, and `importer` lowers node by node through the table in `registry`.
"""

from .generated import TransformerBlock, transformer_block
from .importer import import_onnx
from .loading import generate_network, load_workload, shipped_networks
from .summary import OpRow, WorkloadSummary, summarize_workload

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
