"""Compilation of innermost loops to machine code.

numba is imported by the first loop that needs it: those whose machine code is on disk do not (`machine_code`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property, update_wrapper, wraps
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast

from .machine_code import Entry, c_arguments, entry_of, numba_module

P = ParamSpec("P")
R = TypeVar("R")


class CompiledFunction:
    """A function of numbers and arrays that runs as machine code.

    Attributes:
        function: What it is in Python.
    """

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self._entries: dict[tuple[Any, ...], Entry | None] = {}
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        taken = c_arguments(arguments)
        if taken is None:
            return self._in_numba(*arguments)
        kinds = tuple(taken.kinds)
        if kinds not in self._entries:
            self._entries[kinds] = entry_of(self.function, _opened, arguments)
        enter = self._entries[kinds]
        if enter is None or not enter(taken):
            return self._in_numba(*arguments)  # where the loop has raised an exception, it does so again
        return None

    @cached_property
    def _in_numba(self) -> Any:
        """The function as numba calls it."""
        return numba_module().njit(cache=True)(self.function)

    @property
    def _numba_type_(self) -> Any:
        """What numba takes this for where another loop calls it."""
        return numba_module().typeof(self._in_numba)


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compiles a function of numbers and arrays on its first call; the result is kept on disk for later runs.

    Floating-point sums keep their order (no `fastmath`), so that results do not depend on the machine.
    """
    return cast("Callable[P, R]", CompiledFunction(cast("FunctionType", function)))


def _opened(value: object) -> FunctionType | None:
    return value.function if isinstance(value, CompiledFunction) else None


def elementwise(function: Callable[..., float]) -> Callable[..., Any]:
    """Compiles a function of numbers, on its first call, into one of arrays that are broadcast together."""

    @cache
    def ufunc() -> Callable[..., Any]:
        numba = numba_module()
        num_args = function.__code__.co_argcount
        signature = numba.float64(*[numba.float64] * num_args)
        return numba.vectorize([signature], cache=True)(function)

    @wraps(function)
    def call(*arrays: Any) -> Any:
        return ufunc()(*arrays)

    return call
