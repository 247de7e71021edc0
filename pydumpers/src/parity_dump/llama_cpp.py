"""llama.cpp: dump a GGUF model through llama-cpp-python's evaluation callback.

``parity-dump llama-cpp MODEL.gguf --prompt P -o port/``, or :func:`dump`. What this adapter takes care of:

* ggml lists dimensions fastest first and hands out strided views: arrays are built from ne (reversed) and nb;
* names recur (``Qcur-0`` before, while and after it is rotated): the operation tells which is which;
* with flash attention on automatic ``kq_soft_max`` never exists, with logits for the last token only the last layer has one
  row, and a prompt longer than a micro-batch comes in chunks: all three are set so that nothing is lost;
* the KV length is padded: attention probabilities are cut to the keys that exist;
* converters permute the q and k rows of Llama-like models, so that llama.cpp can rotate neighbours: this is undone (and
  said: ``"columns": "half_split"``), or left as it is and said with ``columns="interleaved"``.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .core import DumpWriter
from .errors import DumpError
from .estimate import parse_size
from .folder import prepare
from .names import SUB_TAPS, layer_name
from .token_ids import read_ids

Array = npt.NDArray[Any]

# ggml's name of a tensor -> our checkpoint. "-N" is the layer.
MODEL_NAMES = {
    "embd": "post_embed",
    "inp_embd": "post_embed",
    "result_norm": "post_final_norm",
    "result_output": "logits",
}
LAYER_NAMES = {
    "attn_norm": "input_norm",
    "Qcur": "q",
    "Kcur": "k",
    "Vcur": "v",
    "Qcur_normed": "q_norm",
    "Kcur_normed": "k_norm",
    "kq_soft_max": "attn_probs",
    "kqv_out": "attn_ctx",
    "attn_out": "attn_out",
    "ffn_inp": "ffn_inp",
    "ffn_norm": "post_attn_norm",
    "ffn_gate": "mlp_gate",
    "ffn_up": "mlp_up",
    "ffn_swiglu": "mlp_act",
    "ffn_geglu": "mlp_act",
    "ffn_out": "mlp_out",
    "ffn_moe_logits": "router_logits",
    "ffn_moe_topk": "expert_ids",
    "ffn_moe_weights_norm": "expert_weights",
    "ffn_moe_out": "moe_routed",
    "ffn_shexp": "moe_shared",
    "l_out": None,  # the layer's output
}
_NAME = re.compile(r"^([A-Za-z_]+)-(\d+)$")

# Architectures whose converter permutes q and k rows. llama.cpp rotates neighbours in others too, but there the original
# model does the same, and nothing is to be undone.
PERMUTED = frozenset((
    "llama", "llama4", "deci", "granite", "granitemoe", "minicpm", "olmo", "internlm2", "xverse", "arcee", "smollm3",
    "mistral3", "orion", "baichuan", "refact",
))  # fmt: skip
_ROPE_NEIGHBOURS = 0  # LLAMA_ROPE_TYPE_NORM

_TYPES: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "bf16": np.uint16, "i32": np.int32, "i64": np.int64}

# general.file_type -> what products are computed in. All other files are quantised: ggml rounds the other factor of each
# product to 8 bits.
_COMPUTED_IN = {0: "float32", 1: "float16", 32: "bfloat16"}
_QUANTISED = "q8_0"

_SUB_ORDER = {name: i for i, name in enumerate(SUB_TAPS)}


class _Header(ctypes.Structure):
    """The first fields of ``struct ggml_tensor``; checked against ggml's own functions before use."""

    _fields_ = [
        ("type", ctypes.c_int),
        ("buffer", ctypes.c_void_p),
        ("ne", ctypes.c_int64 * 4),
        ("nb", ctypes.c_size_t * 4),
    ]


class Seen(NamedTuple):
    """A tensor as the callback saw it: ggml's name, the operation that made it, its values."""

    name: str
    op: str
    array: Array
    dtype: str


