"""Open dims: giving every axis of the network's inputs a size."""

from __future__ import annotations

import ast
import operator
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...archdsl import Diagnostic, WorkloadError, nearest_hint
from .faults import fault

if TYPE_CHECKING:
    from onnx import ModelProto, TypeProto, ValueInfoProto

# Words that a batch dim's name is made of, and names that exporters make up for dims left open.
BATCH_WORDS = frozenset({"batch", "batchsize", "bs", "n", "b"})
FILLER_WORDS = frozenset({"size", "dim", "axis", "num", "input", "encoder", "decoder", "0", ""})
MADE_UP = re.compile(r"(unk__\d+|s\d+|\?|-1|none|.*_dynamic_axes_\d+|.*_dim_0)?", re.IGNORECASE)
Shape = tuple[int | None, ...]
OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: lambda a, b: a // b,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InputShapes:
    """Shapes of a network's inputs.

    Attributes:
        shapes: Shape of every tensor input by name.
        sizes: Size of every named dim.
        notices: Choices made for the user.
    """

    shapes: Mapping[str, tuple[int, ...]]
    sizes: Mapping[str, int]
    notices: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """One axis of an input: its size, or the name under which it was left open."""

    tensor: str
    idx: int
    size: int | None
    name: str = ""

    @property
    def key(self) -> str:
        """How `--shape` names this axis whatever its dim is called."""
        return f"{self.tensor}[{self.idx}]"


@dataclass(slots=True)
class _Names:
    """Which names the user gave, and which of them meant something."""

    given: Mapping[str, int]
    used: set[str] = field(default_factory=set[str])

    def look_up(self, name: str) -> int | None:
        if name in self.given:
            self.used.add(name)
        return self.given.get(name)


def resolve_inputs(model: ModelProto, shapes: Mapping[str, int], file: str) -> InputShapes:
    """Give every axis of every input a size.

    An open batch dim becomes 1, with a notice. It is one whose name says so, or an axis 0 whose name
    says nothing. Names made of others (`past + seq`) are computed.

    Args:
        model: The network.
        shapes: Sizes by dim name, or by `INPUT[AXIS]`, which also replaces a fixed size.
        file: Name for messages.

    Raises:
        WorkloadError: A dim stays open, or a given name is not in the network; all faults at once.
    """
    names = _Names(shapes)
    axes = _list_axes(model, names)
    faults = [
        fault(file, f"size {size} is negative; sizes are 0 or more", node=name)
        for name, size in shapes.items()
        if size < 0
    ]
    sizes, batch_names = _name_sizes(axes, names)
    resolved: dict[str, list[int]] = defaultdict(list)
    batch_axes: list[str] = []
    for axis in axes:
        size = _axis_size(axis, names, sizes)
        if size is None and axis.idx == 0 and not axis.name:
            batch_axes.append(axis.key)
            size = 1
        if size is None:
            faults.append(fault(file, _open_text(axis), node=axis.tensor))
        resolved[axis.tensor].append(1 if size is None else size)
    faults += _unshaped(model, resolved, file)
    faults += _unknown_names(axes, names, file)
    if faults:
        raise WorkloadError(diagnostics=faults)
    done = {name: tuple(sizes) for name, sizes in resolved.items()}
    scalars = {v.name: () for v in graph_inputs(model) if is_tensor(v.type) and not v.type.tensor_type.shape.dim}
    notices = tuple(f"batch: open dim {name!r} is taken as 1" for name in (*batch_names, *batch_axes))
    return InputShapes(shapes=scalars | done, sizes=sizes, notices=notices)


def graph_inputs(model: ModelProto) -> list[ValueInfoProto]:
    """Inputs that the user feeds: those that are not weights with a default."""
    weights = {t.name for t in model.graph.initializer} | {t.values.name for t in model.graph.sparse_initializer}
    return [value for value in model.graph.input if value.name not in weights]


def is_tensor(type_proto: TypeProto) -> bool:
    """Whether a type is that of a dense tensor."""
    return type_proto.HasField("tensor_type")


def declared_shape(type_proto: TypeProto, sizes: Mapping[str, int]) -> Shape | None:
    """Shape that a file states for a value; None where it states no rank.

    Args:
        type_proto: The stated type.
        sizes: Sizes of named dims; other named dims stay None.
    """
    if not is_tensor(type_proto) or not type_proto.tensor_type.HasField("shape"):
        return None
    dims = type_proto.tensor_type.shape.dim
    return tuple(d.dim_value if d.HasField("dim_value") else evaluate_dim(d.dim_param, sizes) for d in dims)


