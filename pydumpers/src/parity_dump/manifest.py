"""The text of ``dump.json``: what an entry holds, what JSON can hold, and how it is laid out for people to read."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def entry(
    name: str,
    file: str,
    order: int,
    dtype: str,
    calls: int,
    shape: list[int],
    source: str | None,
    axes: Sequence[str] | None,
    columns: str | None,
    shard: Mapping[str, Any] | None,
    inputs: Sequence[str] | None,
) -> dict[str, Any]:
    """Return one tensor's entry; facts that are None are left out."""
    entry: dict[str, Any] = {"name": name, "file": file, "order": order}
    if source is not None:
        entry["source"] = source
    if axes is not None:
        entry["axes"] = list(axes)
    entry.update(dtype=dtype, calls=calls, shape=shape)
    if columns is not None:
        entry["columns"] = columns
    if shard is not None:
        entry["shard"] = dict(shard)
    if inputs is not None:
        entry["inputs"] = list(inputs)
    return entry


def now() -> str:
    """Return the time in UTC as RFC 3339; ``SOURCE_DATE_EPOCH`` overrides it, for reproducible dumps."""
    t = float(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(t))


def plain(v: Any) -> Any:
    """Return ``v`` as JSON can hold it: numpy scalars as numbers, non-finite ones as strings, the rest as text."""
    if v is None or isinstance(v, (bool, str)):
        return v
    if isinstance(v, (int, np.integer)):
        return int(v)
    if isinstance(v, (float, np.floating)):
        f = float(v)
        if math.isfinite(f):
            return int(f) if f.is_integer() and abs(f) < 2**53 else f
        return "NaN" if math.isnan(f) else ("Infinity" if f > 0 else "-Infinity")
    if isinstance(v, np.bool_):
        return bool(v)
    if isinstance(v, Mapping):
        return {str(k): plain(x) for k, x in v.items()}
    if isinstance(v, (list, tuple, set, frozenset, np.ndarray)):
        return [plain(x) for x in v]
    return str(v)


def layout(manifest: Mapping[str, Any]) -> str:
    """Return the manifest as text with one line for each key, and one for each tensor: people read and diff it."""

    def dumps(v: Any) -> str:
        return json.dumps(v, ensure_ascii=False, allow_nan=False)

    lines = []
    for key, value in plain(manifest).items():
        if key == "tensors" and value:
            value = "[\n" + ",\n".join("    " + dumps(t) for t in value) + "\n  ]"
        else:
            value = dumps(value)
        lines.append(f"  {dumps(key)}: {value}")
    return "{\n" + ",\n".join(lines) + "\n}\n"
