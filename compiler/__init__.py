"""The ONNX front end, the mapper, the compiler of networks, and programs for the tensor PE array.

Names are imported at their first use: whoever only estimates waits neither for xDSL nor for the mapper.
"""

from typing import TYPE_CHECKING

from ..archdsl import first_use

if TYPE_CHECKING:
    from .codegen.compiled import CompiledNetwork
    from .codegen.folder import SavedNetwork, load_network, save_network
    from .codegen.records import HostRecord, NetworkRecord, ProgramRecord, TensorRecord
    from .compilation import Compilation, CompileOptions, DumpOptions, compile_network
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
    from .passes.manager import PassRecord, split_names
    from .pe_array.builder import ProgramBuilder
    from .pe_array.convolution import ConvLayout, ConvShape, gemm_shape, layout_of
    from .pe_array.images import place_channel_weights, place_input, place_parameters, place_weights, take_output
    from .pe_array.kernel import ConvKernel
    from .pe_array.programs import Quantisation, channel_scaling, conv_image, gemm_image
    from .pe_array.timing import kernel_timing
    from .pe_array.vector import VectorKernel, VectorTap, addition_taps, vector_layout, window_taps

__getattr__ = first_use(__name__, __file__)

__all__ = [
    "OBJECTIVES",
    "Compilation",
    "CompileOptions",
    "CompiledNetwork",
    "Constraints",
    "ConvKernel",
    "ConvLayout",
    "ConvShape",
    "DumpOptions",
    "HostRecord",
    "Mapper",
    "MappingResult",
    "NetworkRecord",
    "OpRow",
    "PassRecord",
    "ProgramBuilder",
    "ProgramRecord",
    "Quantisation",
    "SavedNetwork",
    "TensorRecord",
    "TransformerBlock",
    "VectorKernel",
    "VectorTap",
    "WorkloadSummary",
    "addition_taps",
    "channel_scaling",
    "compile_network",
    "conv_image",
    "gemm_image",
    "gemm_shape",
    "generate_network",
    "group_key",
    "import_onnx",
    "kernel_timing",
    "layout_of",
    "load_network",
    "load_workload",
    "map_op",
    "parse_objective",
    "place_channel_weights",
    "place_input",
    "place_parameters",
    "place_weights",
    "save_network",
    "shipped_networks",
    "split_names",
    "summarize_workload",
    "take_output",
    "transformer_block",
    "vector_layout",
    "window_taps",
]