class Ggml:
    """The few functions of libggml that reading a tensor takes."""

    def __init__(self) -> None:
        from llama_cpp import _ggml

        lib = _ggml.libggml
        self._name = self._function(lib, "ggml_get_name", ctypes.c_char_p, ctypes.c_void_p)
        self._op = self._function(lib, "ggml_op_desc", ctypes.c_char_p, ctypes.c_void_p)
        self._nbytes = self._function(lib, "ggml_nbytes", ctypes.c_size_t, ctypes.c_void_p)
        self._count = self._function(lib, "ggml_nelements", ctypes.c_int64, ctypes.c_void_p)
        self._type = self._function(lib, "ggml_type_name", ctypes.c_char_p, ctypes.c_int)
        self._get = self._function(
            lib, "ggml_backend_tensor_get", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t
        )

    @staticmethod
    def _function(lib: Any, name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
        f: Callable[..., Any] = getattr(lib, name)
        f.restype, f.argtypes = result, list(arguments)  # type: ignore[attr-defined]
        return f

    def name(self, tensor: int) -> str:
        """Return a tensor's name."""
        return str(self._name(tensor).decode())

    def read(self, tensor: int) -> Seen:
        """Copy a tensor from whatever device it is on, in all four of ggml's dimensions, slowest first.

        Raises :class:`DumpError` for a quantised tensor, and where this version of ggml lays out its struct otherwise.
        """
        name, op = self.name(tensor), self._op(tensor).decode()
        h = _Header.from_address(tensor)
        kind = self._type(h.type).decode()
        if kind not in _TYPES:
            raise DumpError(f"reading {name}: ggml type {kind} has no array form")
        nbytes = int(self._nbytes(tensor))
        raw = np.empty(nbytes, np.uint8)
        shape, strides = tuple(h.ne)[::-1], tuple(h.nb)[::-1]
        dtype = np.dtype(_TYPES[kind])
        last = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + dtype.itemsize
        if int(np.prod(shape)) != self._count(tensor) or (nbytes and last != nbytes):
            raise DumpError(f"reading {name}: this ggml lays out its tensors otherwise (dims {shape}, strides {strides})")
        self._get(tensor, raw.ctypes.data, 0, nbytes)
        array = np.ndarray(shape, dtype, raw, strides=strides)
        logical = {"bf16": "bfloat16"}.get(kind, dtype.name)
        return Seen(name, op, np.ascontiguousarray(array), logical)


def checkpoint(name: str, op: str) -> str | None:
    """Return the checkpoint that ggml's tensor ``name``, made by operation ``op``, stands for; None for any other.

    ``Qcur-3`` is ``layer_03.q`` until ROPE makes another ``Qcur-3``, which is ``layer_03.q_rope``.
    """
    if name in MODEL_NAMES:
        return MODEL_NAMES[name]
    m = _NAME.match(name)
    if m is None or m[1] not in LAYER_NAMES:
        return None
    tap = LAYER_NAMES[m[1]]
    if op == "ROPE" and tap in ("q", "k", "q_norm", "k_norm"):
        tap = f"{tap[0]}_rope"
    return layer_name(int(m[2]), tap)


def half_split(x: Array, head_dim: int, rotary: int) -> Array:
    """Return ``x`` [T, heads * head_dim] with each head's first ``rotary`` dims taken from pairs to halves.

    GGUF order (0, d/2, 1, d/2+1, ...) becomes (0, 1, ..., d-1): dims 2i and 2i+1 go to i and i + rotary/2. Raises
    :class:`DumpError` where the width is no multiple of ``head_dim``.
    """
    t, width = x.shape
    if head_dim <= 0 or width % head_dim or rotary % 2 or rotary > head_dim:
        raise DumpError(f"reordering [{t}, {width}]: it is not made of heads of {head_dim} with {rotary} rotary dims")
    heads = x.reshape(t, width // head_dim, head_dim)
    pairs = heads[..., :rotary].reshape(t, -1, rotary // 2, 2)
    turned = np.swapaxes(pairs, -1, -2).reshape(t, -1, rotary)
    return np.concatenate([turned, heads[..., rotary:]], axis=-1).reshape(t, width)


class Collector:
    """Turns the callback's tensors into checkpoints, in execution order.

    A layer is written when its output arrives; until then its tensors are kept, since the last one of a name counts (a bias
    is added under the same name).
    """

    def __init__(self, model: Mapping[str, Any], architecture: str, rotary: int, neighbours: bool, undo: bool) -> None:
        self._head_dim, self._rotary = int(model.get("head_dim") or 0), rotary
        self._dtype = str(model["dtype"])
        self._neighbours, self._undo = neighbours, undo and architecture in PERMUTED
        self._held: dict[str, Seen] = {}
        self._writer: DumpWriter | None = None
        self._rows = self._keys = 0
        self._all_logits = False

    def begin(self, writer: DumpWriter, rows: int, keys: int, all_logits: bool) -> None:
        """Start a step of ``rows`` tokens that attend to ``keys`` positions."""
        self._writer, self._rows, self._keys, self._held = writer, rows, keys, {}
        self._all_logits = all_logits

    def see(self, seen: Seen) -> None:
        """Take one tensor."""
        name = checkpoint(seen.name, seen.op)
        if name is None:
            return
        self._held[name] = seen
        if "." not in name and name.startswith("layer_"):
            self._flush(name)

    def end(self) -> None:
        """Write what is left."""
        self._flush(None)
        self._writer = None

    def _flush(self, layer: str | None) -> None:
        def order(name: str) -> int:
            return _SUB_ORDER.get(name.partition(".")[2], len(_SUB_ORDER))

        names = [n for n in self._held if layer is None or n.partition(".")[0] == layer]
        if layer is not None:
            # What belongs to no layer and came first (the embedding) stays first; inside the layer standard order rules.
            early = [n for n in self._held if n == "post_embed"]
            names = early + sorted(names, key=order)
        for n in names:
            self._write(n, self._held.pop(n))

    def _write(self, name: str, seen: Seen) -> None:
        assert self._writer is not None
        tap, columns = name.partition(".")[2], None
        if tap == "attn_probs":
            array = seen.array[0, :, : self._rows, : self._keys]
        elif seen.array.size % self._rows:
            raise DumpError(f"reading {seen.name} {seen.array.shape}: its values do not split into {self._rows} tokens")
        else:
            # Note: with one token, [1, 9, 64] and [9, 64] look alike; only the number of tokens tells the rows.
            array = seen.array.reshape(self._rows, -1)
        if tap in ("q", "k", "q_norm", "k_norm", "q_rope", "k_rope"):
            columns = "interleaved" if self._neighbours else "half_split"
            if self._neighbours and self._undo and self._head_dim:
                array, columns = half_split(array, self._head_dim, self._rotary or self._head_dim), "half_split"
        dtype = self._dtype if seen.dtype == "float32" else seen.dtype
        if name != "logits":
            self._writer.add(name, array, dtype=dtype, source=seen.name, columns=columns)
            return
        if self._all_logits:
            self._writer.add("logits", array, dtype=dtype, source=seen.name)
        self._writer.add("last_logits", array[-1], dtype=dtype, source=seen.name)


class LlamaCpp:
    """A loaded GGUF model whose every step can be dumped; a context manager that frees it.

    ``columns="interleaved"`` leaves q and k in GGUF's order. ``n_ctx`` is the longest prompt with its decode steps; threads
    default to llama.cpp's choice; ``n_gpu_layers`` as llama.cpp takes it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        n_ctx: int = 2048,
        n_threads: int | None = None,
        n_gpu_layers: int = 0,
        columns: str = "half_split",
        verbose: bool = False,
    ) -> None:
        import llama_cpp as api
        from llama_cpp import _logger

        if columns not in ("half_split", "interleaved"):
            raise DumpError(f"loading {os.fspath(path)}: columns {columns!r} is not half_split or interleaved")
        if not Path(path).is_file():
            raise DumpError(f"loading {os.fspath(path)}: there is no such file")
        _logger.set_verbose(verbose)
        self._api, self._ggml = api, Ggml()
        self._error: BaseException | None = None
        self._context: Any = None
        params = api.llama_model_default_params()
        params.n_gpu_layers = n_gpu_layers
        self._model = api.llama_model_load_from_file(os.fsencode(path), params)
        if not self._model:
            raise DumpError(f"loading {os.fspath(path)}: llama.cpp refused it (verbose=True tells why)")
        self.path = Path(path)
        self.n_ctx = n_ctx
        self._gpu = n_gpu_layers != 0
        self._vocab = api.llama_model_get_vocab(self._model)
        meta = self._metadata()
        self.model = _facts(meta, self.path)
        architecture = meta.get("general.architecture", "")
        self._collector = Collector(
            self.model,
            architecture,
            rotary=int(meta.get(f"{architecture}.rope.dimension_count", 0)),
            neighbours=api.llama_model_rope_type(self._model) == _ROPE_NEIGHBOURS,
            undo=columns == "half_split",
        )
        # Note: ctypes callbacks must outlive the context, so it is kept on the object.
        self._callback = api.llama_cpp.ggml_backend_sched_eval_callback(self._on_tensor)
        self._context = self._new_context(n_threads)

    def _new_context(self, n_threads: int | None) -> Any:
        params = self._api.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = self.n_ctx
        params.flash_attn_type = 0
        params.cb_eval = self._callback
        if n_threads:
            params.n_threads = params.n_threads_batch = n_threads
        context = self._api.llama_init_from_model(self._model, params)
        if not context:
            raise DumpError(f"making a context of {self.n_ctx} tokens for {self.path}: llama.cpp refused (memory?)")
        if self._api.llama_n_ubatch(context) < self.n_ctx:
            raise DumpError(f"making a context for {self.path}: the micro-batch is smaller than {self.n_ctx} tokens")
        return context

    def _metadata(self) -> dict[str, str]:
        out = {}
        buffer = ctypes.create_string_buffer(4096)
        for i in range(self._api.llama_model_meta_count(self._model)):
            self._api.llama_model_meta_key_by_index(self._model, i, buffer, len(buffer))
            key = buffer.value.decode(errors="replace")
            self._api.llama_model_meta_val_str_by_index(self._model, i, buffer, len(buffer))
            out[key] = buffer.value.decode(errors="replace")
        return out

    # ---- running -----------------------------------------------------------------------------------------------------

    def tokenize(self, text: str, *, add_special: bool = True) -> list[int]:
        """Return the ids of ``text``; special tokens in the text are recognised, BOS is added as the model says."""
        raw = text.encode()
        ids = (self._api.llama_token * (len(raw) + 8))()
        n = self._api.llama_tokenize(self._vocab, raw, len(raw), ids, len(ids), add_special, True)
        if n <= 0:
            raise DumpError(f"tokenizing {text[:40]!r}: llama.cpp gave no token")
        return list(ids[:n])

    def run(
        self,
        out: str | os.PathLike[str],
        *,
        prompt: str | None = None,
        ids: Sequence[int] | None = None,
        add_special: bool = True,
        decode: int = 0,
        logits: str = "last",
        mode: str = "prefill",
        **writer_options: Any,
    ) -> list[int]:
        """Dump one prompt (text, or its ids) and ``decode`` greedy steps after it; return the ids that were generated.

        Without ``decode`` the dump is in ``out`` itself; with it in ``step_0000`` (the prefill), ``step_0001``, ...
        ``logits`` is ``last`` or ``all`` positions. The other options are :class:`DumpWriter`'s.
        """
        if (prompt is None) == (ids is None):
            raise DumpError("running llama.cpp: give either a prompt or its ids")
        tokens = list(ids) if ids is not None else self.tokenize(prompt or "", add_special=add_special)
        if not tokens or len(tokens) + decode > self.n_ctx:
            raise DumpError(f"running llama.cpp on {len(tokens)} tokens and {decode} steps: n_ctx is {self.n_ctx}")
        about = {"text": prompt, "add_special_tokens": add_special} if prompt is not None else {}
        self._api.llama_memory_clear(self._api.llama_get_memory(self._context), True)
        prepare(Path(out), Path(out), writer_options.pop("overwrite", False))
        options = {"prompt": about, "model": self.model, "framework": self._framework(), **writer_options}
        generated: list[int] = []
        for step in range(decode + 1):
            new = tokens if step == 0 else generated[-1:]
            position = 0 if step == 0 else len(tokens) + step - 1
            with DumpWriter(
                out,
                dumper="parity_dump.llama_cpp",
                mode=mode if step == 0 else "incremental",
                step=step if decode else None,
                **options,
            ) as writer:
                writer.add("prompt_tokens", np.array(new, np.int64))
                writer.add("position_ids", np.arange(position, position + len(new), dtype=np.int64))
                generated.append(self._step(writer, new, position, logits == "all"))
        return generated

    def _step(self, writer: DumpWriter, ids: Sequence[int], position: int, all_logits: bool) -> int:
        """Evaluate ``ids`` with every tensor seen; return the greedy next id."""
        api, n = self._api, len(ids)
        self._collector.begin(writer, n, position + n, all_logits)
        with self._batch(ids, position) as batch:
            status = api.llama_decode(self._context, batch)
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if status != 0:
            raise DumpError(f"evaluating {n} tokens at {position}: llama_decode returned {status}")
        self._collector.end()
        row = api.llama_get_logits_ith(self._context, n - 1)
        return int(np.argmax(np.ctypeslib.as_array(row, (api.llama_vocab_n_tokens(self._vocab),))))

    @contextmanager
    def _batch(self, ids: Sequence[int], position: int) -> Iterator[Any]:
        batch = self._api.llama_batch_init(len(ids), 0, 1)
        try:
            batch.n_tokens = len(ids)
            for i, token in enumerate(ids):
                batch.token[i], batch.pos[i] = token, position + i
                batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
                batch.logits[i] = True  # all of them: else the last layer has one row
            yield batch
        finally:
            self._api.llama_batch_free(batch)

    def _on_tensor(self, tensor: int, ask: bool, _: object) -> bool:
        # Note: an exception must not cross C. It is kept, evaluation stops, and _step raises it.
        try:
            wanted = checkpoint(self._ggml.name(tensor), "") is not None
            if wanted and not ask:
                self._collector.see(self._ggml.read(tensor))
        except BaseException as e:
            self._error = self._error or e
            return False
        return True if not ask else wanted

    def _framework(self) -> dict[str, Any]:
        version = f"llama-cpp-python {self._api.__version__}"
        return {"name": "llama.cpp", "version": version, "device": "gpu" if self._gpu else "cpu"}

    def __enter__(self) -> LlamaCpp:
        return self

    def __exit__(self, *_: object) -> None:
        if self._context:
            self._api.llama_free(self._context)
            self._context = None
        if self._model:
            self._api.llama_model_free(self._model)
            self._model = None


def _facts(meta: Mapping[str, str], path: Path) -> dict[str, Any]:
    """Return the manifest's ``model`` from GGUF metadata; facts that the file does not state are left out."""
    a = meta.get("general.architecture", "")

    def number(key: str) -> int | float | None:
        text = meta.get(f"{a}.{key}")
        try:
            return None if text is None else (float(text) if any(c in text for c in ".en") else int(text))
        except ValueError:
            return None  # a list, one value for each layer

    heads, width = number("attention.head_count"), number("embedding_length")
    facts: dict[str, Any] = {
        "id": path.stem,
        "class": a,
        "dtype": _COMPUTED_IN.get(int(meta.get("general.file_type", "-1")), _QUANTISED),
        "quantization": meta.get("general.file_type"),
        "num_layers": number("block_count"),
        "hidden_size": width,
        "num_heads": heads,
        "num_kv_heads": number("attention.head_count_kv"),
        "head_dim": number("attention.key_length") or (int(width) // int(heads) if width and heads else None),
        "intermediate_size": number("feed_forward_length"),
        "vocab_size": number("vocab_size"),
        "rope_theta": number("rope.freq_base"),
        "rms_eps": number("attention.layer_norm_rms_epsilon"),
        "num_experts": number("expert_count"),
        "num_experts_per_tok": number("expert_used_count"),
        "attn_logit_softcapping": number("attn_logit_softcapping"),
        "final_logit_softcapping": number("final_logit_softcapping"),
        "sliding_window": number("attention.sliding_window"),
    }
    if facts["quantization"] is not None:
        facts["quantization"] = f"ggml file type {facts['quantization']}"
    return {k: v for k, v in facts.items() if v is not None}


def dump(path: str | os.PathLike[str], out: str | os.PathLike[str], *, n_ctx: int = 2048, **options: Any) -> list[int]:
    """Load ``path``, dump one run to ``out`` and free it; options as of :class:`LlamaCpp` and :meth:`LlamaCpp.run`."""
    loading = {k: options.pop(k) for k in ("n_threads", "n_gpu_layers", "columns", "verbose") if k in options}
    with LlamaCpp(path, n_ctx=n_ctx, **loading) as model:
        return model.run(out, **options)


def add_cli(subparsers: Any) -> None:
    """Register ``parity-dump llama-cpp``."""
    p = subparsers.add_parser("llama-cpp", help="run a GGUF model in llama.cpp and dump each layer")
    p.add_argument("gguf", help="the model file")
    p.add_argument("-o", "--out", required=True, help="folder of the dump")
    what = p.add_mutually_exclusive_group(required=True)
    what.add_argument("--prompt", help="text; special tokens in it are recognised")
    what.add_argument("--ids", help="token ids instead: a .npy file (the reference's prompt_tokens.npy) or a JSON list")
    p.add_argument("--no-special", action="store_true", help="add no BOS, whatever the model says")
    p.add_argument("--decode", type=int, default=0, metavar="N", help="greedy steps after the prompt, each in its folder")
    p.add_argument("--logits", choices=["last", "all"], default="last", help="which positions' logits to keep")
    p.add_argument("--columns", choices=["half_split", "interleaved"], default="half_split", help="order of q's and k's dims")
    p.add_argument("--n-ctx", type=int, default=2048)
    p.add_argument("--n-threads", type=int)
    p.add_argument("--n-gpu-layers", type=int, default=0)
    p.add_argument("--layers", help="which layers to keep, as in 0-3,last (default: all)")
    p.add_argument("--tokens", help="which rows to keep, as in 0-15,last (default: all)")
    p.add_argument("--max-bytes", type=parse_size, metavar="SIZE", help="limit for each step's files: 500M, 2G")
    p.add_argument("--overwrite", action="store_true", help="replace a dump that is there")
    p.set_defaults(run=run_cli)


def run_cli(args: argparse.Namespace) -> int:
    """Carry out ``parity-dump llama-cpp``."""
    generated = dump(
        args.gguf,
        args.out,
        n_ctx=args.n_ctx,
        n_threads=args.n_threads,
        n_gpu_layers=args.n_gpu_layers,
        columns=args.columns,
        prompt=args.prompt,
        ids=read_ids(args.ids) if args.ids else None,
        add_special=not args.no_special,
        decode=args.decode,
        logits=args.logits,
        mode="teacher_forced" if args.ids else "prefill",
        layers=args.layers,
        tokens=args.tokens,
        max_bytes=args.max_bytes,
        overwrite=args.overwrite,
    )
    print(f"wrote {args.out}; next ids {generated}")
    return 0
