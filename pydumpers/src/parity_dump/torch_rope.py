"""Seeing q and k right after RoPE: the model's own function, wrapped while a dump runs; and which dims it paired."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch

_NAME = re.compile(r"^apply_(?!.*vision)\w*rot\w*emb\w*$")
_QUERY = ("q", "xq", "query", "query_states")

# What a wrapped function reports: "q" or "k" (None: by the tensor's storage), the tensor before and after, axis of heads.
Seen = Callable[["str | None", Any, Any, "int | None"], None]


class RopeWrapper:
    """Wraps ``apply_rotary_pos_emb`` and its like in the modules that define the given attention classes.

    The functions are module globals that the model's code looks up by name at each call, so replacing the global is
    enough and needs no edit of the model. :meth:`restore` puts back what was there.
    """

    def __init__(self, attentions: Iterable[Any], seen: Seen) -> None:
        self._undo: list[tuple[Any, str, Any]] = []
        modules = {c.__module__ for a in attentions for c in type(a).__mro__ if issubclass(c, torch.nn.Module)}
        for name in sorted(modules - {"torch.nn.modules.module"}):
            module = sys.modules.get(name)
            for attr, fn in list(vars(module).items()) if module else []:
                if callable(fn) and not inspect.isclass(fn) and _NAME.match(attr):
                    self._undo.append((module, attr, fn))
                    setattr(module, attr, _wrap(fn, seen))

    def __len__(self) -> int:
        return len(self._undo)

    def restore(self) -> None:
        """Put the original functions back; may be called twice."""
        while self._undo:
            module, attr, fn = self._undo.pop()
            setattr(module, attr, fn)


def _wrap(fn: Callable[..., Any], seen: Seen) -> Callable[..., Any]:
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters]
    default = next((p.default for p in parameters if p.name == "unsqueeze_dim"), None)

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        before = [v for v in (*args, *kwargs.values()) if isinstance(v, torch.Tensor)][:2]
        result = fn(*args, **kwargs)
        axis = given.get("unsqueeze_dim", default)
        axis = axis if axis in (1, 2) else None
        if isinstance(result, torch.Tensor):
            seen(None, before[0], result, axis)
        elif isinstance(result, (tuple, list)) and len(result) >= 2 and names and names[0] in _QUERY:
            seen("q", before[0], result[0], axis)
            seen("k", before[1], result[1], axis)
        return result

    return wrapped


def pairing(before: Any, after: Any) -> tuple[str, str] | None:
    """Return how a rotation paired the dims, ``(before, after)``, each ``half_split`` or ``interleaved``; None if unseen.

    ``before`` and ``after`` are [T, heads, d]. Decided on the numbers, not on the function's name: a rotation keeps the
    length of each pair (up to one common factor), so under the right reading the ratio of lengths is the same for all
    pairs. The last row is used; a row that was not turned (position 0) fits every reading and tells nothing.
    """
    d = min(before.shape[-1], after.shape[-1])
    if before.shape[0] == 0 or before.shape[1] != after.shape[1]:
        return None
    a, b = before[-1, :, :d].double(), after[-1, :, :d].double()
    turned = (a != b).any(0).nonzero().flatten()
    d = int(turned[-1]) + 1 if len(turned) else 0  # a partial rotation leaves the last dims of a head alone
    d += d % 2
    if d < 4 or d > a.shape[-1]:
        return None
    a, b = a[:, :d], b[:, :d]
    spread: dict[tuple[str, str], float] = {}
    for x in ("half_split", "interleaved"):
        for y in ("half_split", "interleaved"):
            ratio = _lengths(b, y) / _lengths(a, x).clamp_min(1e-30)
            spread[x, y] = float((ratio / ratio.median() - 1).abs().median())
    best = min(spread, key=lambda k: spread[k])
    rest = min(v for k, v in spread.items() if k != best)
    return best if spread[best] < 0.03 and rest > 4 * spread[best] + 1e-6 else None


def _lengths(t: Any, layout: str) -> Any:
    half = t.shape[-1] // 2
    x, y = (t[..., :half], t[..., half:]) if layout == "half_split" else (t[..., 0::2], t[..., 1::2])
    return (x * x + y * y).sqrt()
