"""Cycles, pJ and mm^2 from an architecture, a workload and a mapping."""

from .conventions import CONVENTIONS, Convention
from .counting import Counts, Transfer, count
from .nest import Holder, Nest, NestLoop, make_nest, nest_of

__all__ = [
    "CONVENTIONS",
    "Convention",
    "Counts",
    "Holder",
    "Nest",
    "NestLoop",
    "Transfer",
    "count",
    "make_nest",
    "nest_of",
]
