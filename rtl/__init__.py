"""The tensor PE array in SystemVerilog: its parameters, its simulator, and programs run on it."""

from .build import BuildKind, Simulator, build, lint
from .coverage import FileCoverage, line_coverage
from .package import package
from .run import Job, RtlResult, run_programs
from .sources import sources
from .toolchain import verilator_root

__all__ = [
    "BuildKind",
    "FileCoverage",
    "Job",
    "RtlResult",
    "Simulator",
    "build",
    "line_coverage",
    "lint",
    "package",
    "run_programs",
    "sources",
    "verilator_root",
]
