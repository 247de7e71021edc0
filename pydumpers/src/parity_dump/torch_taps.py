"""The hooks of one block: which tensors become which sub-taps while the block runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from .names import layer_name
from .torch_rope import pairing
from .torch_structure import BlockMap, is_norm

Hook = Callable[..., None]


class Sink(Protocol):
    """What the hooks hand tensors to: the running dump."""

    rows: Any

    def emit(self, name: str, tensor: Any, **facts: Any) -> None:
        """Write a tensor that is [T, ...] already."""

    def annotate(self, name: str, **facts: Any) -> None:
        """Add facts to a written tensor."""

    def warn(self, message: str) -> None:
        """Give a warning, once."""

    @property
    def facts(self) -> dict[str, Any]:
        """The model's facts."""


@dataclass
class Frame:
    """One running call of a block: what came in, and what its norms made of it so far."""

    index: int
    hidden: Any = None
    norms: list[tuple[str, Any, Any, Any]] = field(default_factory=list)  # path, input, output, residual output
    used: set[str] = field(default_factory=set)
    storages: dict[str, int] = field(default_factory=dict)
    parallel: bool = False

    def name(self, tap: str | None = None) -> str:
        """Return the checkpoint's name in this layer."""
        return layer_name(self.index, tap)


def first_tensor(value: Any) -> Any:
    """Return the hidden state in a module's output: the tensor, a tuple's first tensor, an output object's own field."""
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, (tuple, list)):
        return next((v for v in value if isinstance(v, torch.Tensor)), None)
    for key in ("last_hidden_state", "hidden_states", "hidden_state", "logits"):
        found = value.get(key) if isinstance(value, dict) else getattr(value, key, None)
        if isinstance(found, torch.Tensor):
            return found
    if isinstance(value, dict):
        return next((v for v in value.values() if isinstance(v, torch.Tensor)), None)
    return None


