"""What is proved of the RTL: property sets, the sizes at which each is proved, and faults that each must notice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..archdsl import PeArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A fault: one replacement in the text of a module.

    Attributes:
        module: The module's file, without its ending.
        old: What is replaced; it stands there once.
        new: What replaces it.
    """

    module: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertySet:
    """Properties of one module, in `formal/<top>.sv`.

    Attributes:
        top: The module that holds the properties, and instantiates what they are about.
        modules: The files of the design that it needs, without their endings.
        sizes: Values of its parameters, one proof each.
        arrays: Sizes (`rows`, `cols`) of PE arrays, one proof each, where the design takes them from its package.
        depth_steps: Steps that the induction may take; the base case covers one more than that.
        cuts: Signals that are left free, so that logic behind them, which the properties do not depend on, is not
            searched. What holds with any value of theirs holds with the one that they have.
        mutants: Faults by name.
    """

    top: str
    modules: tuple[str, ...]
    sizes: tuple[Mapping[str, int], ...] = ({},)
    arrays: tuple[tuple[int, int], ...] = ()
    depth_steps: int
    cuts: tuple[str, ...] = ()
    mutants: Mapping[str, Mutant] = field(default_factory=dict[str, Mutant])


def small_array(rows: int, cols: int) -> PeArray:
    """A PE array that is as small as it can be apart from its rows and columns."""
    lanes = max(rows, cols)
    return PeArray(
        rows=rows, cols=cols, scratchpad_bytes=64 * lanes, scratchpad_banks=2, is_single_port=False, word_bytes=lanes,
        accumulator_vectors=8, accumulator_banks=2, post_lanes=cols, bus_bytes=lanes, queue_depth=2, loads_in_flight=2,
        requests_in_flight=2, parameter_slots=2, table_slots=1, rounding="half_to_even", latency_cycles=4, cycles_per_beat=1,
    )  # fmt: skip


FIFO = PropertySet(
    top="tpe_fifo_fv",
    modules=("tpe_fifo",),
    sizes=tuple({"Depth": depth} for depth in (1, 2, 3, 4, 5, 8)),
    depth_steps=4,
    mutants={
        "full-one-early": Mutant(
            module="tpe_fifo", old="count_q != CountW'(Depth)", new="count_q != CountW'(Depth - 1)"
        ),
        "push-when-full": Mutant(module="tpe_fifo", old="wvalid_i && wready_o", new="wvalid_i"),
        "pop-when-empty": Mutant(module="tpe_fifo", old="rready_i && rvalid_o", new="rready_i"),
        "no-wrap": Mutant(module="tpe_fifo", old="(ptr == PtrW'(Depth - 1)) ? '0 : ptr + 1'b1", new="ptr + 1'b1"),
        "last-in-first-out": Mutant(module="tpe_fifo", old="mem[rptr_q]", new="mem[wptr_q - 1'b1]"),
    },
)
TOKENS = PropertySet(
    top="tpe_tokens_fv",
    modules=("tpe_tokens",),
    sizes=({"Width": 8}, {"Width": 3}),
    depth_steps=3,
    mutants={
        "two-count-as-none": Mutant(module="tpe_tokens", old="Width'(push_i)", new="Width'(push_i[0])"),
        "last-is-not-valid": Mutant(module="tpe_tokens", old="count_q != '0", new="count_q > Width'(1)"),
        "pop-is-lost-beside-push": Mutant(
            module="tpe_tokens", old="Width'(pop_i)", new="Width'(pop_i && push_i == '0)"
        ),
    },
)
ARBITER = PropertySet(
    top="tpe_arbiter_fv",
    modules=("tpe_arbiter",),
    sizes=tuple({"NumBanks": banks, "SinglePort": port} for banks in (1, 4) for port in (0, 1)),
    depth_steps=1,
    mutants={
        "second-read-ignores-first": Mutant(
            module="tpe_arbiter", old="assign taken_1 = read_grant_o[0];", new="assign taken_1 = '0;"
        ),
        "read-ignores-load": Mutant(module="tpe_arbiter", old="assign taken_0 = load_i;", new="assign taken_0 = '0;"),
        "store-ignores-load": Mutant(module="tpe_arbiter", old="assign taken_2 = load_i;", new="assign taken_2 = '0;"),
        "store-waits-for-any-bank": Mutant(
            module="tpe_arbiter", old="store_ready_o = (store_i & taken_2) == '0", new="store_ready_o = taken_2 == '0"
        ),
        "store-before-second-read": Mutant(
            module="tpe_arbiter", old="taken_2 = taken_1 | read_grant_o[1]", new="taken_2 = taken_1"
        ),
    },
)
SHADOW = PropertySet(
    top="tpe_shadow_fv",
    modules=("tpe_shadow",),
    depth_steps=3,
    mutants={
        "free-while-loading": Mutant(
            module="tpe_shadow", old="if (preload_issue_i) reserved_q", new="if (preload_last_i) reserved_q"
        ),
        "free-once-complete": Mutant(
            module="tpe_shadow", old="else if (swap_issue_i) reserved_q", new="else if (preload_last_i) reserved_q"
        ),
        "swapped-twice": Mutant(
            module="tpe_shadow", old="if (swap_issue_i) complete_q", new="if (preload_issue_i) complete_q"
        ),
        "complete-at-its-issue": Mutant(
            module="tpe_shadow", old="complete_q || preload_last_i", new="complete_q || reserved_q"
        ),
    },
)
WEIGHTS = PropertySet(
    top="tpe_weights_fv",
    modules=(
        "tpe_number_pkg", "tpe_align", "tpe_skew", "tpe_array", "tpe_preload", "tpe_compute", "tpe_vector", "tpe_shadow", "tpe_execute",
    ),
    arrays=((2, 2), (3, 2), (2, 3)),
    depth_steps=10,
    # Which vectors and rows are read, where a walk ends, and what the scratchpad holds.
    cuts=(
        "u_dut.u_compute.is_any_valid", "u_dut.u_compute.is_x_end", "u_dut.u_preload.has_weights",
        "u_dut.u_preload.aligned",
    ),
    mutants={
        "preload-holds-for-no-swap": Mutant(
            module="tpe_execute", old=".hold_i(swap_pending && !compute_first)", new=".hold_i(1'b0)"
        ),
        "preload-over-fresh-weights": Mutant(
            module="tpe_execute", old="preload_ready && is_shadow_free", new="preload_ready"
        ),
        "swap-of-half-a-preload": Mutant(
            module="tpe_execute", old="compute_ready && (!compute_insn.swap || is_shadow_complete)", new="compute_ready"
        ),
        "swap-ahead-of-its-vector": Mutant(
            module="tpe_array", old="swap_q[r][(c == 0) ? 0 : c - 1]", new="swap_i[r]"
        ),
        "weights-without-skew": Mutant(
            module="tpe_execute", old="array_weight[c]} = weight_skewed[c]", new="array_weight[c]} = weight_lanes[c]"
        ),
        "swap-with-every-vector": Mutant(module="tpe_compute", old="      swap_q <= 1'b0;\n      if (is_held_q)", new="      if (is_held_q)"),
    },
)  # fmt: skip

PROPERTY_SETS: Mapping[str, PropertySet] = {
    "fifo": FIFO,
    "tokens": TOKENS,
    "arbiter": ARBITER,
    "shadow": SHADOW,
    "weights": WEIGHTS,
}
