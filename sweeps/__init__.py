"""The command line, sweeps, result store, plots and reports."""

__all__: list[str] = []
