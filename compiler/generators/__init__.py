"""Quantised ONNX networks as functions of a seed, for tests and measurements that need no data."""

from .networks import (
    quantised_autoencoder,
    quantised_dscnn,
    quantised_mobilenet,
    quantised_resnet8,
    quantised_resnet50,
    quantised_resnext,
    quantised_tiny,
)
from .random_graphs import random_grouped_graph, random_quantised_graph
from .transformer import quantised_transformer

__all__ = [
    "quantised_autoencoder",
    "quantised_dscnn",
    "quantised_mobilenet",
    "quantised_resnet8",
    "quantised_resnet50",
    "quantised_resnext",
    "quantised_tiny",
    "quantised_transformer",
    "random_grouped_graph",
    "random_quantised_graph",
]
