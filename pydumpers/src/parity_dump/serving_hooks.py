"""Hooks for serving engines whose decoder layers return (hidden, residual): vLLM and SGLang.

Such a layer leaves the last addition to the next layer's fused norm, which adds in place. Only hidden + residual is the
residual stream that Hugging Face models have; either half alone looks badly wrong. So the sum is taken in the layer's own
hook, before anything can overwrite a half, in the tensors' own dtype, as the fused norm would; both halves are kept
beside it as ``layer_NN.hidden`` and ``layer_NN.residual``.

An engine runs the model once for each batch: each forward is a step with its own folder. Tokens of all requests of a batch
are concatenated, so send one request. Under tensor parallelism each rank writes ``rank_NN``, and the parts say how they
are split.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from .arrays import to_numpy
from .core import DumpWriter
from .errors import DumpError
from .folder import prepare
from .hf_config import facts
from .module_names import output_of, split_path
from .names import layer_name, split_layer

# Sub-taps whose last axis is divided over tensor-parallel ranks; all others are whole on every rank.
_DIVIDED = frozenset(
    ("q", "k", "v", "q_norm", "k_norm", "q_rope", "k_rope", "attn_ctx", "mlp_gate", "mlp_up", "mlp_act")
)  # fmt: skip

# Names of modules inside a layer that module_names does not know: they exist in serving engines only.
_QKV, _GATE_UP = "self_attn.qkv_proj", "mlp.gate_up_proj"
_ROTARY, _CONTEXT, _ACTIVATION = "self_attn.rotary_emb", "self_attn.attn", "mlp.act_fn"


def first(value: Any) -> torch.Tensor | None:
    """Return the first tensor of a module's output: parallel linear layers return (output, bias)."""
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, (tuple, list)):
        return next((v for v in value if isinstance(v, torch.Tensor)), None)
    return None


