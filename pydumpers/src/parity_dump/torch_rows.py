"""One sequence out of a batch, without its padding: so that what two engines dump has the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Rows:
    """Which part of a batched tensor is dumped.

    ``batch`` sequences of ``tokens`` positions; sequence ``row`` is kept. ``keep`` are the positions that are no padding
    and ``keys`` the same over the whole cache (both index tensors, None where nothing is padding).
    """

    batch: int
    tokens: int
    row: int = 0
    keep: Any = None
    keys: Any = None

    def of(self, t: Any) -> Any:
        """Return the sequence's rows of ``t``: [B, T, ...] or [B*T, ...] to [T, ...], padding taken out.

        A tensor of another layout is returned whole where it has no batch dimension, else as its batch entry.
        """
        if t.ndim >= 2 and t.shape[0] == self.batch and t.shape[1] == self.tokens:
            t = t[self.row]
        elif t.ndim >= 1 and self.batch * self.tokens == t.shape[0] and (self.batch > 1 or t.ndim >= 2):
            t = t.reshape(self.batch, self.tokens, *t.shape[1:])[self.row]
        elif t.ndim >= 3 and t.shape[0] == self.batch:
            return t[self.row]
        else:
            return t
        return self._strip(t, 0, self.keep)

    def heads(self, t: Any, head_dim_axis: int | None = None) -> Any:
        """Return [T, heads, head_dim] of a 4-dimensional [B, heads, T, d] or [B, T, heads, d]; others as :meth:`of`.

        ``head_dim_axis`` (1 or 2) says where the heads are. Unsaid, the axis with T entries is the token axis; where both
        have, the one with the larger stride, since projections lay tokens out first.
        """
        if t.ndim != 4:
            return self.of(t)
        axis = head_dim_axis
        if axis is None:
            first, second = t.shape[1] == self.tokens, t.shape[2] == self.tokens
            axis = 1 if second and (not first or t.stride(2) > t.stride(1)) else 2
        t = t[self.row]
        return self._strip(t.transpose(0, 1) if axis == 1 else t, 0, self.keep)

    def probs(self, t: Any) -> Any:
        """Return [heads, T, S] of attention probabilities [B, heads, T, S], padding taken out on both sides."""
        return self._strip(self._strip(t[self.row], 1, self.keep), 2, self.keys)

    def mask(self, mask: Any) -> Any:
        """Return one sequence's mask [S] without its padding, as its rows are, so that it equals that of the sequence alone.

        What a mask of the only sequence hides at its end is kept: it may be a decoded prefix that it was not extended with.
        """
        trailing = self.batch == 1 and not bool(mask[-1])
        return mask if trailing else self._strip(mask, 0, self.keys)

    def _strip(self, t: Any, axis: int, index: Any) -> Any:
        if index is None or int(index.max()) >= t.shape[axis]:
            return t
        return t.index_select(axis, index.to(t.device))

    @classmethod
    def from_mask(cls, batch: int, tokens: int, row: int, mask: Any, strip: bool) -> Rows:
        """Return the rows for a 2-dimensional attention mask [B, S] (S counts cached positions too), or for none."""
        if not strip or mask is None or mask.ndim != 2 or mask.shape[0] != batch or mask.shape[1] < tokens:
            return cls(batch, tokens, row)
        keys = mask[row].ne(0)
        now = keys[-tokens:]
        if bool(keys.all()):
            return cls(batch, tokens, row)
        return cls(
            batch, tokens, row,
            None if bool(now.all()) or not bool(now.any()) else now.nonzero().flatten(),
            keys.nonzero().flatten(),
        )  # fmt: skip
