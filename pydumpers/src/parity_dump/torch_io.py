"""What goes into a model's forward and what comes out of it, under the names that models give these things."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from .torch_rows import Rows


def ids_of(given: Mapping[str, Any]) -> Any:
    """Return the token ids of a call (or its embeddings), by their usual names, else its first integer tensor."""
    for key in ("decoder_input_ids", "input_ids", "tokens", "idx", "inputs_embeds"):
        found = given.get(key)
        if isinstance(found, torch.Tensor):
            return found
    return next((v for v in given.values() if isinstance(v, torch.Tensor) and v.dtype in (torch.int64, torch.int32)), None)


def extent(ids: Any, hidden: Any) -> tuple[int, int]:
    """Return (sequences, positions) of a forward, from its ids or its first hidden state; positions 0 if neither says."""
    if ids is not None:
        return (1, int(ids.shape[0])) if ids.ndim == 1 else (int(ids.shape[0]), int(ids.shape[1]))
    if hidden is None:
        return 1, 0
    return (int(hidden.shape[0]), int(hidden.shape[1])) if hidden.ndim > 2 else (1, int(hidden.shape[0]))


def cached(given: Mapping[str, Any]) -> int:
    """Return how many positions the cache holds before this forward."""
    past = next((given[n] for n in ("cache", "past_key_values") if given.get(n) is not None), None)
    if past is None:
        return 0
    if hasattr(past, "get_seq_length"):
        return int(past.get_seq_length())
    try:
        return int(past[0][0].shape[-2])
    except (TypeError, IndexError, AttributeError):
        return 0


def doubt_mask(mask: Any, rows: Rows, past: int) -> str | None:
    """Return what is odd about one sequence's mask [S]: too short, or hiding positions though nothing can be padding."""
    total, hidden = int(mask.shape[0]), int((mask == 0).sum())
    if total != rows.tokens + past:
        return (
            f"attention_mask covers {total} positions, but there are {past} cached and {rows.tokens} new ones: extend it with "
            "the prefix"
        )
    if hidden and rows.batch == 1:
        return (
            f"attention_mask hides {hidden} of {total} positions of the only sequence: padding, or a mask that was not "
            "extended with the decoded prefix?"
        )
    return None


def results(output: Any, rows: Rows, vocab: int | None, logits: str) -> Iterator[tuple[str, Any, str]]:
    """Yield (name, tensor, source) of what a forward returned: logits, or what an encoder pools.

    ``logits`` is ``last`` or ``all``. A tuple's logits are its first [B, T, vocab] tensor; logits without a token axis (a
    classifier's) are ``class_logits``.
    """
    found = output.get("logits") if isinstance(output, dict) else getattr(output, "logits", None)
    if found is None and isinstance(output, (tuple, list)):
        found = next((t for t in output if isinstance(t, torch.Tensor) and t.ndim == 3 and t.shape[-1] == vocab), None)
    if not isinstance(found, torch.Tensor):
        pooled = getattr(output, "pooler_output", None)
        if isinstance(pooled, torch.Tensor) and pooled.ndim == 2:
            yield "pooler_output", pooled[min(rows.row, pooled.shape[0] - 1)], "pooler_output"
        return
    if found.ndim != 3:
        yield "class_logits", found[min(rows.row, found.shape[0] - 1)], "logits"
        return
    kept = rows.of(found)
    if logits == "all":
        yield "logits", kept, "logits"
    yield "last_logits", kept[-1], "logits"
