"""Compilation of innermost loops to machine code."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compiles a function of numbers and arrays on its first call; the result is kept on disk for later runs.

    Floating-point sums keep their order (no `fastmath`), so that results do not depend on the machine.
    """
    import numba

    untyped = cast("Any", numba)
    return cast("Callable[P, R]", untyped.njit(cache=True)(function))


def elementwise(function: Callable[..., float]) -> Callable[..., Any]:
    """Compiles a function of numbers, on its first call, into one of arrays that are broadcast together."""

    @cache
    def ufunc() -> Callable[..., Any]:
        import numba

        untyped = cast("Any", numba)
        num_args = function.__code__.co_argcount
        signature = untyped.float64(*[untyped.float64] * num_args)
        return untyped.vectorize([signature], cache=True)(function)

    @wraps(function)
    def call(*arrays: Any) -> Any:
        return ufunc()(*arrays)

    return call
