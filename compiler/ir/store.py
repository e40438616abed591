"""Arrays outside the IR, by the hash of what they hold: weights never pass through text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...archdsl import CompileError

Array = npt.NDArray[Any]


@dataclass(slots=True)
class DataStore:
    """Arrays by content: equal arrays are kept once. It only grows, so that older modules stay valid."""

    _arrays: dict[str, Array] = field(default_factory=dict[str, Array])

    def add(self, array: Array) -> str:
        """Keeps an array; returns its key, the SHA-256 of its type, shape and elements."""
        kept = np.ascontiguousarray(array).reshape(array.shape)
        head = f"{kept.dtype.str} {list(kept.shape)} "
        key = hashlib.sha256(head.encode() + kept.tobytes()).hexdigest()
        if key not in self._arrays:
            kept.flags.writeable = False
            self._arrays[key] = kept
        return key

    def __getitem__(self, key: str) -> Array:
        try:
            return self._arrays[key]
        except KeyError:
            raise CompileError(
                f"no array with the key {key[:12]}... is kept; a dump needs the data file that was written beside it"
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def save(self, path: Path, keys: set[str] | None = None) -> None:
        """Writes arrays, by key, into an `.npz` file; all of them unless told which."""
        wanted = sorted(self._arrays if keys is None else keys)
        np.savez(path, allow_pickle=False, **{key: self[key] for key in wanted})

    @classmethod
    def load(cls, path: Path) -> DataStore:
        """Reads what `save` wrote.

        Raises:
            CompileError: There is no such file, or an array is not what its key says.
        """
        store = cls()
        try:
            with np.load(path, allow_pickle=False) as found:
                for key in found.files:
                    if store.add(found[key]) != key:
                        raise CompileError(f"{path}: the array {key[:12]}... was changed; dump again")
        except (OSError, ValueError) as error:
            raise CompileError(f"{path}: cannot be read as arrays ({error}); dump again") from None
        return store
