"""Cycles, pJ and mm^2 from an architecture, a workload and a mapping.

Names are imported at their first use, so that nobody waits for what he does not use.
"""

from typing import TYPE_CHECKING

from ..archdsl import first_use
from .compiled import compiled, elementwise

if TYPE_CHECKING:
    from . import serving
    from .batches import count, estimate_batch
    from .components import (
        ArchNumbers,
        AreaPart,
        AxisNumbers,
        ComputeNumbers,
        DatatypeNumbers,
        FanoutNumbers,
        LevelNumbers,
        Provenance,
        pe_array_area,
        post_processing_area,
        resolve,
    )
    from .conventions import CONVENTIONS, Convention
    from .counting import returned_sums, sum_bytes_of
    from .counts import Counts, Transfer
    from .detailed import Cycles, bottleneck_of, detailed_batch, detailed_cycles
    from .detailed_timing import Timing, timing_of, with_pass_times
    from .estimate import (
        Action,
        Fidelity,
        NetworkEstimate,
        OpEstimate,
        estimate_network,
        estimate_op,
        estimate_vector_op,
        prices_of,
    )
    from .gpu.attention_patterns import AttentionOp, KernelOp, join_attention
    from .gpu.calibrations import Mode
    from .gpu.chip import Chip, make_chip
    from .gpu.ranking import RankedTiling, TiledProduct, TilingRanking, candidate_tilings, rank_tilings
    from .gpu.tilings import Tiling
    from .gpu.workloads import KernelEstimate, estimate_kernels
    from .hierarchy import AxisInfo, Hierarchy, LevelInfo, hierarchy_of
    from .nest import Holder, Nest, NestLoop, make_nest, nest_of, sliding_axes
    from .parts import Part, max_of, sum_of
    from .pe_array.accesses import Accesses, AccessPrices, count_accesses
    from .pe_array.closed_form import KernelCycles, KernelTiming, time_kernel, time_kernels
    from .pe_array.functional import FunctionalSimulator
    from .pe_array.numerics import requantised
    from .pe_array.replay import Replay, replay, with_issue_cycles
    from .pe_array.steps import LOAD as LOAD_STEP
    from .pe_array.steps import MATMUL as MATMUL_STEP
    from .pe_array.steps import STORE as STORE_STEP
    from .pe_array.steps import VECTOR as VECTOR_STEP
    from .pe_array.steps import StepColumns, StepCycles, time_steps
    from .pricing import Priced, Prices, price, stack_prices
    from .systems import make_machine
    from .validation import (
        ErrorSummary,
        Fit,
        MeasuredTable,
        Quantity,
        ShapeRanking,
        ValidatedRow,
        Validation,
        fit_constants,
        read_measurements,
        validate,
    )

__getattr__ = first_use(__name__, __file__)

__all__ = [
    "CONVENTIONS",
    "LOAD_STEP",
    "MATMUL_STEP",
    "STORE_STEP",
    "VECTOR_STEP",
    "AccessPrices",
    "Accesses",
    "Action",
    "ArchNumbers",
    "AreaPart",
    "AttentionOp",
    "AxisInfo",
    "AxisNumbers",
    "Chip",
    "ComputeNumbers",
    "Convention",
    "Counts",
    "Cycles",
    "DatatypeNumbers",
    "ErrorSummary",
    "FanoutNumbers",
    "Fidelity",
    "Fit",
    "FunctionalSimulator",
    "Hierarchy",
    "Holder",
    "KernelCycles",
    "KernelEstimate",
    "KernelOp",
    "KernelTiming",
    "LevelInfo",
    "LevelNumbers",
    "MeasuredTable",
    "Mode",
    "Nest",
    "NestLoop",
    "NetworkEstimate",
    "OpEstimate",
    "Part",
    "Priced",
    "Prices",
    "Provenance",
    "Quantity",
    "RankedTiling",
    "Replay",
    "ShapeRanking",
    "StepColumns",
    "StepCycles",
    "TiledProduct",
    "Tiling",
    "TilingRanking",
    "Timing",
    "Transfer",
    "ValidatedRow",
    "Validation",
    "bottleneck_of",
    "candidate_tilings",
    "compiled",
    "count",
    "count_accesses",
    "detailed_batch",
    "detailed_cycles",
    "elementwise",
    "estimate_batch",
    "estimate_kernels",
    "estimate_network",
    "estimate_op",
    "estimate_vector_op",
    "fit_constants",
    "hierarchy_of",
    "join_attention",
    "make_chip",
    "make_machine",
    "make_nest",
    "max_of",
    "nest_of",
    "pe_array_area",
    "post_processing_area",
    "price",
    "prices_of",
    "rank_tilings",
    "read_measurements",
    "replay",
    "requantised",
    "resolve",
    "returned_sums",
    "serving",
    "sliding_axes",
    "stack_prices",
    "sum_bytes_of",
    "sum_of",
    "time_kernel",
    "time_kernels",
    "time_steps",
    "timing_of",
    "validate",
    "with_issue_cycles",
    "with_pass_times",
]
