"""Short text for one op: `gemm:M=512,N=512,K=512,bits=8` and `conv:K=64,C=64,OY=56,OX=56,FY=3,FX=3`.

`gemm` multiplies `A[B,M,K]` by `W[B,K,N]` into `Z[B,M,N]`; `B` is there only when it is given.
`conv` takes a 1-D (`OX FX`), 2-D (`OY OX FY FX`) or 3-D (`OZ OY OX FZ FY FX`) convolution of `I` with
`W` into `O`; `K` and `C` are the channels of one of the `G` groups, so that a depthwise convolution
over 32 channels is `G=32,K=1,C=1`. `stride` and `dilation` hold for every axis, `stride_y` for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from .errors import Diagnostic, WorkloadError
from .fields import DATATYPE_BITS
from .spec import nearest_hint
from .workload import Op, Tensor, TensorAxis, TensorRole

SOURCE_NAME = "<workload>"
WIDTH_KEYS = ("bits", "acc_bits", "datatype")
DEFAULT_BITS = 8
CONV_CHANNELS = ("B", "G", "K", "C")
AXIS_LETTERS = ("Z", "Y", "X")
MAX_SIZE = 2**31 - 1
MAX_BITS = 128
NUMBER = re.compile(r"[0-9]{1,10}")
ITEM = re.compile(r"\s*([A-Za-z_]+)\s*=\s*([^,]*?)\s*$")


@dataclass(slots=True)
class _Items:
    """The `key=value` pairs of a notation, and the faults found so far."""

    text: str
    values: dict[str, str] = field(default_factory=dict[str, str])
    columns: dict[str, int] = field(default_factory=dict[str, int])
    faults: list[Diagnostic] = field(default_factory=list[Diagnostic])

    def add_fault(self, column: int, message: str, path: str = "") -> None:
        self.faults.append(
            Diagnostic(file=SOURCE_NAME, line=1, column=column, path=path, message=message, source_line=self.text)
        )

    def number(self, key: str, default: int, largest: int = MAX_SIZE) -> int:
        """A positive integer; the default stands in for one that is faulty."""
        text = self.values.get(key)
        if text is None:
            return default
        if not NUMBER.fullmatch(text) or not 1 <= int(text) <= largest:
            message = f"'{text}' is not a size; sizes are whole numbers from 1 to {largest}"
            self.add_fault(self.columns[key], message, key)
            return default
        return int(text)

    def check_keys(self, allowed: Iterable[str], required: Iterable[str]) -> None:
        """Report unknown keys and missing ones."""
        known = list(allowed)
        for key, column in self.columns.items():
            if key not in known:
                self.add_fault(column, f"unknown key{nearest_hint(key, known)}", key)
        missing = [key for key in required if key not in self.values]
        if missing:
            self.add_fault(len(self.text) + 1, f"missing {', '.join(missing)}; give it as '{missing[0]}=SIZE'")


def is_notation(text: str) -> bool:
    """Whether a text starts like a notation."""
    return text.partition(":")[0].strip() in _BUILDERS


def parse_notation(text: str) -> Op:
    """Build the op that a notation describes.

    Args:
        text: `gemm:...` or `conv:...`. Sizes are whole numbers from 1. `bits` (8 unless given) is the
            width of every tensor as it is stored; `acc_bits` overrides the output's. The
            multiplication is `int{bits}` unless `datatype` names another (`bf16`), which also sets
            `bits` where that is left out.

    Raises:
        WorkloadError: The text is malformed; every fault with its column.
    """
    kind, colon, _ = text.partition(":")
    items = _split(text, len(kind) + 1)
    builder = _BUILDERS.get(kind.strip())
    if builder is None:
        items.faults.clear()  # those of its keys mean nothing
        items.add_fault(1, f"unknown kind of op '{kind.strip()}'{nearest_hint(kind.strip(), _BUILDERS)}")
        raise WorkloadError(diagnostics=items.faults)
    if not colon:
        items.faults.clear()
        items.add_fault(len(text) + 1, f"'{kind}' needs its sizes; write for example '{_EXAMPLES[kind.strip()]}'")
        raise WorkloadError(diagnostics=items.faults)
    op = builder(items)
    if items.faults or op is None:
        raise WorkloadError(diagnostics=sorted(items.faults, key=lambda fault: fault.column))
    return op


def _split(text: str, start: int) -> _Items:
    items = _Items(text)
    position = start
    for part in text[start:].split(","):
        column = position + len(part) - len(part.lstrip()) + 1
        position += len(part) + 1
        match = ITEM.match(part)
        if match is None:
            items.add_fault(column, f"'{part.strip()}' is not 'key=value'")
            continue
        key, value = match.groups()
        if key in items.values:
            items.add_fault(column, f"given twice (first '{key}={items.values[key]}')", key)
        items.values.setdefault(key, value)
        items.columns.setdefault(key, column)
    return items


def _widths(items: _Items) -> tuple[int, int, str]:
    """Bits of the tensors, bits of the output, datatype."""
    datatype = items.values.get("datatype")
    if datatype is not None and datatype not in DATATYPE_BITS:
        items.add_fault(
            items.columns["datatype"], f"unknown datatype{nearest_hint(datatype, DATATYPE_BITS)}", "datatype"
        )
    bits = items.number("bits", DATATYPE_BITS.get(datatype or "", DEFAULT_BITS), MAX_BITS)
    return bits, items.number("acc_bits", bits, MAX_BITS), datatype or f"int{bits}"


def _build_gemm(items: _Items) -> Op | None:
    items.check_keys(("B", "M", "N", "K", *WIDTH_KEYS), ("M", "N", "K"))
    batch = ("B",) if "B" in items.values else ()
    dims = tuple((dim, items.number(dim, 1)) for dim in (*batch, "M", "N", "K"))
    bits, acc_bits, datatype = _widths(items)
    if items.faults:
        return None
    tensors = (
        _tensor("A", TensorRole.INPUT, bits, (*batch, "M", "K")),
        _tensor("W", TensorRole.WEIGHT, bits, (*batch, "K", "N")),
        _tensor("Z", TensorRole.OUTPUT, acc_bits, (*batch, "M", "N")),
    )
    return Op(name="gemm", kind="gemm", dims=dims, tensors=tensors, datatype=datatype)


def _build_conv(items: _Items) -> Op | None:
    # the axes that any size names, so that a forgotten one is reported
    first = min(
        (idx for idx, x in enumerate(AXIS_LETTERS) if {f"O{x}", f"F{x}"} & items.values.keys()),
        default=len(AXIS_LETTERS) - 1,
    )
    letters = AXIS_LETTERS[first:]
    sizes = (*(f"O{x}" for x in letters), *(f"F{x}" for x in letters))
    steps = [
        f"{step}{suffix}" for step in ("stride", "dilation") for suffix in ("", *(f"_{x.lower()}" for x in letters))
    ]
    items.check_keys((*CONV_CHANNELS, *sizes, *steps, *WIDTH_KEYS), ("K", "C", *sizes))
    dims = tuple((dim, items.number(dim, 1)) for dim in (*CONV_CHANNELS, *sizes))
    stride, dilation = items.number("stride", 1), items.number("dilation", 1)
    windows = tuple(
        TensorAxis(
            terms=(
                (f"O{x}", items.number(f"stride_{x.lower()}", stride)),
                (f"F{x}", items.number(f"dilation_{x.lower()}", dilation)),
            )
        )
        for x in letters
    )
    bits, acc_bits, datatype = _widths(items)
    if items.faults:
        return None
    signal = _tensor("I", TensorRole.INPUT, bits, ("B", "G", "C"))
    tensors = (
        Tensor(name="I", role=TensorRole.INPUT, bits=bits, axes=(*signal.axes, *windows)),
        _tensor("W", TensorRole.WEIGHT, bits, ("G", "K", "C", *(f"F{x}" for x in letters))),
        _tensor("O", TensorRole.OUTPUT, acc_bits, ("B", "G", "K", *(f"O{x}" for x in letters))),
    )
    return Op(name="conv", kind="conv", dims=dims, tensors=tensors, datatype=datatype)


def _tensor(name: str, role: TensorRole, bits: int, dims: Iterable[str]) -> Tensor:
    return Tensor(name=name, role=role, bits=bits, axes=tuple(TensorAxis(terms=((dim, 1),)) for dim in dims))


_BUILDERS = {"gemm": _build_gemm, "conv": _build_conv}
_EXAMPLES = {
    "gemm": "gemm:M=512,N=512,K=512,bits=8",
    "conv": "conv:K=64,C=64,OY=56,OX=56,FY=3,FX=3,stride=1,bits=8",
}
