"""Token ids from a file: the same ids for every engine, whatever their tokenizers do."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np

from .errors import DumpError


def read_ids(path: str | os.PathLike[str]) -> list[int]:
    """Return token ids from a ``.npy`` file (a dump's prompt_tokens) or a JSON list."""
    try:
        if os.fspath(path).endswith(".npy"):
            values = np.load(path, allow_pickle=False)
        else:
            values = np.asarray(json.loads(Path(path).read_text()))
    except (OSError, ValueError) as e:
        raise DumpError(f"reading token ids from {os.fspath(path)}: {e}") from e
    if values.ndim != 1 or values.dtype.kind not in "iu" or not values.size:
        raise DumpError(f"reading token ids from {os.fspath(path)}: expected a list of integers, got shape {values.shape}")
    return [int(v) for v in values]
