"""The ONNX front end, the mapper, and programs for the tensor PE array."""

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
from .pe_array.builder import ProgramBuilder
from .pe_array.convolution import ConvLayout, ConvShape, gemm_shape, layout_of
from .pe_array.images import place_channel_weights, place_input, place_parameters, place_weights, take_output
from .pe_array.kernel import ConvKernel
from .pe_array.programs import Quantisation, channel_scaling, conv_image, gemm_image
from .pe_array.timing import kernel_timing
from .pe_array.vector import VectorKernel, VectorTap, addition_taps, vector_layout, window_taps

__all__ = [
    "OBJECTIVES",
    "Constraints",
    "ConvKernel",
    "ConvLayout",
    "ConvShape",
    "Mapper",
    "MappingResult",
    "OpRow",
    "ProgramBuilder",
    "Quantisation",
    "TransformerBlock",
    "VectorKernel",
    "VectorTap",
    "WorkloadSummary",
    "addition_taps",
    "channel_scaling",
    "conv_image",
    "gemm_image",
    "gemm_shape",
    "generate_network",
    "group_key",
    "import_onnx",
    "kernel_timing",
    "layout_of",
    "load_workload",
    "map_op",
    "parse_objective",
    "place_channel_weights",
    "place_input",
    "place_parameters",
    "place_weights",
    "shipped_networks",
    "summarize_workload",
    "take_output",
    "transformer_block",
    "vector_layout",
    "window_taps",
]
