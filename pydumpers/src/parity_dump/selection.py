"""Which layers and which tokens to keep: ``"0-3,last"``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import DumpError

_ITEM = re.compile(r"^(\d+|last)(?:-(\d+|last))?(?::(\d+))?$")


@dataclass(frozen=True)
class Selection:
    """A parsed list of indices and ranges.

    Grammar: comma-separated items, each ``N``, ``N-M`` (both ends included), ``N-M:STEP`` or ``last``, which is the last
    index there is. An index past the end selects nothing.
    """

    text: str
    items: tuple[tuple[int | None, int | None, int], ...]  # None is "last"

    @classmethod
    def parse(cls, text: str, what: str) -> Selection:
        """Parse ``text``; ``what`` ("layers", "tokens") names it in the error."""
        items = []
        for part in text.split(","):
            m = _ITEM.match(part.strip())
            if not m:
                raise DumpError(f"parsing {what}={text!r}: {part.strip()!r} is not N, N-M, N-M:STEP or last")
            low = None if m[1] == "last" else int(m[1])
            high = low if m[2] is None else (None if m[2] == "last" else int(m[2]))
            step = int(m[3] or 1)
            if step < 1 or (low is not None and high is not None and high < low) or (low is None and m[2] is not None):
                raise DumpError(f"parsing {what}={text!r}: {part.strip()!r} selects nothing")
            items.append((low, high, step))
        return cls(text, tuple(items))

    def needs_count(self) -> bool:
        """Report whether ``last`` occurs, so that the number of things must be known."""
        return any(low is None or high is None for low, high, _ in self.items)

    def indices(self, count: int) -> list[int]:
        """Return the selected indices among ``count``, sorted, each once; empty if none exists."""
        out: set[int] = set()
        for low, high, step in self.items:
            first = count - 1 if low is None else low
            last = count - 1 if high is None else min(high, count - 1)
            out.update(range(max(first, 0), last + 1, step))
        return sorted(out)

    def require(self, count: int, what: str) -> None:
        """Raise :class:`DumpError` where nothing among ``count`` is selected; ``what`` ("layers") names the things."""
        if not self.indices(count):
            raise DumpError(f"selecting {what}={self.text!r}: the model has {count}, counted from 0, and none of them is meant")

    def has(self, index: int, count: int | None) -> bool:
        """Report whether ``index`` is selected; ``count`` may be None only where :meth:`needs_count` is false."""
        if count is not None:
            return index in self.indices(count)
        for low, high, step in self.items:
            if low is None or high is None:
                raise DumpError(
                    f"selecting from {self.text!r}: 'last' needs the number of layers (model={{'num_layers': ...}})"
                )
            if low <= index <= high and (index - low) % step == 0:
                return True
        return False
