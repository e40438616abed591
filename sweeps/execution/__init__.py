"""Where design points run: in this process, in local worker processes, or on a Ray cluster.

Workers only compute. They get the sweep once and then chunks of design points, and give back results; the
process that runs the sweep is the only one that writes the store.
"""

from .base import Executor
from .local import LocalExecutor
from .ray_cluster import RayExecutor
from .serial import SerialExecutor
from .work import Chunk, WorkContext, WorkItem

__all__ = ["Chunk", "Executor", "LocalExecutor", "RayExecutor", "SerialExecutor", "WorkContext", "WorkItem"]
