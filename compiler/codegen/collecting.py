"""Python's collector of reference cycles, paused while a program's instructions are made."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def paused_collector() -> Generator[None]:
    """No search for reference cycles inside.

    A large network has millions of steps, operands and ops, all of which live on; the collector looks at them again and
    again as their number grows, which takes a third of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
