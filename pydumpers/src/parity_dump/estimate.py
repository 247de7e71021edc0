"""How large a dump will be, from the model's facts, before anything is written."""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .dtypes import RAW_FLOATS
from .errors import DiskFullError, DumpTooLargeError

_WIDTHS = {"float64": 8, "float32": 4, "tf32": 4, "float16": 2}


def estimate_bytes(
    model: Mapping[str, Any],
    tokens: int,
    *,
    keys: int | None = None,
    layers: int | None = None,
    sub_taps: bool = True,
    probs: bool = False,
    logits: str = "last",
    storage: str = "native",
) -> int:
    """Return about how many bytes a dump of ``tokens`` rows takes; files' headers and ids are left out.

    Counted are, in values: tokens * hidden for post_embed, post_final_norm and each of ``layers`` layers (default: all);
    with ``sub_taps`` also 5 hidden-wide taps, q, k, v with their rotated forms and the context, and 3 intermediate-wide
    ones; with ``probs`` heads * tokens * ``keys``; logits: vocab, or tokens * vocab for ``all``. Facts that are missing
    count as 0, so the estimate is a lower bound. Measured on Llama-like models it is within 5 % of what is written.
    """

    def fact(name: str, default: int = 0) -> int:
        value = model.get(name)
        return int(value) if isinstance(value, (int, float)) else default

    hidden, heads = fact("hidden_size"), fact("num_heads")
    head_dim = fact("head_dim", hidden // heads if heads else 0)
    q, kv = heads * head_dim, fact("num_kv_heads", heads) * head_dim
    n = fact("num_layers") if layers is None else layers
    per_layer = tokens * hidden
    if sub_taps:
        per_layer += tokens * (5 * hidden + 3 * q + 3 * kv + 3 * fact("intermediate_size"))
    if sub_taps and probs:
        per_layer += heads * tokens * (keys or tokens)
    vocab = fact("vocab_size")
    values = 2 * tokens * hidden + n * per_layer + vocab + (tokens * vocab if logits == "all" else 0)
    return values * _width(str(model.get("dtype", "float32")), storage)


def _width(dtype: str, storage: str) -> int:
    width = RAW_FLOATS[dtype].bits // 8 if dtype in RAW_FLOATS else _WIDTHS.get(dtype, 4)
    return max(width, 4) if storage == "float32" else width


def check_room(path: Path, need: int, max_bytes: int | None) -> None:
    """Raise :class:`DumpTooLargeError` or :class:`DiskFullError` where ``need`` bytes are over the limit or the free space."""
    remedy = "dump less (layers=, tokens=, sub_taps=False, logits='last', storage='native')"
    if max_bytes is not None and need > max_bytes:
        raise DumpTooLargeError(
            f"opening dump {path}: it would take about {human(need)}, over the limit of {human(max_bytes)}: raise max_bytes, "
            f"or {remedy}"
        )
    folder = next(p for p in (path, *path.absolute().parents) if p.exists())
    free = shutil.disk_usage(folder).free
    if need > free:
        raise DiskFullError(f"opening dump {path}: it would take about {human(need)}, and {human(free)} are free: {remedy}")


def parse_size(text: str) -> int:
    """Return the bytes that ``500M`` or ``1.5GB`` stand for (powers of 1000); for argparse, whose error it raises."""
    m = re.fullmatch(r"(\d+(?:\.\d+)?)([kMGT]?)B?", text)
    if not m:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size like 500M or 2G")
    return int(float(m[1]) * 1000 ** " kMGT".index(m[2] or " "))


def human(n: int) -> str:
    """Return a size for people: ``12.3 MB`` (powers of 1000)."""
    value = float(n)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} bytes" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
