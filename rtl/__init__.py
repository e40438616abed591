"""The tensor PE array in SystemVerilog: its parameters, its simulator, and programs run on it."""

from .build import Simulator, build, lint
from .package import package
from .run import Job, RtlResult, run_programs
from .sources import sources
from .toolchain import verilator_root

__all__ = ["Job", "RtlResult", "Simulator", "build", "lint", "package", "run_programs", "sources", "verilator_root"]
