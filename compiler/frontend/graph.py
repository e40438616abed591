"""A network as flat, shape-inferred nodes: what lowerings read, free of ONNX messages.

Functions are inlined and control flow with a known path is resolved: a loop's body stands once, with
the number of its runs on every node.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from .datatypes import Datatype

Attribute = int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]
Array = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Value:
    """One tensor of the network.

    Attributes:
        name: Unique in the graph.
        element_type: ONNX element type number; 0 when it is not a tensor or not known.
        datatype: The same as a `Datatype`.
        shape: Size of every axis, None where it depends on data; None as a whole when the rank does.
        is_constant: Whether it depends on no input of the network, as weights do.
        data: The elements, for small constants.
        stored: The elements of a weight of any size, where the walk was asked to keep them.
    """

    name: str
    element_type: int
    datatype: Datatype
    shape: tuple[int | None, ...] | None
    is_constant: bool = False
    data: Array | None = None
    stored: Array | None = None

    @property
    def is_known(self) -> bool:
        """Whether every axis has a known size."""
        return self.shape is not None and None not in self.shape

    @property
    def dims(self) -> tuple[int, ...]:
        """Size of every axis.

        Raises:
            ValueError: The shape depends on data; ask `is_known` first.
        """
        if self.shape is None:
            raise ValueError(f"{self.name}: its rank is not known")
        known = tuple(size for size in self.shape if size is not None)
        if len(known) != len(self.shape):
            raise ValueError(f"{self.name}: its shape {shape_text(self.shape)} is not known")
        return known

    @property
    def elements(self) -> int:
        """Number of elements of a tensor with known shape."""
        return math.prod(self.dims)

    def __str__(self) -> str:
        return f"{self.name} {shape_text(self.shape)}"


def shape_text(shape: tuple[int | None, ...] | None) -> str:
    """A shape for messages: `[2, ?, 4]`."""
    if shape is None:
        return "[unknown rank]"
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """One operator application.

    Attributes:
        name: Unique in the graph; the ONNX node's name where it has one.
        op_type: ONNX operator.
        domain: Its operator set; empty for the standard one.
        version: Version of the operator set in force.
        inputs: None where an optional input is left out.
        outputs: None where an optional output is left out.
        attributes: Attributes but for graphs and tensors.
        count: How many times the network runs it.
        bodies: For control flow with an unknown path: the alternatives, to say what is left out.
    """

    name: str
    op_type: str
    domain: str
    version: int
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value | None, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])
    count: int = 1
    bodies: tuple[Graph, ...] = ()

    def input(self, idx: int) -> Value | None:
        """Input of that position; None when it is left out."""
        return self.inputs[idx] if idx < len(self.inputs) else None

    def output(self, idx: int) -> Value | None:
        """Output of that position; None when it is left out."""
        return self.outputs[idx] if idx < len(self.outputs) else None

    @property
    def given_inputs(self) -> tuple[Value, ...]:
        """Inputs that are not left out."""
        return tuple(value for value in self.inputs if value is not None)

    @property
    def given_outputs(self) -> tuple[Value, ...]:
        """Outputs that are not left out."""
        return tuple(value for value in self.outputs if value is not None)

    @property
    def is_constant(self) -> bool:
        """Whether it can be computed before the network runs."""
        return bool(self.given_outputs) and all(value.is_constant for value in self.given_outputs)

    def int_attribute(self, name: str, default: int) -> int:
        """An integer attribute."""
        value = self.attributes.get(name, default)
        return value if isinstance(value, int) else default

    def text_attribute(self, name: str, default: str) -> str:
        """A text attribute."""
        value = self.attributes.get(name, default)
        return value if isinstance(value, str) else default

    def ints_attribute(self, name: str) -> tuple[int, ...] | None:
        """A list of integers; None when the attribute is left out."""
        value = self.attributes.get(name)
        return tuple(int(x) for x in value) if isinstance(value, tuple) else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Graph:
    """A flat network.

    Attributes:
        name: For reports.
        nodes: In an order in which they can run.
        inputs: What the network is given at run time.
        outputs: What it returns.
        boundary: Values that leave a loop's body, which others read though no node here does.
        notices: Choices made while reading, one sentence each.
        file: Its file's name, for messages.
    """

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    boundary: tuple[Value, ...] = ()
    notices: tuple[str, ...] = ()
    file: str = ""


def small_ints(value: Value | None) -> tuple[int, ...] | None:
    """The elements of a small integer or boolean constant; None when they are not known."""
    if value is None or value.data is None or value.data.dtype.kind not in "iub":
        return None
    flat: list[Any] = value.data.ravel().tolist()
    return tuple(int(x) for x in flat)
