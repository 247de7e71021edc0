"""Names of checkpoints: the standard ones, their axes, and the file each goes to."""

from __future__ import annotations

import re

from .errors import DumpError

_LAYER = re.compile(r"^layer_(\d+)(?:\.(.+))?$")
_SAFE = re.compile(r"[A-Za-z0-9_.\-]")

HIDDEN = ("token", "hidden")
PER_HEAD = ("token", "head", "head_dim")

# Axes of a standard checkpoint, by its number of dimensions. Sub-taps are listed in execution order.
SUB_TAPS: dict[str, tuple[tuple[str, ...], ...]] = {
    "input_norm": (HIDDEN,),
    "q": (HIDDEN, PER_HEAD),
    "k": (HIDDEN, PER_HEAD),
    "v": (HIDDEN, PER_HEAD),
    "q_norm": (HIDDEN, PER_HEAD),
    "k_norm": (HIDDEN, PER_HEAD),
    "q_rope": (HIDDEN, PER_HEAD),
    "k_rope": (HIDDEN, PER_HEAD),
    "attn_probs": (("head", "token", "key"),),
    "attn_ctx": (HIDDEN, PER_HEAD),
    "attn_out": (HIDDEN,),
    "ffn_inp": (HIDDEN,),
    "post_attn_norm": (HIDDEN,),
    "mlp_gate": (("token", "intermediate"),),
    "mlp_up": (("token", "intermediate"),),
    "mlp_act": (("token", "intermediate"),),
    "router_logits": (("token", "expert"),),
    "expert_ids": (("token", "choice"),),
    "expert_weights": (("token", "choice"),),
    "moe_routed": (HIDDEN,),
    "moe_shared": (HIDDEN,),
    "mlp_out": (HIDDEN,),
    "conv_out": (HIDDEN,),
    "ssm_out": (HIDDEN,),
    "residual": (HIDDEN,),
}

MODEL_TAPS: dict[str, tuple[tuple[str, ...], ...]] = {
    "prompt_tokens": (("token",),),
    "position_ids": (("token",), ("axis", "token")),
    "attention_mask": (("key",), ("token", "key")),
    "post_embed": (HIDDEN,),
    "post_final_norm": (HIDDEN,),
    "logits": (("token", "vocab"),),
    "last_logits": (("vocab",),),
    "tower_out": (HIDDEN,),
}


def layer_name(index: int, tap: str | None = None) -> str:
    """Return ``layer_NN`` or ``layer_NN.<tap>``; two digits at least. Raises :class:`DumpError` below zero."""
    if index < 0:
        raise DumpError(f"naming layer {index}: a layer's index counts from 0")
    return f"layer_{index:02d}" + (f".{tap}" if tap else "")


def split_layer(name: str) -> tuple[int | None, str | None]:
    """Return ``(index, tap)`` of a layer's name, ``(None, None)`` for any other; the layer output has no tap."""
    m = _LAYER.match(name)
    return (int(m.group(1)), m.group(2)) if m else (None, None)


def default_axes(name: str, ndim: int) -> tuple[str, ...] | None:
    """Return the axes that a standard name has with ``ndim`` dimensions; None where that is not known."""
    index, tap = split_layer(name)
    if index is not None:
        known = SUB_TAPS.get(tap, ()) if tap else (HIDDEN,)
    else:
        known = MODEL_TAPS.get(name, ())
    return next((axes for axes in known if len(axes) == ndim), None)


def file_name(name: str, taken: set[str]) -> str:
    """Return a file name for a checkpoint that is safe on every file system, and add it to ``taken``.

    Standard names map to ``<name>.npy``. Other characters become ``%XX`` (their UTF-8 bytes); names that differ only in
    case, which some file systems cannot tell apart, get ``~2``, ``~3``, ... Raises :class:`DumpError` for an empty name,
    one with a NUL or line break, or one over 200 bytes.
    """
    if not name or any(c in name for c in "\0\n\r"):
        raise DumpError(f"adding checkpoint {name!r}: a name may not be empty or hold NUL or line breaks")
    safe = "".join(c if _SAFE.match(c) else "".join(f"%{b:02X}" for b in c.encode()) for c in name)
    if safe.startswith("."):
        safe = "%2E" + safe[1:]
    if len(safe) > 200:
        raise DumpError(f"adding checkpoint {name[:40]!r}...: its file name would have {len(safe)} bytes, 200 at most")
    candidate, n = safe, 1
    while candidate.casefold() in taken:
        n += 1
        candidate = f"{safe}~{n}"
    taken.add(candidate.casefold())
    return candidate + ".npy"
