"""The tensor PE array in SystemVerilog: its parameters, its simulator, and programs run on it."""

from .build import BuildKind, Simulator, build, lint
from .coverage import FileCoverage, line_coverage
from .package import package
from .properties import PROPERTY_SETS
from .prove import Case, Counterexample, Proof, formal_environment, prove
from .run import Job, RtlResult, run_programs
from .sources import sources
from .toolchain import verilator_root

__all__ = [
    "PROPERTY_SETS",
    "BuildKind",
    "Case",
    "Counterexample",
    "FileCoverage",
    "Job",
    "Proof",
    "RtlResult",
    "Simulator",
    "build",
    "formal_environment",
    "line_coverage",
    "lint",
    "package",
    "prove",
    "run_programs",
    "sources",
    "verilator_root",
]
