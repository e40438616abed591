"""Pass `check-host-ops`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from ...archdsl import PassError
from ..host import SUPPORTED, HostOp, Place, host_ops
from .base import PassContext

BORDER = frozenset(
    {"QuantizeLinear", "DequantizeLinear", "Softmax", "Cast", "Reshape", "Transpose", "Flatten", "Identity"}
)
"""Operators that the host may run in front of the first program and behind the last one."""

FRONT = BORDER | {"Gather"}
"""Those in front of the first program: words are looked up in a table of embeddings."""

CONVERTERS = frozenset({"QuantizeLinear", "DequantizeLinear"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckHostOps:
    """Leaves the module as it is, and fails where ops would run on the host that must not.

    In front of the first program the host may look embeddings up; there and behind the last program it may convert numbers and
    take the final softmax. All else must be asked for.

    Before and after:
        %1 = "qnn.matmul"(%0, ...) ...
        %2 = "graph.dequantize_linear"(%1, ...) ...
        %3 = "graph.softmax"(%2) ...

    Attributes:
        fallback: Whether any op may run on the host.
    """

    name: ClassVar[str] = "check-host-ops"
    fallback: bool = False

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See the class."""
        if self.fallback:
            return module
        hosts = [host for host in host_ops(module) if not _is_allowed(host)]
        # What converts to and from the ops that are at fault says nothing new.
        faults = [str(host) for host in hosts if host.op.op_type not in CONVERTERS] or [str(host) for host in hosts]
        if not any(op.name.startswith("qnn.") for op in module.body.block.ops):
            faults.append(
                "nothing of the network is quantised to 8 bits, so that nothing runs on the array: quantise it"
            )
        if faults:
            remedy = f"supported between int8 tensors: {', '.join(SUPPORTED)}; or run them on the host with --fallback"
            raise PassError("\n".join([*faults, remedy]))
        return module


def _is_allowed(host: HostOp) -> bool:
    return not host.crosses and host.op.op_type in (FRONT if host.place == Place.BEFORE else BORDER)