def evaluate_dim(text: str, sizes: Mapping[str, int]) -> int | None:
    """Size of a dim's name, which may be a sum or product of others; None when one is not known.

    Args:
        text: `batch`, `past + seq`, `2*seq`.
        sizes: Sizes of names.
    """
    if text in sizes:
        return sizes[text]
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError):
        return None  # a name such as `unk__4:0`, not arithmetic
    return _evaluate(tree.body, sizes)


def _evaluate(tree: ast.expr, sizes: Mapping[str, int]) -> int | None:
    match tree:
        case ast.Name(id=name):
            return sizes.get(name)
        case ast.Constant(value=int(number)):
            return number
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            a, b = _evaluate(left, sizes), _evaluate(right, sizes)
            if a is None or b is None or (b == 0 and isinstance(op, ast.FloorDiv)):
                return None
            return OPERATORS[type(op)](a, b)
        case _:
            return None


def _list_axes(model: ModelProto, names: _Names) -> list[_Axis]:
    axes: list[_Axis] = []
    for value in graph_inputs(model):
        if not is_tensor(value.type):
            continue
        if not value.type.tensor_type.HasField("shape"):
            idx = 0
            while (size := names.look_up(f"{value.name}[{idx}]")) is not None:
                axes.append(_Axis(tensor=value.name, idx=idx, size=size))
                idx += 1
            continue
        for idx, dim in enumerate(value.type.tensor_type.shape.dim):
            # -1 and 0 are how some exporters write an open dim
            fixed = dim.dim_value if dim.HasField("dim_value") and dim.dim_value > 0 else None
            axes.append(_Axis(tensor=value.name, idx=idx, size=fixed, name=dim.dim_param))
    return axes


def _name_sizes(axes: Sequence[_Axis], names: _Names) -> tuple[dict[str, int], list[str]]:
    """Sizes of the open dims' names, and which of them are batch dims taken as 1."""
    places: dict[str, set[int]] = defaultdict(set)
    for axis in axes:
        if axis.size is None and axis.name:
            places[axis.name].add(axis.idx)
    # names inside expressions (`past` of `past + seq`) may be given too
    sizes = {name: size for name, size in names.given.items() if "[" not in name}
    batch_names: list[str] = []
    for name, idxs in places.items():
        if names.look_up(name) is None and _is_batch(name, idxs):
            sizes[name] = 1
            batch_names.append(name)
    return sizes, batch_names


def _is_batch(name: str, axis_idxs: set[int]) -> bool:
    words = re.split(r"[_\-.]", name.lower())
    if any(word in BATCH_WORDS for word in words):
        return all(word in BATCH_WORDS | FILLER_WORDS for word in words)
    return axis_idxs == {0} and bool(MADE_UP.fullmatch(name))


def _axis_size(axis: _Axis, names: _Names, sizes: Mapping[str, int]) -> int | None:
    override = names.look_up(axis.key)
    if override is not None:
        return override
    return axis.size if axis.size is not None else evaluate_dim(axis.name, sizes)


def _open_text(axis: _Axis) -> str:
    name = axis.name or axis.key
    return f"axis {axis.idx} is open (dim {name!r}); give its size with --shape '{name}=VALUE'"


def _unshaped(model: ModelProto, resolved: Mapping[str, list[int]], file: str) -> list[Diagnostic]:
    return [
        fault(file, f"the input has no shape; give it with --shape '{v.name}[0]=VALUE', ...", node=v.name)
        for v in graph_inputs(model)
        if is_tensor(v.type) and not v.type.tensor_type.HasField("shape") and v.name not in resolved
    ]


def _unknown_names(axes: Sequence[_Axis], names: _Names, file: str) -> list[Diagnostic]:
    dim_names = {axis.name for axis in axes if axis.name}
    inner = {word for name in dim_names for word in re.findall(r"[A-Za-z_]\w*", name)}
    known = dim_names | inner | {axis.key for axis in axes}
    return [
        fault(file, f"--shape {name}: the network has no open dim of that name{nearest_hint(name, sorted(known))}")
        for name in names.given
        if name not in known and name not in names.used
    ]
