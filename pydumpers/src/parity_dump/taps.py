"""Taps placed by hand: ``tap("name", x)`` in any framework's code, and who receives what they see."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from .arrays import adapter_for, to_numpy

T = TypeVar("T")

_active: list[Any] = []


class recording:
    """Keep what :func:`tap` sees in memory, for tests and notebooks: ``with recording() as seen: ...; seen["layer_00"]``.

    ``seen`` maps each name to ``(array, logical dtype)``; a name that comes again keeps its first value.
    """

    def __init__(self) -> None:
        self.seen: dict[str, tuple[npt.NDArray[Any], str]] = {}

    def add(self, name: str, array: Any, *, dtype: str | None = None, **_: Any) -> None:
        """Take one array, as :meth:`DumpWriter.add` does."""
        values, logical = (array, dtype or array.dtype.name) if isinstance(array, np.ndarray) else to_numpy(array)
        self.seen.setdefault(name, (np.array(values, copy=True), dtype or logical))

    def __enter__(self) -> dict[str, tuple[npt.NDArray[Any], str]]:
        push_sink(self)
        return self.seen

    def __exit__(self, *_: object) -> None:
        pop_sink(self)


def push_sink(sink: Any) -> None:
    """Make ``sink`` what :func:`tap` writes to, until :func:`pop_sink`; it has ``add`` as a writer does, or ``offer``."""
    _active.append(sink)


def pop_sink(sink: Any) -> None:
    """Undo :func:`push_sink`; does nothing for a sink that is not there."""
    if sink in _active:
        _active.remove(sink)


def active() -> Any:
    """Return the innermost open writer or recording, or None."""
    return _active[-1] if _active else None


def tap(name: str, x: T) -> T:
    """Dump ``x`` as ``name`` and return it unchanged: an identity function to place by hand in any framework.

    Works inside ``with DumpWriter(...)`` or ``with recording()``; anywhere else it does nothing, at the price of one list
    look-up, so it may stay in the code. Under a tracer (``jax.jit``, a MAX graph) the framework's adapter places the tap in
    the graph instead.
    """
    sink = active()
    if sink is None:
        return x
    traced = getattr(adapter_for(x), "traced_tap", None)
    if traced is not None:
        replaced = traced(name, x)
        if replaced is not NotImplemented:
            return replaced  # type: ignore[no-any-return]
    offer = getattr(sink, "offer", None)  # a dumper that knows more: which batch row, which padding
    if offer is not None:
        offer(name, x)
        return x
    array, dtype = to_numpy(x)
    sink.add(name, array, dtype=dtype)
    return x
