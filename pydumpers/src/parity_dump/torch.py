"""Dumps from PyTorch and Hugging Face models: ``with Dumper(model, "ref/") as d: model(**inputs)``.

The model is not edited. Forward hooks take each tensor while the model runs and write it before the hook returns, so
that what happens to the buffer afterwards cannot matter; every hook is removed when the block is left, however it is
left. Neither grad mode, training flag nor random state is touched.
"""

from __future__ import annotations

import fnmatch
import os
import re
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from .core import DumpWriter, Repeat, Storage, pop_sink, push_sink
from .errors import DumpError, DumpWarning
from .estimate import check_room, estimate_bytes
from .names import default_axes, layer_name, split_layer
from .ranks import RankInfo
from .selection import Selection
from .torch_arrays import to_numpy
from .torch_facts import active_dropout, framework_facts, refuse_capture, refuse_unhookable
from .torch_facts import model_facts as facts_of
from .torch_io import cached, doubt_mask, extent, ids_of, results
from .torch_ranks import detect, local, rng_fingerprint, shard_from_plan
from .torch_rope import RopeWrapper
from .torch_rows import Rows
from .torch_structure import find_blocks, map_block, norms_outside
from .torch_taps import BlockTaps, Frame, arguments, first_tensor, hidden_in

__all__ = ["Dumper", "to_numpy"]


