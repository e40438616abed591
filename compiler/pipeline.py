"""From an ONNX network to level 2 of the IR: the passes, in order, and a plain loop over them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from .frontend.network import read_network
from .ir.store import DataStore
from .passes.annotate_inputs import AnnotateInputs
from .passes.base import Pass, PassContext
from .passes.canonicalise_graph import CanonicaliseGraph
from .passes.canonicalise_qnn import CanonicaliseQnn
from .passes.convert_convolutions_to_qnn import ConvertConvolutionsToQnn
from .passes.convert_elementwise_to_qnn import ConvertElementwiseToQnn
from .passes.convert_functions_to_qnn import ConvertFunctionsToQnn
from .passes.convert_movement_to_qnn import ConvertMovementToQnn
from .passes.convert_pools_to_qnn import ConvertPoolsToQnn
from .passes.convert_products_to_qnn import ConvertProductsToQnn
from .passes.convert_qoperator_to_qdq import ConvertQoperatorToQdq
from .passes.convert_rows_to_qnn import ConvertRowsToQnn
from .passes.convert_unsigned_to_signed import ConvertUnsignedToSigned
from .passes.eliminate_common_subexpressions import EliminateCommonSubexpressions
from .passes.eliminate_dead_code import EliminateDeadCode
from .passes.fold_batch_norm import FoldBatchNorm
from .passes.fold_constants import FoldConstants
from .passes.fold_permutations import FoldPermutations
from .passes.fuse_layer_norms import FuseLayerNorms
from .passes.fuse_lookups import FuseLookups
from .passes.hoist_quantize import HoistQuantize
from .passes.lower_border_pools import LowerBorderPools
from .passes.lower_gemm import LowerGemm
from .passes.lower_means import LowerMeans
from .passes.lower_one_dimensional import LowerOneDimensional
from .passes.manager import PassManager
from .passes.quantise_intermediates import QuantiseIntermediates
from .passes.sink_dequantize import SinkDequantize
from .passes.sink_transposes import SinkTransposes
from .passes.split_rectifiers import SplitRectifiers

if TYPE_CHECKING:
    from onnx import ModelProto

FRONT_PASSES: tuple[Pass, ...] = (
    ConvertQoperatorToQdq(),
    FoldConstants(),
    AnnotateInputs(),
    CanonicaliseGraph(),
    LowerGemm(),
    LowerOneDimensional(),
    FuseLayerNorms(),
    LowerMeans(),
    LowerBorderPools(),
    FoldBatchNorm(),
    ConvertUnsignedToSigned(),
    SinkDequantize(),
    HoistQuantize(),
    CanonicaliseGraph(),
    FoldConstants(),
    EliminateCommonSubexpressions(),
    EliminateDeadCode(),
    SplitRectifiers(),
    QuantiseIntermediates(),
    ConvertConvolutionsToQnn(),
    ConvertProductsToQnn(),
    ConvertPoolsToQnn(),
    ConvertFunctionsToQnn(),
    ConvertRowsToQnn(),
    ConvertElementwiseToQnn(),
    ConvertMovementToQnn(),
    EliminateDeadCode(),
    SinkTransposes(),
    CanonicaliseQnn(),
    FoldPermutations(),
    FuseLookups(),
    FoldConstants(folds_weights=True),
    EliminateCommonSubexpressions(),
    EliminateDeadCode(),
)
"""From `graph` to `qnn`; what has no form in integers stays `graph`."""


def lower_network(
    source: str | os.PathLike[str] | ModelProto, shapes: Mapping[str, int] | None = None
) -> tuple[ModuleOp, DataStore]:
    """Reads a network and lowers it to `qnn`, as far as it goes.

    Args:
        source: An `.onnx` file, or a model.
        shapes: Sizes of open dims.

    Returns:
        A module of `qnn` ops, and of `graph` ops that run on the host; `host_ops` tells which and why.

    Raises:
        WorkloadError: It is not a usable network.
        PassError: A pass made something that does not verify.
    """
    module, store = read_network(source, shapes=shapes)
    return run_passes(module, PassContext(store=store)), store


def run_passes(module: ModuleOp, ctx: PassContext, passes: tuple[Pass, ...] = FRONT_PASSES) -> ModuleOp:
    """The module after some passes, verified after each.

    Raises:
        PassError: A pass failed, or made something that does not verify.
    """
    return PassManager(passes=passes).run(module, ctx).module
