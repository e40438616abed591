"""Cycles, pJ and mm^2 from an architecture, a workload and a mapping."""

__all__: list[str] = []
