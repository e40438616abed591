"""Places that live for a while: staged data in the scratchpad, sums, slots of channel parameters and tables."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...archdsl import ceil_div

Range = tuple[int, int]
"""First place, and first place behind."""


@dataclass(slots=True)
class RollingAllocator:
    """Gives places in turn, so that what was freed longest ago is used again first: loads can run far ahead.

    Args:
        begin, end: The space.
        granule: What places begin at a multiple of.
        num_banks: Parts of the space; each place begins in the part behind that of the one before, where it fits there.
        is_packed: Whether each place is the first that is free instead, which wastes the least room.
    """

    begin: int
    end: int
    granule: int = 1
    num_banks: int = 1
    is_packed: bool = False
    _next: list[int] = field(default_factory=list[int])
    _bank: int = -1
    _live: list[Range] = field(default_factory=list[Range])

    def __post_init__(self) -> None:
        self._next = [self._bank_begin(bank) for bank in range(self.num_banks)]

    @property
    def capacity(self) -> int:
        """Size of the space."""
        return self.end - self.begin

    @property
    def taken(self) -> int:
        """Sum of all places that are taken."""
        return sum(high - low for low, high in self._live)

    def bound(self, begin: int, end: int) -> None:
        """Gives places of another part of the space from now on; what is taken stays so, and so does the turn."""
        last = self._next[max(self._bank, 0)]
        self.begin, self.end = begin, end
        self._next = [self._bank_begin(bank) for bank in range(self.num_banks)]
        if self.num_banks == 1 and begin <= last < end:
            self._next = [last]

    def take(self, size: int) -> int | None:
        """The first of `size` places; None when there are not so many side by side."""
        size = ceil_div(size, self.granule) * self.granule
        bank = (self._bank + 1) % self.num_banks
        for turn in range(self.num_banks):
            tried = (bank + turn) % self.num_banks
            low, high = self._bank_begin(tried), self._bank_begin(tried + 1)
            found = None if self.is_packed else self._fit(self._next[tried], high, size)
            if found is None:
                found = self._fit(low, high, size)
            if found is not None:
                self._bank, self._next[tried] = tried, found + size
                self._live.append((found, found + size))
                return found
        found = self._fit(self.begin, self.end, size)
        if found is not None:
            self._bank = (found + size - 1 - self.begin) * self.num_banks // max(1, self.capacity)
            self._live.append((found, found + size))
        return found

    def free(self, begin: int) -> None:
        """Gives a place back."""
        self._live = [(low, high) for low, high in self._live if low != begin]

    def _bank_begin(self, bank: int) -> int:
        step = self.capacity // self.num_banks
        return self.end if bank == self.num_banks else self.begin + bank * step

    def _fit(self, low: int, high: int, size: int) -> int | None:
        """The first place from `low` on that ends by `high` and is not taken."""
        at = low
        for begin, end in sorted(self._live):
            if end <= at:
                continue
            if begin >= at + size:
                break
            at = end
        return at if at + size <= high else None
