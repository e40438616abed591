"""Generated networks by name, which benchmarks of the compiler share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tileloom.compiler.generators import (
    quantised_autoencoder,
    quantised_dscnn,
    quantised_mobilenet,
    quantised_resnet8,
    quantised_resnet50,
)

if TYPE_CHECKING:
    from onnx import ModelProto

GENERATORS: Mapping[str, Callable[[int], ModelProto]] = {
    "resnet8": quantised_resnet8, "dscnn": quantised_dscnn, "mobilenet": quantised_mobilenet,
    "autoencoder": quantised_autoencoder, "resnet50": quantised_resnet50,
}  # fmt: skip
SMALL = ("resnet8", "dscnn", "mobilenet", "autoencoder")
"""Of MLPerf Tiny's shapes."""