class Dumper:
    """Dumps the forward passes of a torch model, as a context manager.

    ``with Dumper(model, "ref/", prompt={"text": text}) as d: model(**inputs)``

    One forward makes one dump. Further forwards inside the block are not dumped and warned about, unless ``steps`` is
    true: then each makes its own ``step_NNNN/``, so that ``model.generate(...)`` gives the prefill and each decode step.

    Parameters
    ----------
    model:
        Any module whose blocks are in a ``ModuleList``. Compiled and scripted models are refused: hooks do not fire there.
    out, step, prompt, layers, tokens, storage, max_bytes, overwrite, repeat:
        As for :class:`~parity_dump.core.DumpWriter`. The size is also estimated before the first layer runs.
    mode:
        Of the (first) forward; by default ``prefill``, and ``incremental`` where a cache already holds tokens.
    steps:
        True, or the number of forwards to dump as steps.
    row:
        Which sequence of the batch is dumped.
    strip_padding:
        Leave out positions that the attention mask hides, so that left and right padding give the same rows.
    sub_taps:
        Dump the parts of each block, not only its output.
    logits:
        ``last`` (the last real position) or ``all`` positions, which adds ``logits``.
    blocks, final_norm, taps:
        Overrides for what structure does not tell: the path of the block list (``"model.layers"``), of the final norm, and
        taps inside a block (``{"attn_out": "mixer.out_proj", "conv_out": "mixer.conv1d:in"}``; ``""`` switches one off).
    model_facts:
        Facts that win over what the model's config says.
    rank, mesh, shards:
        For parallel runs. By default from ``torch.distributed`` and DTensors; ``shards`` maps patterns of names to shards
        (``{"layer_*.q": {"axis": "hidden", "index": 0, "count": 2, "kind": "concat"}}``).
    """

    def __init__(
        self,
        model: Any,
        out: str | os.PathLike[str],
        *,
        mode: str | None = None,
        step: int | None = None,
        steps: bool | int = False,
        row: int = 0,
        strip_padding: bool = True,
        sub_taps: bool = True,
        logits: str = "last",
        blocks: str | None = None,
        final_norm: str | None = None,
        taps: Mapping[str, str] | None = None,
        prompt: Mapping[str, Any] | None = None,
        model_facts: Mapping[str, Any] | None = None,
        layers: str | None = None,
        tokens: str | None = None,
        storage: Storage = "native",
        max_bytes: int | None = None,
        overwrite: bool = False,
        repeat: Repeat = "first",
        rank: RankInfo | Mapping[str, Any] | None = None,
        mesh: Any = None,
        shards: Mapping[str, Mapping[str, Any]] | None = None,
        dumper: str = "parity_dump.torch",
    ) -> None:
        if logits not in ("last", "all"):
            raise DumpError(f"opening dump {os.fspath(out)}: logits {logits!r} is not last or all")
        self.model, self.out = model, Path(out)
        self.facts = facts_of(model, model_facts)
        self.rows = Rows(1, 0)
        self.paths: list[Path] = []
        self._mode, self._step, self._steps, self._row, self._strip = mode, step, steps, row, strip_padding
        self._sub_taps, self._logits, self._taps = sub_taps, logits, dict(taps or {})
        self._final_norm_path = final_norm
        self._shards = dict(shards or {})
        self._rank, self._mesh = RankInfo.of(rank), mesh
        self._prompt, self._layers, self._overwrite = prompt, layers, overwrite
        self._options: dict[str, Any] = {
            "dumper": dumper, "layers": layers, "tokens": tokens, "storage": storage, "max_bytes": max_bytes, "repeat": repeat,
        }  # fmt: skip
        self._blocks = find_blocks(model, blocks)
        count = len(self._blocks.modules)
        # One block that runs num_layers times (ALBERT) is as many layers, counted by its calls.
        self._shared = count == 1 and int(self.facts.get("num_layers") or 1) > 1
        self.facts["num_layers"] = int(self.facts["num_layers"]) if self._shared else count
        self._writer: DumpWriter | None = None
        self._forwards = 0
        self._inside = False
        self._frames: list[Frame] = []
        self._block_calls = 0
        self._finished_layers = 0
        self._last: DumpWriter | None = None  # of the forward that ended last
        self._has: set[str] = set()
        self._handles: list[Any] = []
        self._block_taps: list[BlockTaps] = []
        self._rope: RopeWrapper | None = None

    # ---- life ------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Dumper:
        refuse_unhookable(self.model)
        try:
            self._place_hooks()
        except BaseException:
            self._remove_hooks()
            raise
        push_sink(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        pop_sink(self)
        self._remove_hooks()
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.__exit__(kind, error, tb)
        elif error is not None and self._steps is False and self._last is not None:
            self._last.fail(error)  # the forward went well, what the caller made of it did not; steps stand for themselves
        elif error is None and not self.paths:
            raise DumpError(
                f"dumping {type(self.model).__name__} to {self.out}: the model did not run, or its hooks did not fire "
                "(torch.compile and CUDA graphs bypass them)"
            )

    def _place_hooks(self) -> None:
        stack = self._blocks
        on = self._handles.append
        on(self.model.register_forward_pre_hook(self._model_in, with_kwargs=True))
        on(self.model.register_forward_hook(self._model_out, with_kwargs=True))
        attentions = []
        for i, block in enumerate(stack.modules):
            parts = map_block(block, self._taps) if self._sub_taps else None
            taps = BlockTaps(self, block, parts, f"{stack.path}.{i}", self._frame) if parts else None
            if taps and parts:
                self._block_taps.append(taps)
                attentions.append(parts.attention if parts.attention is not None else block)
            on(block.register_forward_pre_hook(self._block_in(i), with_kwargs=True))
            on(block.register_forward_hook(self._block_out(i, taps), with_kwargs=True))
        norms = norms_outside(self.model, stack)
        if self._final_norm_path is not None:
            module = dict(self.model.named_modules()).get(self._final_norm_path)
            if module is None:
                raise DumpError(f"finding the final norm: final_norm={self._final_norm_path!r} is not a module of the model")
            norms = {self._final_norm_path: module}
        for path, norm in norms.items():
            on(norm.register_forward_hook(self._final_norm(path), with_kwargs=True))
        for name, module in self.model.named_modules():
            if "rotaryembedding" in type(module).__name__.lower():
                on(module.register_forward_pre_hook(self._positions(name), with_kwargs=True))
        if attentions:
            self._rope = RopeWrapper(attentions, self._rotated)

    def _remove_hooks(self) -> None:
        for taps in self._block_taps:
            taps.remove()
        self._block_taps.clear()
        while self._handles:
            self._handles.pop().remove()
        if self._rope is not None:
            self._rope.restore()

    def estimate(self, tokens: int) -> int:
        """Return about how many bytes a dump of a prompt of ``tokens`` tokens takes."""
        count = int(self.facts["num_layers"])
        kept = len(Selection.parse(self._layers, "layers").indices(count)) if self._layers else count
        rows = self._options["tokens"]
        return estimate_bytes(
            self.facts,
            len(Selection.parse(rows, "tokens").indices(tokens)) if rows else tokens,
            keys=tokens,
            layers=kept,
            sub_taps=self._sub_taps,
            probs=getattr(getattr(self.model, "config", None), "_attn_implementation", "") == "eager",
            logits=self._logits,
            storage=self._options["storage"],
        )

    # ---- one forward -----------------------------------------------------------------------------------------------

    def _begin(self, given: Mapping[str, Any], hidden: Any = None) -> None:
        refuse_capture()
        limit = 1 if self._steps is False else (None if self._steps is True else self._steps)
        self._forwards += 1
        if limit is not None and self._forwards > limit:
            self._too_many(limit)
            return
        ids, mask = ids_of(given), given.get("attention_mask")
        batch, tokens = extent(ids, hidden)
        if not 0 <= self._row < batch:
            raise DumpError(f"dumping row {self._row} of a batch of {batch}: row counts from 0")
        mask = mask if isinstance(mask, torch.Tensor) else None
        self.rows = Rows.from_mask(batch, tokens, self._row, mask, self._strip)
        past = cached(given)
        self._open(tokens, past)
        self._has.clear()
        self._frames.clear()
        self._block_calls = self._finished_layers = 0
        if active_dropout(self.model):
            self.warn("the model is in training mode with dropout: two runs will differ; call model.eval() first")
        if self._blocks.others:
            self.warn(f"blocks are {self._blocks.path}; not dumped: {', '.join(self._blocks.others)} (choose with blocks=)")
        self._inputs(given, ids, mask, past)

    def _open(self, tokens: int, past: int) -> None:
        step = self._step
        if self._steps is not False:
            step = (self._step or 0) + self._forwards - 1
        mode = self._mode if self._mode and self._forwards == 1 else ("incremental" if past else (self._mode or "prefill"))
        rank = self._rank or detect(self.model, self._mesh)
        rank = replace(rank or RankInfo(), rng=rng_fingerprint())
        check_room(self.out, self.estimate(tokens), self._options["max_bytes"])
        self._writer = DumpWriter(
            self.out, framework=framework_facts(self.model), model=self.facts, mode=mode, step=step, rank=rank,
            prompt=self._prompt, overwrite=self._overwrite, **self._options,
        )  # fmt: skip
        self._overwrite = self._overwrite and self._steps is False  # later steps must not clear the first
        self.paths.append(self._writer.path)

    def _too_many(self, limit: int) -> None:
        if self._forwards == limit + 1:
            warnings.warn(
                f"{self.out}: the model ran more than {limit} time(s) inside the dumper; only the first is dumped. For each "
                "decode step its own folder, pass steps=True",
                DumpWarning,
                stacklevel=2,
            )

    def _inputs(self, given: Mapping[str, Any], ids: Any, mask: Any, past: int) -> None:
        rows = self.rows
        if ids is not None and not ids.is_floating_point():
            self.emit("prompt_tokens", rows.of(ids if ids.ndim > 1 else ids[None]), source="input_ids")
        positions = given.get("position_ids")
        if isinstance(positions, torch.Tensor):
            self._emit_positions(positions, "position_ids")
        if mask is not None and mask.ndim == 2 and mask.shape[0] == rows.batch:
            self.emit("attention_mask", rows.mask(mask[self._row]), source="attention_mask")
            doubt = doubt_mask(mask[self._row], rows, past)
            if doubt:
                self.warn(doubt)
        elif mask is not None and mask.ndim == 4:
            self.emit("attention_mask", mask[min(self._row, mask.shape[0] - 1), 0], source="attention_mask")
        elif mask is None and ids is not None:
            # No mask means "attend to everything"; stated, so that it can be compared with a side that gives one.
            implied = torch.ones(rows.tokens + past, dtype=torch.int64)
            self.emit("attention_mask", implied, source="implied: no attention_mask was given")
            if isinstance(positions, torch.Tensor) and positions.ndim == 2 and bool((positions.diff(dim=-1) < 0).any()):
                self.warn(
                    "position_ids start again and no attention_mask was given: transformers 5 masks that as packed sequences"
                )
        pixels = given.get("pixel_values")
        if isinstance(pixels, torch.Tensor):
            self.emit("pixel_values", pixels, source="pixel_values")

    def _model_in(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._inside = True
        self._begin(arguments(module, args, kwargs))

    def _model_out(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        self._inside = False
        writer = self._writer
        if writer is None:
            return
        for name, tensor, source in results(output, self.rows, self.facts.get("vocab_size"), self._logits):
            self.emit(name, tensor, source=source)
        self._writer, self._last = None, writer
        writer.close()

    # ---- blocks ----------------------------------------------------------------------------------------------------

    def _frame(self) -> Frame | None:
        """Return the innermost running call of a block while a dump is open."""
        return self._frames[-1] if self._writer is not None and self._frames else None

    def _block_in(self, i: int) -> Any:
        def hook(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            given = arguments(module, args, kwargs)
            hidden = hidden_in(given)
            if self._writer is None and not self._inside and i == 0:  # only a part of the model was called
                self._begin({}, hidden)
            if self._writer is None:
                return
            residual = given.get("residual")
            if isinstance(residual, torch.Tensor) and hidden is not None and residual.shape == hidden.shape:
                hidden = hidden + residual
            index = self._block_calls if self._shared else i
            self._block_calls += 1
            if index == 0 and hidden is not None and "post_embed" not in self._has:
                if self.rows.tokens == 0 and hidden.ndim > 2:
                    self.rows = Rows(hidden.shape[0], hidden.shape[1], self._row)
                self.emit("post_embed", self.rows.of(hidden), source=f"input of {self._blocks.path}.0")
            positions = given.get("position_ids")
            if isinstance(positions, torch.Tensor):
                self._emit_positions(positions, f"{self._blocks.path}.{i}: position_ids")
            self._frames.append(Frame(index, hidden))

        return hook

    def _block_out(self, i: int, taps: BlockTaps | None) -> Any:
        def hook(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
            if self._writer is None or not self._frames:
                return
            frame = self._frames.pop()
            if taps is not None:
                taps.finish(frame)
            self._emit_layer(frame.index, output, f"{self._blocks.path}.{i}")
            self._finished_layers = max(self._finished_layers, frame.index + 1)

        return hook

    def _emit_layer(self, index: int, output: Any, source: str) -> None:
        hidden = first_tensor(output)
        if hidden is None:
            raise DumpError(f"dumping layer {index}: {source} returned {type(output).__name__} without a tensor")
        name = layer_name(index)
        residual = output[1] if isinstance(output, (tuple, list)) and len(output) > 1 else None
        if isinstance(residual, torch.Tensor) and residual.shape == hidden.shape and residual.is_floating_point():
            # A split residual stream: only the sum is what other engines call the layer's output.
            self.emit(layer_name(index, "hidden"), self.rows.of(hidden), source=f"{source}[0]")
            self.emit(layer_name(index, "residual"), self.rows.of(residual), source=f"{source}[1]")
            hidden, source = hidden + residual, f"{source}[0] + [1]"
        self.emit(name, self.rows.of(hidden), source=source)

    def _final_norm(self, path: str) -> Any:
        def hook(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
            done = self._finished_layers == self.facts["num_layers"]
            t = first_tensor(output)
            if self._writer is None or not done or self._frames or t is None or "post_final_norm" in self._has:
                return
            if t.shape[-1] == self.facts.get("hidden_size", t.shape[-1]):
                self.emit("post_final_norm", self.rows.of(t), source=path)

        return hook

    def _positions(self, name: str) -> Any:
        def hook(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            found = kwargs.get("position_ids", args[1] if len(args) > 1 else None)
            if isinstance(found, torch.Tensor) and not found.is_floating_point():
                self._emit_positions(found, f"input of {name}")

        return hook

    def _emit_positions(self, positions: Any, source: str) -> None:
        if self._writer is None or "position_ids" in self._has:
            return
        if positions.ndim == 3:  # several axes of positions, as of images: [axes, B, T]
            rows = positions[:, min(self._row, positions.shape[1] - 1)]
        elif positions.ndim == 2 and positions.shape[0] != self.rows.batch:  # one row for the whole batch
            rows = Rows(1, self.rows.tokens, 0, self.rows.keep).of(positions)
        else:
            rows = self.rows.of(positions)
        self.emit("position_ids", rows, source=source)

    def _rotated(self, which: str | None, before: Any, after: Any, axis: int | None) -> None:
        if self._writer is None or not self._frames or after.ndim != 4:
            return
        frame = self._frames[-1]
        taps = self._block_taps[0 if self._shared else min(frame.index, len(self._block_taps) - 1)]
        taps.rope(frame, which, before, after, axis)

    # ---- writing ---------------------------------------------------------------------------------------------------

    def emit(self, name: str, tensor: Any, **facts: Any) -> None:
        """Write a tensor whose rows are chosen already; what :class:`BlockTaps` calls."""
        writer = self._writer
        if writer is None or not writer.wants(name):
            return
        refuse_capture()
        self._has.add(name)
        _, split = local(tensor)
        array, dtype = to_numpy(tensor)
        axes = default_axes(name, array.ndim)
        writer.add(name, array, dtype=dtype, axes=axes, shard=self._shard(name, split, axes, facts.get("source")), **facts)

    def _shard(self, name: str, split: Any, axes: tuple[str, ...] | None, source: str | None) -> dict[str, Any] | None:
        for pattern, shard in self._shards.items():
            if fnmatch.fnmatchcase(name, pattern):
                return dict(shard)
        if split is not None:
            kind, dim, index, count = split
            out: dict[str, Any] = {"index": index, "count": count, "kind": kind}
            if kind == "concat" and dim is not None:
                out["axis"] = axes[dim] if axes and dim < len(axes) else "hidden"
            return out
        tp = self._writer.rank.tp if self._writer and self._writer.rank else None
        if tp is None or split_layer(name)[1] is None:
            return None
        kind = shard_from_plan(re.sub(r"^input of ", "", source or ""), getattr(self.model, "_tp_plan", None))
        if kind is None:
            return None
        index, count = tp
        return {"index": index, "count": count, "kind": kind, **({"axis": "hidden"} if kind == "concat" else {})}

    def annotate(self, name: str, **facts: Any) -> None:
        """Add facts to a written tensor."""
        if self._writer is not None:
            self._writer.annotate(name, **facts)

    def warn(self, message: str) -> None:
        """Give a :class:`DumpWarning` and keep it in the manifest."""
        if self._writer is not None:
            self._writer.warn(message)

    def offer(self, name: str, x: Any) -> None:
        """Take a tensor from a hand-placed :func:`parity_dump.tap`, with this dump's batch row and padding."""
        if self._writer is not None:
            if isinstance(x, torch.Tensor):
                self.emit(name, self.rows.of(x), source="tap")
            else:
                self._writer.add(name, x, source="tap")
