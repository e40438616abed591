"""Pure validated data: architectures, workloads, mappings, units and errors.

Names are imported at their first use, so that nobody waits for what he does not use.
"""

from typing import TYPE_CHECKING

from .errors import (
    ArchError,
    CompileError,
    Diagnostic,
    InfeasibleError,
    MappingError,
    ModelError,
    PassError,
    RtlError,
    SweepError,
    ToolkitError,
    WorkloadError,
)
from .lazy import first_use

if TYPE_CHECKING:
    from . import units
    from .calibration import MAX_CONSTANTS, Calibration
    from .description import DescriptionTree, list_presets, list_systems
    from .export import arch_json_schema, dump_arch, dump_spec, dump_system, system_json_schema
    from .fields import DATATYPE_BITS, Intrinsic, Technology
    from .folders import cache_folder
    from .gpu import GpuArch, GpuCache
    from .infeasible import Infeasible, counted
    from .isa.arrays import place_array, take_array, value_range
    from .isa.checker import ProgramFault, check_program, require_valid_program
    from .isa.definition import (
        HEADER_DEPENDENCES,
        InstructionField,
        InstructionKind,
        InstructionSet,
        tensor_pe_array_isa,
    )
    from .isa.encoding import Instruction, assemble, decode, disassemble, encode, encode_program
    from .isa.formats import BIAS_SHIFT, E4M3, E5M2, FP8_FORMATS, INT8, NumberFormat
    from .isa.image import ProgramImage, arch_hash, load_image, make_image, save_image
    from .isa.manifest import (
        Checksums,
        LoadRange,
        Manifest,
        MemoryMap,
        OpRecord,
        Placement,
        Region,
        Scaling,
        ScratchpadMap,
        Symbol,
        SymbolRole,
    )
    from .isa.parameters import (
        INDEX_BITS,
        OUT_DEPTH,
        PARAMETER_BYTES,
        TABLE_BYTES,
        TOKEN_BITS,
        PeArray,
        Rounding,
        pe_array,
    )
    from .isa.reference import isa_markdown
    from .language_config import language_model_of, read_language_config
    from .language_loading import list_language_models, load_language_model
    from .language_model import Experts, GroupedAttention, LanguageModel, LatentAttention
    from .language_weights import (
        WEIGHT_ROLES,
        WeightRole,
        WeightTensor,
        kept_tokens,
        kv_bytes,
        kv_elements_per_token,
        num_active_weights,
        num_weights,
        weight_tensors,
    )
    from .legality import MappingFault, check_mapping, require_legal
    from .loading import (
        Arch,
        Description,
        arch_from_tree,
        description_from_tree,
        load_arch,
        load_description,
        load_system,
        load_tree,
        spec_from_tree,
        system_from_tree,
    )
    from .mapping import Keep, Loop, Mapping, MappingNode, Spatial, Temporal
    from .mapping_io import (
        ANY_OP,
        MappingFile,
        dump_mapping,
        dump_mappings,
        load_mapping,
        load_mapping_file,
        parse_mapping,
        written_mapping,
    )
    from .nodes import (
        Axis,
        Compute,
        ComputeType,
        Fanout,
        Memory,
        Node,
        Ports,
    )
    from .notation import is_notation, parse_notation
    from .overrides import apply_overrides, overrides_from_python
    from .reference import reference_markdown
    from .spatial import Control, SpatialArch
    from .spec import Fault, Spec, field_names, nearest_hint
    from .system import ChipGroup, Link, LinkTechnology, Rack, System, SystemEdge, whole_cycles
    from .topology import Dragonfly, Switch, Torus
    from .units import Bandwidth, Dimension
    from .validation import validate_document, validate_tree
    from .variants import Variant, variant_from_tree
    from .workload import (
        DimClass,
        Op,
        Tensor,
        TensorAxis,
        TensorRole,
        Unmodelled,
        VectorOp,
        Workload,
        ceil_div,
        touched,
    )
    from .yamlio import dump_yaml, parse_yaml, read_yaml
    from .yamltree import Document, Place, Source, YamlList, YamlMap, YamlScalar, YamlTree, find, locate, to_plain

