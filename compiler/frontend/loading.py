"""Naming a workload: one text for a file, a notation, a shipped network or a generated one."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...archdsl import Workload, WorkloadError, is_notation, nearest_hint, parse_notation
from .faults import fault, workload_fault
from .flattening import flatten
from .generated import TransformerBlock, transformer_block
from .importer import build_workload, import_onnx
from .reading import read_model

if TYPE_CHECKING:
    from onnx import ModelProto

ONNX_PREFIX = "onnx:"
PRESET_PREFIX = "preset:"
LIGHT_PREFIX = "light_"
WHOLE_NUMBER = re.compile(r"[0-9]{1,15}")
Generator = tuple[type[TransformerBlock], Callable[[TransformerBlock], "ModelProto"]]
GENERATED: Mapping[str, Generator] = {"transformer_block": (TransformerBlock, transformer_block)}


def load_workload(
    spec: str | os.PathLike[str],
    shapes: Mapping[str, int] | None = None,
    strict: bool = False,
    *,
    datatype: str | None = None,
    acc_bits: int | None = None,
    fuse: bool = False,
) -> Workload:
    """Load a workload by its name.

    A name is an `.onnx` file; a notation (`gemm:M=512,N=512,K=512,bits=8`, `conv:...`); a network that
    the `onnx` package ships (`onnx:resnet50`); or one that is generated here (`transformer_block`,
    `transformer_block:hidden=768,heads=12`). Options may follow the last three kinds and files,
    `net.onnx:datatype=int8,acc_bits=32,fuse=1,batch=4`: they override the arguments of that name, and the
    others are sizes of open dims. `preset:NAME` is a shipped or generated network.

    Args:
        spec: The name.
        shapes: Sizes of open dims.
        strict: Whether a node that cannot be modelled is an error.
        datatype: Count every float tensor as this type; None keeps the network's own.
        acc_bits: Width of every product's stored output, where it is not the network's; sums that are not finished may be
            wider (see docs/counting.md).
        fuse: Join element-wise nodes to the product before them; see `import_onnx`.

    Raises:
        WorkloadError: There is no such workload, or it cannot be imported.
    """
    text = os.fspath(spec)
    if is_notation(text):
        return _load_notation(text, shapes or {})
    name, options = _split_spec(text)
    datatype = options.pop("datatype", datatype)
    if "acc_bits" in options:
        acc_bits = _whole_number(text, "acc_bits", options.pop("acc_bits"))
    if "fuse" in options:
        fuse = bool(_whole_number(text, "fuse", options.pop("fuse")))
    if name in GENERATED:
        graph = flatten(generate_network(name, options), text, shapes)
        return build_workload(graph, text, name=text, strict=strict, datatype=datatype, acc_bits=acc_bits, fuse=fuse)
    sizes = {**(shapes or {}), **{key: _whole_number(text, key, value) for key, value in options.items()}}
    if name.startswith(ONNX_PREFIX):
        # named as the user named it: where the package lies differs from machine to machine
        graph = flatten(read_model(_shipped_file(name, text)), text, sizes)
        return build_workload(graph, text, name=name, strict=strict, datatype=datatype, acc_bits=acc_bits, fuse=fuse)
    _check_file(name, text)
    return import_onnx(name, sizes, strict, datatype=datatype, acc_bits=acc_bits, fuse=fuse)


def shipped_networks() -> tuple[str, ...]:
    """Networks that the `onnx` package ships, as `onnx:NAME` takes them."""
    return tuple(sorted(path.stem.removeprefix(LIGHT_PREFIX) for path in _light_folder().glob(f"{LIGHT_PREFIX}*.onnx")))


def generate_network(name: str, options: Mapping[str, str]) -> ModelProto:
    """The ONNX model of a generated network.

    Args:
        name: `transformer_block`.
        options: Sizes as text, `{"hidden": "768"}`; see `TransformerBlock`.

    Raises:
        WorkloadError: There is no such network, or its sizes do not fit.
    """
    if name not in GENERATED:
        raise workload_fault(name, f"no such generated network{nearest_hint(name, GENERATED)}")
    sizes_type, generate = GENERATED[name]
    types: dict[str, Any] = {f.name: type(f.default) for f in fields(sizes_type)}
    faults = [fault(name, f"unknown option{nearest_hint(key, types)}", node=key) for key in options if key not in types]
    if faults:
        raise WorkloadError(diagnostics=faults)
    values: dict[str, Any] = {
        key: _whole_number(name, key, text) if types[key] is int else text for key, text in options.items()
    }
    try:
        return generate(sizes_type(**values))
    except ValueError as error:
        raise workload_fault(name, str(error)) from error


def _load_notation(text: str, shapes: Mapping[str, int]) -> Workload:
    if shapes:
        raise workload_fault(text, f"a notation has no open dims; leave out --shape {', '.join(shapes)}")
    return Workload(name=text, ops=(parse_notation(text),), source=text)


def _split_spec(text: str) -> tuple[str, dict[str, str]]:
    """Name and options; a colon inside a path (as of a Windows drive) belongs to the name."""
    if text.startswith(PRESET_PREFIX):
        rest = text.removeprefix(PRESET_PREFIX)
        text = rest if rest.partition(":")[0] in GENERATED else ONNX_PREFIX + rest
    if text.startswith(ONNX_PREFIX):
        name, _, tail = text.removeprefix(ONNX_PREFIX).partition(":")
        return ONNX_PREFIX + name, _options(text, tail)
    if text.partition(":")[0] in GENERATED:
        name, _, tail = text.partition(":")
        return name, _options(text, tail)
    head, suffix, tail = text.rpartition(".onnx:")
    return (f"{head}.onnx", _options(text, tail)) if suffix else (text, {})


def _options(text: str, tail: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for part in tail.split(",") if tail else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key or not value:
            raise workload_fault(text, f"option '{part.strip()}' is not 'key=value'")
        if key in options:
            raise workload_fault(text, f"option {key!r} is given twice")
        options[key] = value
    return options


def _whole_number(text: str, key: str, value: str) -> int:
    if not WHOLE_NUMBER.fullmatch(value):
        raise workload_fault(text, f"'{value}' is not a whole number", node=key)
    return int(value)


def _shipped_file(name: str, text: str) -> Path:
    network = name.removeprefix(ONNX_PREFIX).removeprefix(LIGHT_PREFIX)
    if network not in shipped_networks():
        hint = nearest_hint(network, shipped_networks())
        raise workload_fault(text, f"the onnx package ships no network {network!r}{hint}")
    return _light_folder() / f"{LIGHT_PREFIX}{network}.onnx"


def _check_file(name: str, text: str) -> None:
    """Tell a mistyped name from a missing file."""
    path = Path(name)
    if not path.suffix and not path.exists():
        known = [*GENERATED, *(f"{ONNX_PREFIX}{network}" for network in shipped_networks()), "gemm", "conv"]
        raise workload_fault(text, f"no such workload or file{nearest_hint(name, known)}")


def _light_folder() -> Path:
    import onnx

    return Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
