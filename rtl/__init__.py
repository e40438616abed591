"""The tensor PE array in SystemVerilog: its parameters, its simulator, and programs run on it."""

from .build import BuildKind, Simulator, build, lint
from .coverage import FileCoverage, line_coverage
from .package import package
from .properties import PROPERTY_SETS
from .prove import Case, Counterexample, Proof, formal_environment, prove
from .run import Job, RtlResult, run_programs
from .sources import sources
from .synthesis import CellArea, array_cell_area_um2, cell_area, synthesis_environment
from .toolchain import verilator_root

__all__ = [
    "PROPERTY_SETS",
    "BuildKind",
    "Case",
    "CellArea",
    "Counterexample",
    "FileCoverage",
    "Job",
    "Proof",
    "RtlResult",
    "Simulator",
    "array_cell_area_um2",
    "build",
    "cell_area",
    "formal_environment",
    "line_coverage",
    "lint",
    "package",
    "prove",
    "run_programs",
    "sources",
    "synthesis_environment",
    "verilator_root",
]
