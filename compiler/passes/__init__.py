"""Passes: each takes a module and returns another."""