def arguments(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return a call's arguments by name, as ``module.forward`` names them."""
    try:
        bound = inspect.signature(module.forward).bind_partial(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return {**{str(i): a for i, a in enumerate(args)}, **kwargs}
    extra = next((v for v in bound.values() if isinstance(v, dict) and set(v) <= set(kwargs)), {})
    return {**bound, **extra}


def hidden_in(given: dict[str, Any]) -> Any:
    """Return the hidden state among a block's arguments: by its usual name, else the first float tensor."""
    named = given.get("hidden_states")
    if isinstance(named, torch.Tensor):
        return named
    return next((v for v in given.values() if isinstance(v, torch.Tensor) and v.is_floating_point() and v.ndim >= 2), None)


def same(a: Any, b: Any) -> bool:
    """Report whether two tensors are the same values in memory (one may be a reshaped view of the other)."""
    return (
        isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
        and a.numel() == b.numel() and a.device == b.device and a.data_ptr() == b.data_ptr()
    )  # fmt: skip


class BlockTaps:
    """Hooks for the parts of one block; ``frame()`` gives its running call, or None."""

    def __init__(self, sink: Sink, block: Any, parts: BlockMap, prefix: str, frame: Callable[[], Frame | None]) -> None:
        self._sink, self._block, self._parts, self._prefix, self._frame = sink, block, parts, prefix, frame
        self.handles: list[Any] = []
        try:
            self._place()
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Remove every hook; may be called twice."""
        while self.handles:
            self.handles.pop().remove()

    def _place(self) -> None:
        p = self._parts
        for path, norm in p.norms.items():
            self._out(norm, self._norm, path)
        consumers = {"q": self._enter_attention, "qkv": self._enter_attention, "mlp_gate": self._enter_mlp,
                     "mlp_up": self._enter_mlp, "gate_up": self._enter_mlp}  # fmt: skip
        for tap, (_, module) in p.outputs.items():
            if tap in consumers:
                self._in(module, consumers[tap], "")
        if "experts" in p.moe and "mlp_out" in p.outputs:
            self._in(p.outputs["mlp_out"][1], self._enter_mlp, "")
        for tap, (path, module) in p.inputs.items():
            self._in(module, self._leaf_in, path, tap)
        self._place_moe()
        for tap, (path, module) in p.outputs.items():
            handler = {"qkv": self._fused_qkv, "gate_up": self._fused_gate_up}.get(tap, self._leaf_out)
            self._out(module, handler, path, tap)
        if p.attention is not None:
            self._out(p.attention, self._attention, "")

    def _place_moe(self) -> None:
        for role, handler in (("router", self._router), ("experts", self._routed), ("shared", self._shared)):
            if role in self._parts.moe:
                path, module = self._parts.moe[role]
                self._out(module, handler, path)
                if role == "experts":
                    self._in(module, self._dispatch, path)

    # Note: torch replaces a module's output by whatever a hook returns, so each of these returns None.

    def _out(self, module: Any, handler: Hook, path: str, *more: str) -> None:
        def hook(m: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
            frame = self._frame()
            if frame is not None:
                handler(frame, path, *more, m, args, kwargs, output)

        self.handles.append(module.register_forward_hook(hook, with_kwargs=True))

    def _in(self, module: Any, handler: Hook, path: str, *more: str) -> None:
        def hook(m: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            frame = self._frame()
            if frame is not None:
                handler(frame, path, *more, m, args, kwargs)

        self.handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))

    def _source(self, path: str) -> str:
        return f"{self._prefix}.{path}" if path else self._prefix

    # ---- norms: which one it is shows when its output arrives somewhere --------------------------------------------

    def _norm(self, frame: Frame, path: str, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        given = [v for v in (*args, *kwargs.values()) if isinstance(v, torch.Tensor)]
        residual = output[1] if isinstance(output, (tuple, list)) and len(output) > 1 else None
        frame.norms.append((path, given[0] if given else None, first_tensor(output), residual))

    def _feeding(self, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, Any, Any, Any] | None:
        x = next((v for v in (*args, *kwargs.values()) if isinstance(v, torch.Tensor)), None)
        return next((n for n in reversed(frame.norms) if same(n[2], x)), None)

    def _enter_attention(self, frame: Frame, _: str, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        norm = self._feeding(frame, args, kwargs)
        if norm is not None and "input_norm" not in frame.used:
            frame.used |= {"input_norm", norm[0]}
            self._sink.emit(frame.name("input_norm"), self._sink.rows.of(norm[2]), source=self._source(norm[0]))

    def _enter_mlp(self, frame: Frame, _: str, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        norm = self._feeding(frame, args, kwargs)
        if norm is None or "post_attn_norm" in frame.used:
            return
        path, before, after, residual = norm
        if path in frame.used:  # one norm feeds both: attention and MLP run side by side
            frame.parallel = True
            return
        frame.used |= {"post_attn_norm", path}
        inputs = None
        stream = residual if residual is not None else before
        if same(stream, frame.hidden):
            frame.parallel = True
            inputs = [self._previous(frame)]
        elif stream is not None:
            self._sink.emit(frame.name("ffn_inp"), self._sink.rows.of(stream), source=f"input of {self._source(path)}")
        self._sink.emit(frame.name("post_attn_norm"), self._sink.rows.of(after), source=self._source(path), inputs=inputs)

    @staticmethod
    def _previous(frame: Frame) -> str:
        return layer_name(frame.index - 1) if frame.index else "post_embed"

    def finish(self, frame: Frame) -> None:
        """Write the norms that fed neither attention nor MLP (sandwich and post norms) under their own names."""
        for path, _, after, _ in frame.norms:
            if path not in frame.used and after is not None:
                self._sink.emit(frame.name(path), self._sink.rows.of(after), source=self._source(path))

    # ---- projections -----------------------------------------------------------------------------------------------

    def _mlp_inputs(self, frame: Frame, tap: str) -> list[str] | None:
        if tap in ("mlp_gate", "mlp_up") and frame.parallel and "post_attn_norm" not in frame.used:
            return [frame.name("input_norm")]
        return None

    def _leaf_out(
        self, frame: Frame, path: str, tap: str, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> None:
        t = first_tensor(output)
        if t is None:
            return
        if tap in ("q", "k", "q_norm", "k_norm"):
            frame.storages[tap[0]] = t.untyped_storage().data_ptr()
        rows = self._sink.rows.heads(t) if tap in ("q_norm", "k_norm") else self._sink.rows.of(t)
        self._sink.emit(frame.name(tap), rows, source=self._source(path), inputs=self._mlp_inputs(frame, tap))

    def _leaf_in(self, frame: Frame, path: str, tap: str, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        t = next((v for v in (*args, *kwargs.values()) if isinstance(v, torch.Tensor)), None)
        if t is not None:
            self._sink.emit(frame.name(tap), self._sink.rows.of(t), source=f"input of {self._source(path)}")

    def _fused_qkv(
        self, frame: Frame, path: str, tap: str, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> None:
        """Split a fused projection: all q, then k, then v; or group by group ("query_key_value", as GPT-NeoX and Falcon)."""
        t = first_tensor(output)
        facts = self._sink.facts
        heads, kv, d = facts.get("num_heads"), facts.get("num_kv_heads"), facts.get("head_dim")
        if t is None:
            return
        for letter in "qk":
            frame.storages[letter] = t.untyped_storage().data_ptr()
        if heads and d:  # configs do not always say how many kv heads a fused projection has; its width does
            kv = (t.shape[-1] // d - heads) // 2
        if not (heads and kv and d) or t.shape[-1] != (heads + 2 * kv) * d or heads % kv:
            self._sink.warn(f"{self._source(path)}: width {t.shape[-1]} fits no known split into q, k, v; not dumped")
            return
        rows = self._sink.rows.of(t)
        if path.endswith("query_key_value"):
            grouped = rows.reshape(rows.shape[0], kv, heads // kv + 2, d)
            q, k, v = grouped[:, :, :-2], grouped[:, :, -2:-1], grouped[:, :, -1:]
        else:
            q, k, v = rows.split([heads * d, kv * d, kv * d], dim=-1)
        for name, part in (("q", q), ("k", k), ("v", v)):
            self._sink.emit(frame.name(name), part.reshape(rows.shape[0], -1), source=f"{self._source(path)} ({name})")

    def _fused_gate_up(
        self, frame: Frame, path: str, tap: str, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> None:
        t = first_tensor(output)
        if t is None:
            return
        for name, part in zip(("mlp_gate", "mlp_up"), self._sink.rows.of(t).chunk(2, dim=-1), strict=True):
            inputs = self._mlp_inputs(frame, name)
            self._sink.emit(frame.name(name), part, source=f"{self._source(path)} ({name[4:]})", inputs=inputs)

    def _attention(self, frame: Frame, _: str, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """Take attention probabilities, which only eager attention returns, out of the module's output."""
        if not isinstance(output, (tuple, list)):
            return
        tokens = self._sink.rows.tokens
        probs = next((t for t in output[1:] if isinstance(t, torch.Tensor) and t.ndim == 4 and t.shape[2] == tokens), None)
        if probs is not None and probs.is_floating_point():
            self._sink.emit(
                frame.name("attn_probs"), self._sink.rows.probs(probs), source=self._prefix, before=frame.name("attn_ctx")
            )

    def rope(self, frame: Frame, which: str | None, before: Any, after: Any, axis: int | None) -> None:
        """Take q or k right after RoPE, from the wrapped function; ``which`` None is decided by whose storage it is."""
        if which is None:
            storage = before.untyped_storage().data_ptr()
            which = next((w for w, ptr in frame.storages.items() if ptr == storage), None)
        if which is None or frame.name(f"{which}_rope") in frame.used:
            return
        frame.used.add(frame.name(f"{which}_rope"))
        rows = self._sink.rows
        a, b = rows.heads(before, axis), rows.heads(after, axis)
        head_dim = self._sink.facts.get("head_dim") or 0
        if b.shape[-1] < head_dim and before.stride(-1) == 1 and b.ndim == 3:
            b = _with_unrotated(before, b, rows, axis, head_dim)
        paired = pairing(a, b) if a.ndim == 3 and b.ndim == 3 else None
        columns = paired[1] if paired else None
        self._sink.emit(frame.name(f"{which}_rope"), b, source=f"{self._prefix}: after rotation", columns=columns)
        if paired:
            self._sink.annotate(frame.name(which), columns=paired[0])
            self._sink.annotate(frame.name(f"{which}_norm"), columns=paired[0])

    # ---- mixture of experts ----------------------------------------------------------------------------------------

    def _router(self, frame: Frame, path: str, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        t = first_tensor(output)
        experts = self._sink.facts.get("num_experts")
        if t is not None and t.is_floating_point() and (not experts or t.shape[-1] == experts):
            self._sink.emit(frame.name("router_logits"), self._sink.rows.of(t), source=self._source(path))

    def _dispatch(self, frame: Frame, path: str, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        tensors = [v for v in (*args, *kwargs.values()) if isinstance(v, torch.Tensor)][1:]
        ids = next((t for t in tensors if not t.is_floating_point() and t.ndim == 2), None)
        if ids is None:
            return
        weights = next((t for t in tensors if t.is_floating_point() and t.shape == ids.shape), None)
        self._sink.emit(frame.name("expert_ids"), self._sink.rows.of(ids), source=f"input of {self._source(path)}")
        if weights is not None:
            self._sink.emit(frame.name("expert_weights"), self._sink.rows.of(weights), source=f"input of {self._source(path)}")

    def _routed(self, frame: Frame, path: str, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        t = first_tensor(output)
        if t is not None:
            self._sink.emit(frame.name("moe_routed"), self._sink.rows.of(t), source=self._source(path))

    def _shared(self, frame: Frame, path: str, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        t = first_tensor(output)
        if t is not None:
            self._sink.emit(frame.name("moe_shared"), self._sink.rows.of(t), source=self._source(path))


def _with_unrotated(before: Any, rotated: Any, rows: Any, axis: int | None, head_dim: int) -> Any:
    """Return rotated dims followed by the rest of each head, which a partial rotary model appends without turning it.

    ``before`` is a view of the first dims of each head; the whole head lies behind it in the same storage. A view that
    does not start a head (multi-head latent attention rotates the last dims) is left as it is.
    """
    width = before.shape[-1]
    step = min((s for s in before.stride()[:-1] if s > 1), default=0)
    if step < head_dim or before.storage_offset() % head_dim or step % head_dim:
        return rotated
    whole = before.as_strided((*before.shape[:-1], head_dim), before.stride(), before.storage_offset())
    return torch.cat([rotated, rows.heads(whole, axis)[..., width:]], dim=-1)


__all__ = ["BlockTaps", "Frame", "arguments", "first_tensor", "hidden_in", "is_norm", "same"]
