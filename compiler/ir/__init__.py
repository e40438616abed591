"""The levels of the IR as xDSL dialects, and the arrays outside it."""
