"""Models against measurements: reading tables of them, errors by regime, fits of constants."""

from .fitting import Fit, fit_constants
from .measured import Measurements, Quantity, is_held_back
from .rankings import ShapeRanking
from .reading import FORMATS, Format, MeasuredTable, format_of, read_measurements
from .report import ErrorSummary, ValidatedRow, Validation, validate
from .target import Target

__all__ = [
    "FORMATS",
    "ErrorSummary",
    "Fit",
    "Format",
    "MeasuredTable",
    "Measurements",
    "Quantity",
    "ShapeRanking",
    "Target",
    "ValidatedRow",
    "Validation",
    "fit_constants",
    "format_of",
    "is_held_back",
    "read_measurements",
    "validate",
]
