"""What a finished dump says about its own capture: the known mistakes that one side alone can show.

Each check is a function of a :class:`Facts` that yields sentences; :data:`CHECKS` is the table. They are warnings, not
errors: the same things are judged with both sides at hand by ``parity validate``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from .dtypes import is_float
from .names import layer_name, split_layer


@dataclass(frozen=True)
class Facts:
    """What the checks look at: manifest entries by name, checksums of the residual checkpoints, model facts."""

    entries: Mapping[str, Mapping[str, Any]]
    crc: Mapping[str, int]
    model: Mapping[str, Any]
    sampled: bool

    def layers(self) -> list[int]:
        """Indices of the layer outputs that are there, sorted."""
        found = (split_layer(n) for n in self.entries)
        return sorted(i for i, tap in found if i is not None and tap is None)

    def same(self, a: str, b: str) -> bool:
        """Report whether two residual checkpoints have the same bytes and shape."""
        return (
            a in self.crc and b in self.crc and self.crc[a] == self.crc[b]
            and self.entries[a]["shape"] == self.entries[b]["shape"]
        )


def _no_tokens(f: Facts) -> Iterator[str]:
    if "prompt_tokens" not in f.entries:
        yield "prompt_tokens was not dumped: nothing can prove that both sides were given the same ids"


def _missing_layers(f: Facts) -> Iterator[str]:
    have, want = f.layers(), f.model.get("num_layers")
    if f.sampled and not have:
        yield "layers= selected no layer that ran: indices count from 0"
    if f.sampled or not have:
        return
    missing = sorted(set(range(int(want) if want else have[-1] + 1)) - set(have))
    if missing:
        yield f"no output of layer {', '.join(map(str, missing))} was dumped ({len(have)} layers were)"
    if want and have[-1] >= int(want):
        yield f"layer {have[-1]} was dumped, but the model has {want} layers: indices count from 0"


def _identical_neighbours(f: Facts) -> Iterator[str]:
    have = f.layers()
    for i, j in pairwise(have):
        a, b = layer_name(i), layer_name(j)
        if j == i + 1 and f.same(a, b):
            yield f"{a} and {b} are identical to the bit: a view of a buffer that was overwritten before it was copied?"
    if f.same("post_embed", layer_name(0)):
        yield "layer_00 is identical to post_embed: the input of each layer was dumped for its output (index off by one)"
    if have and f.same(layer_name(have[-1]), "post_final_norm"):
        yield f"{layer_name(have[-1])} is identical to post_final_norm: the last entry is after the final norm"


def _rows(f: Facts) -> Iterator[str]:
    tokens = f.entries.get("prompt_tokens")
    if tokens is None or len(tokens["shape"]) != 1:
        return
    want = tokens["shape"][0]
    other = [
        f"{n} {e['shape']}" for n, e in f.entries.items()
        if (split_layer(n)[0] is not None or n == "post_embed") and _token_rows(e) not in (None, want)
    ]
    if other:
        yield f"prompt_tokens has {want} rows, but {len(other)} checkpoints have others: {', '.join(other[:3])}"


def _token_rows(entry: Mapping[str, Any]) -> int | None:
    axes = entry.get("axes") or []
    if "token" not in axes or (entry.get("shard") or {}).get("axis") == "token":
        return None
    return int(entry["shape"][list(axes).index("token")])


def _dtype_disagrees(f: Facts) -> Iterator[str]:
    want = f.model.get("dtype")
    if not want or not is_float(str(want)):
        return
    floats = {n: e["dtype"] for n, e in f.entries.items() if is_float(e["dtype"])}
    off = {n: d for n, d in floats.items() if d != want}
    residual = [n for n in off if split_layer(n)[1] is None and (split_layer(n)[0] is not None or n == "post_embed")]
    if residual or len(off) * 2 > len(floats):
        kinds = ", ".join(f"{n} {d}" for d, n in Counter(off.values()).most_common())
        yield (
            f"{len(off)} of {len(floats)} float tensors are not {want}, the model's dtype ({kinds}): was something promoted "
            "(autocast, a numpy scalar)?"
        )


def _empty(f: Facts) -> Iterator[str]:
    empty = [n for n, e in f.entries.items() if 0 in e["shape"]]
    if empty:
        yield f"{len(empty)} checkpoints hold no value: {', '.join(empty[:3])}"


CHECKS: tuple[Callable[[Facts], Iterator[str]], ...] = (
    _no_tokens,
    _missing_layers,
    _identical_neighbours,
    _rows,
    _dtype_disagrees,
    _empty,
)


def doubts(
    entries: Mapping[str, Mapping[str, Any]], crc: Mapping[str, int], model: Mapping[str, Any], *, sampled: bool
) -> list[str]:
    """Return what is suspicious about a finished dump, one sentence each, in the order of :data:`CHECKS`."""
    facts = Facts(entries, crc, model, sampled)
    return [s for check in CHECKS for s in check(facts)]
