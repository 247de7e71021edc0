"""Turning any framework's tensor into a numpy array, without importing a framework that is not there.

A tensor's class says which package it is from (the root of its module: ``torch``, ``jaxlib``, ``max``). The table
:data:`ADAPTERS` says which of our modules knows that package; it is imported on first use. Such a module has

* ``to_numpy(x) -> (ndarray, logical dtype)``: a private copy of the values; bfloat16 as uint16, 8-bit floats as uint8;
* optionally ``traced_tap(name, x) -> x``: what :func:`parity_dump.tap` does where ``x`` is a symbol of a graph being
  traced, which has no values yet; it returns ``NotImplemented`` for a tensor that has some.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from .dtypes import normalize
from .errors import DumpError

ToNumpy = Callable[[Any], "tuple[npt.NDArray[Any], str]"]

ADAPTERS: dict[str, str] = {
    "torch": "parity_dump.torch",
    "jax": "parity_dump.jax_tap",
    "jaxlib": "parity_dump.jax_tap",
    "max": "parity_dump.max",
}

_registered: dict[str, ToNumpy] = {}


def register_array_type(root: str, convert: ToNumpy) -> None:
    """Let ``convert`` handle tensors whose class is from the package ``root``; the last registration counts."""
    _registered[root] = convert


def _roots(x: object) -> list[str]:
    return [c.__module__.partition(".")[0] for c in type(x).__mro__]


def adapter_for(x: object) -> ModuleType | None:
    """Return our module for the framework that ``x`` is from, or None."""
    for root in _roots(x):
        if root in ADAPTERS:
            return importlib.import_module(ADAPTERS[root])
    return None


def to_numpy(x: Any) -> tuple[npt.NDArray[Any], str]:
    """Return ``(array, logical dtype)``: a copy of the values of a tensor of any known framework.

    The copy is private: writing to ``x`` afterwards does not change it. bfloat16 comes as uint16 bits and the 8-bit floats
    as uint8, with their name. numpy arrays, Python numbers and nested lists are taken too. Raises :class:`DumpError` for
    what has no values (a traced symbol, a meta tensor) or is no array.
    """
    for root in _roots(x):
        if root in _registered:
            return _registered[root](x)
    adapter = adapter_for(x)
    if adapter is not None:
        array, dtype = adapter.to_numpy(x)
        return array, dtype
    try:
        a = np.array(x, copy=True)
    except Exception as e:
        raise DumpError(f"reading a {type(x).__module__}.{type(x).__name__} as an array: {e}") from e
    return normalize(a, None)