__getattr__ = first_use(__name__, __file__)

__all__ = [
    "ANY_OP",
    "BIAS_SHIFT",
    "DATATYPE_BITS",
    "E4M3",
    "E5M2",
    "FP8_FORMATS",
    "HEADER_DEPENDENCES",
    "INDEX_BITS",
    "INT8",
    "MAX_CONSTANTS",
    "OUT_DEPTH",
    "PARAMETER_BYTES",
    "TABLE_BYTES",
    "TOKEN_BITS",
    "WEIGHT_ROLES",
    "Arch",
    "ArchError",
    "Axis",
    "Bandwidth",
    "Calibration",
    "Checksums",
    "ChipGroup",
    "CompileError",
    "Compute",
    "ComputeType",
    "Control",
    "Description",
    "DescriptionTree",
    "Diagnostic",
    "DimClass",
    "Dimension",
    "Document",
    "Dragonfly",
    "Experts",
    "Fanout",
    "Fault",
    "GpuArch",
    "GpuCache",
    "GroupedAttention",
    "Infeasible",
    "InfeasibleError",
    "Instruction",
    "InstructionField",
    "InstructionKind",
    "InstructionSet",
    "Intrinsic",
    "Keep",
    "LanguageModel",
    "LatentAttention",
    "Link",
    "LinkTechnology",
    "LoadRange",
    "Loop",
    "Manifest",
    "Mapping",
    "MappingError",
    "MappingFault",
    "MappingFile",
    "MappingNode",
    "Memory",
    "MemoryMap",
    "ModelError",
    "Node",
    "NumberFormat",
    "Op",
    "OpRecord",
    "PassError",
    "PeArray",
    "Place",
    "Placement",
    "Ports",
    "ProgramFault",
    "ProgramImage",
    "Rack",
    "Region",
    "Rounding",
    "RtlError",
    "Scaling",
    "ScratchpadMap",
    "Source",
    "Spatial",
    "SpatialArch",
    "Spec",
    "SweepError",
    "Switch",
    "Symbol",
    "SymbolRole",
    "System",
    "SystemEdge",
    "Technology",
    "Temporal",
    "Tensor",
    "TensorAxis",
    "TensorRole",
    "ToolkitError",
    "Torus",
    "Unmodelled",
    "Variant",
    "VectorOp",
    "WeightRole",
    "WeightTensor",
    "Workload",
    "WorkloadError",
    "YamlList",
    "YamlMap",
    "YamlScalar",
    "YamlTree",
    "apply_overrides",
    "arch_from_tree",
    "arch_hash",
    "arch_json_schema",
    "assemble",
    "cache_folder",
    "ceil_div",
    "check_mapping",
    "check_program",
    "counted",
    "decode",
    "description_from_tree",
    "disassemble",
    "dump_arch",
    "dump_mapping",
    "dump_mappings",
    "dump_spec",
    "dump_system",
    "dump_yaml",
    "encode",
    "encode_program",
    "field_names",
    "find",
    "first_use",
    "is_notation",
    "isa_markdown",
    "kept_tokens",
    "kv_bytes",
    "kv_elements_per_token",
    "language_model_of",
    "list_language_models",
    "list_presets",
    "list_systems",
    "load_arch",
    "load_description",
    "load_image",
    "load_language_model",
    "load_mapping",
    "load_mapping_file",
    "load_system",
    "load_tree",
    "locate",
    "make_image",
    "nearest_hint",
    "num_active_weights",
    "num_weights",
    "overrides_from_python",
    "parse_mapping",
    "parse_notation",
    "parse_yaml",
    "pe_array",
    "place_array",
    "read_language_config",
    "read_yaml",
    "reference_markdown",
    "require_legal",
    "require_valid_program",
    "save_image",
    "spec_from_tree",
    "system_from_tree",
    "system_json_schema",
    "take_array",
    "tensor_pe_array_isa",
    "to_plain",
    "touched",
    "units",
    "validate_document",
    "validate_tree",
    "value_range",
    "variant_from_tree",
    "weight_tensors",
    "whole_cycles",
    "written_mapping",
]