class ServingDumper:
    """Dumps every forward of a serving engine's model; :meth:`close` removes the hooks.

    ``engine`` and ``version`` go to the manifest; ``rank`` of ``world`` is the tensor-parallel one. ``steps`` limits how
    many forwards are written. Of an output projection that adds up over ranks the engine's layer returns the sum already.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        out: str | os.PathLike[str],
        *,
        engine: str,
        version: str,
        rank: int = 0,
        world: int = 1,
        steps: int | None = None,
        overwrite: bool = False,
        **writer_options: Any,
    ) -> None:
        self._rank, self._world, self._steps = rank, world, steps
        self._out, self._options = Path(out), writer_options
        self._engine = {"name": engine, "version": version}
        self._writer: DumpWriter | None = None
        self._failed: BaseException | None = None
        self._handles: list[Any] = []
        self.step = -1
        self._model = self._facts(model)
        if rank == 0:
            prepare(self._out, self._out, overwrite)
        try:
            self._place(model)
        except BaseException:
            self._remove()
            raise

    def _facts(self, model: torch.nn.Module) -> dict[str, Any]:
        config = getattr(model, "config", None)
        found = facts(config.to_dict()) if config is not None and hasattr(config, "to_dict") else {}
        parameter = next(model.parameters(), None)
        if parameter is not None:
            found["dtype"] = str(parameter.dtype).removeprefix("torch.")
            self._engine["device"] = parameter.device.type
        return {**found, "class": type(model).__name__, **self._options.pop("model", {})}

    # ---- placing -----------------------------------------------------------------------------------------------------

    def _place(self, model: torch.nn.Module) -> None:
        starts, layers = None, 0
        for path, module in model.named_modules():
            if type(module).__name__ == "PPMissingLayer":
                continue  # another pipeline stage has this layer
            index, rest = split_path(path)
            place = output_of(path) if path else None
            if place is not None and place.name == "post_embed" and starts is None:
                starts = module
            if index is not None and not rest:
                layers += 1
                starts = starts or module
                self._pre(module, self._on_layer_input)
                self._post(module, self._on_layer, index)
            elif index is not None and rest in _SPECIAL:
                self._post(module, _SPECIAL[rest], self, index, model.get_submodule(path.rpartition(".")[0]))
            elif place is not None and place.rank % 10 == 0:
                self._post(module, self._on_output, place.name)
            elif path.rpartition(".")[2] == "logits_processor":
                self._post(module, self._on_logits)
        if not layers or starts is None:
            raise DumpError(f"hooking {type(model).__name__}: it has no modules named layers.N; is it the engine's model?")
        # First in line on that module, so that a step begins before anything of it arrives.
        self._handles.append(starts.register_forward_pre_hook(self._on_start, prepend=True))

    def _post(self, module: torch.nn.Module, act: Callable[..., None], *given: Any) -> None:
        def hook(_: Any, args: tuple[Any, ...], output: Any) -> None:
            # Note: a hook that returns anything but None would replace the module's output.
            self._guard(lambda: act(*given, args, output))

        self._handles.append(module.register_forward_hook(hook))

    def _pre(self, module: torch.nn.Module, act: Callable[..., None]) -> None:
        def hook(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self._guard(lambda: act(args, kwargs))

        self._handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))

    def _guard(self, act: Callable[[], None]) -> None:
        """Run ``act`` while a step is open; an error marks the dump incomplete and stops it, and is raised by close()."""
        if self._writer is None or self._failed is not None:
            return
        try:
            act()
        except BaseException as e:
            self._failed = e
            self._end_step(e)

    # ---- what arrives ------------------------------------------------------------------------------------------------

    def _on_start(self, _: Any, args: tuple[Any, ...]) -> None:
        if self._failed is not None:
            return
        self._end_step()
        self.step += 1
        if self._steps is not None and self.step >= self._steps:
            return
        rank = {"index": self._rank, "world": self._world, "tp": [self._rank, self._world]}
        self._writer = DumpWriter(
            self._out,
            dumper=f"parity_dump.{self._engine['name']}",
            framework=self._engine,
            model=self._model,
            mode="serve",
            step=self.step,
            rank=rank if self._world > 1 else None,
            **self._options,
        )
        ids = first(args)
        if ids is not None and not ids.is_floating_point():
            self._guard(lambda: self.add("prompt_tokens", ids, "input of the embedding"))

    def _on_layer_input(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        positions = kwargs.get("positions", args[0] if args else None)
        if isinstance(positions, torch.Tensor) and not positions.is_floating_point() and self._new("position_ids"):
            self.add("position_ids", positions, "positions")

    def _on_layer(self, index: int, args: tuple[Any, ...], output: Any) -> None:
        name = layer_name(index)
        hidden = first(output)
        if hidden is None:
            raise DumpError(f"dumping {name}: the layer returned {type(output).__name__}, not a tensor or a pair")
        residual = output[1] if isinstance(output, (tuple, list)) and len(output) > 1 else None
        if isinstance(residual, torch.Tensor) and residual.shape == hidden.shape:
            self.add(f"{name}.hidden", hidden, "[0]")
            self.add(f"{name}.residual", residual, "[1]")
            self.add(name, hidden + residual, "[0] + [1]")
        else:
            self.add(name, hidden, "output")

    def _on_output(self, name: str, args: tuple[Any, ...], output: Any) -> None:
        t = first(output)
        if t is not None and t.is_floating_point():
            self.add(name, t, "output")

    def _on_logits(self, args: tuple[Any, ...], output: Any) -> None:
        t = getattr(output, "next_token_logits", None)
        t = t if isinstance(t, torch.Tensor) else first(output)
        if t is None:
            return  # only the first rank has them
        if t.ndim == 2 and t.shape[0] == 1:
            self.add("last_logits", t[0], "logits_processor")
        else:
            self.add("logits", t, "logits_processor")
        self._end_step()

    def _on_qkv(self, index: int, parent: torch.nn.Module, args: tuple[Any, ...], output: Any) -> None:
        t = first(output)
        # Each rank has its own heads, so the attention module's own sizes tell, not the config.
        q, kv = getattr(parent, "q_size", None), getattr(parent, "kv_size", None)
        if t is None or q is None or kv is None or t.shape[-1] != q + 2 * kv:
            return
        for tap, part in zip("qkv", t.split([q, kv, kv], dim=-1), strict=True):
            self.add(layer_name(index, tap), part, f"qkv_proj ({tap})")

    def _on_gate_up(self, index: int, parent: torch.nn.Module, args: tuple[Any, ...], output: Any) -> None:
        t = first(output)
        if t is not None:
            for tap, part in zip(("mlp_gate", "mlp_up"), t.chunk(2, dim=-1), strict=True):
                self.add(layer_name(index, tap), part, "gate_up_proj")

    def _on_rotary(self, index: int, parent: torch.nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if isinstance(output, (tuple, list)) and len(output) == 2:
            self.add(layer_name(index, "q_rope"), output[0], "rotary_emb")
            self.add(layer_name(index, "k_rope"), output[1], "rotary_emb")

    def _on_context(self, index: int, parent: torch.nn.Module, args: tuple[Any, ...], output: Any) -> None:
        t = first(output)
        if t is not None:
            self.add(layer_name(index, "attn_ctx"), t, "attn")

    def _on_activation(self, index: int, parent: torch.nn.Module, args: tuple[Any, ...], output: Any) -> None:
        t = first(output)
        if t is not None:
            self.add(layer_name(index, "mlp_act"), t, "act_fn")

    # ---- writing -----------------------------------------------------------------------------------------------------

    def _new(self, name: str) -> bool:
        return self._writer is not None and name not in self._writer.names

    def add(self, name: str, tensor: torch.Tensor, source: str) -> None:
        """Write a tensor, copied now; with several ranks it says whether it is a part or the whole."""
        if self._writer is None:
            return
        array, dtype = to_numpy(tensor)
        shard = None
        if self._world > 1:
            _, tap = split_layer(name)
            axes = ("token", "intermediate" if tap in ("mlp_gate", "mlp_up", "mlp_act") else "hidden")
            kind = "concat" if tap in _DIVIDED else "replica"
            shard = {"index": self._rank, "count": self._world, "kind": kind}
            if kind == "concat":
                shard["axis"] = axes[1]
        self._writer.add(name, array, dtype=dtype, source=source, shard=shard)

    def _end_step(self, error: BaseException | None = None) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close(complete=error is None, error=error)

    def _remove(self) -> None:
        while self._handles:
            self._handles.pop().remove()

    def close(self) -> int:
        """Remove the hooks, end the last step and return how many forwards were seen; raises an error of the hooks."""
        self._remove()
        self._end_step()
        if self._failed is not None:
            raise self._failed
        return self.step + 1


_SPECIAL: dict[str, Callable[..., None]] = {
    _QKV: ServingDumper._on_qkv,
    _GATE_UP: ServingDumper._on_gate_up,
    _ROTARY: ServingDumper._on_rotary,
    _CONTEXT: ServingDumper._on_context,
    _ACTIVATION: ServingDumper._on_activation,
}
