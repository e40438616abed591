"""The tensor PE array in SystemVerilog: reserved for its RTL."""

__all__: list[str] = []
