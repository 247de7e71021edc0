"""ONNX Runtime: dump any ``.onnx`` file, its intermediate values included.

``parity-dump onnx MODEL.onnx --ids ref/prompt_tokens.npy -o port/``, or :func:`dump`. Values inside a graph become graph
outputs in a copy of the model held in memory; the file is not changed. Which value is which checkpoint is known from

* the ``name_scopes`` that torch's exporter (``dynamo=True``) leaves at each node, or node names that are module paths
  (``/model/layers.0/mlp/Mul``), as the older exporter writes them: a module's output is the last value made inside it and
  used outside;
* graph outputs and values that bear a checkpoint's name already;
* a map of your own, value name to checkpoint, which wins over both.

Values that become outputs can keep ONNX Runtime from fusing over them. ``optimize=False`` turns all its graph
optimizations off.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .core import DumpWriter
from .errors import DumpError
from .estimate import parse_size
from .module_names import Place, execution_order, input_of, output_of, split_path
from .names import MODEL_TAPS, SUB_TAPS, layer_name, split_layer

Array = npt.NDArray[Any]

SCOPES_KEY = "pkg.torch.onnx.name_scopes"

# onnx.TensorProto types that ONNX Runtime cannot hand to numpy: cast to float32 in the graph, exactly.
_NARROW = {16: "bfloat16", 17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz"}


@dataclass
class Choice:
    """A value of the graph and the checkpoint it is to be written as."""

    checkpoint: str
    value: str
    source: str
    rank: int = 0


@dataclass
class _Scope:
    """What a module makes, in the order of the nodes: its values that are used elsewhere, and what it takes first."""

    outputs: list[str] = field(default_factory=list)
    first_input: str | None = None
    softmax: list[str] = field(default_factory=list)


def node_path(node: Any) -> str | None:
    """Return the module path of a node: from the exporter's metadata, or from a name like ``/model/layers.0/mlp/Mul``."""
    for p in getattr(node, "metadata_props", ()):
        if p.key == SCOPES_KEY:
            # A list of scopes, outermost first, the node itself last: "['', 'model', 'model.layers.0', ..., 'linear']".
            scopes = re.findall(r"'([^']*)'", p.value)
            return scopes[-2] if len(scopes) >= 2 else None
    if node.name.startswith("/"):
        return ".".join(node.name.strip("/").split("/")[:-1])
    return None


def _ancestors(path: str) -> list[str]:
    parts = path.split(".")
    return [".".join(parts[: i + 1]) for i in range(len(parts))]


def module_scopes(graph: Any) -> dict[str, _Scope]:
    """Return, for each module path that nodes belong to, what the module makes and takes."""
    weights = {i.name for i in graph.initializer}
    paths = [node_path(n) for n in graph.node]
    inside = [frozenset(_ancestors(p)) if p else frozenset() for p in paths]
    users: dict[str, list[frozenset[str]]] = {}
    made_in: dict[str, frozenset[str]] = {}
    for node, modules in zip(graph.node, inside, strict=True):
        for name in node.input:
            users.setdefault(name, []).append(modules)
        for name in node.output:
            made_in[name] = modules
    results = {o.name for o in graph.output}
    scopes: dict[str, _Scope] = {}
    for node, path, modules in zip(graph.node, paths, inside, strict=True):
        for m in modules:
            scope = scopes.setdefault(m, _Scope())
            scope.outputs += [o for o in node.output if o in results or any(m not in u for u in users.get(o, []))]
            if scope.first_input is None:
                outer = (i for i in node.input if i and i not in weights and m not in made_in.get(i, frozenset()))
                scope.first_input = next(outer, None)
        if node.op_type == "Softmax" and path:
            scopes[path].softmax.append(node.output[0])
    return scopes


def choose(graph: Any, extra: Mapping[str, str] | None = None, everything: bool = False) -> list[Choice]:
    """Return which values of ``graph`` to dump as which checkpoints, in execution order, one value for each.

    ``extra`` maps value names to checkpoints of the caller's choice. ``everything`` adds the outputs of modules that stand
    for no standard checkpoint, under their path. Raises :class:`DumpError` for a value that the graph lacks.
    """
    values = {o for n in graph.node for o in n.output if o} | {i.name for i in graph.input}
    found: dict[str, Choice] = {}

    def offer(place: Place | None, value: str | None, source: str) -> None:
        if place is None or value is None or value not in values:
            return
        known = found.get(place.name)
        if known is None or place.rank < known.rank:
            found[place.name] = Choice(place.name, value, source, place.rank)

    for path, scope in module_scopes(graph).items():
        made = scope.outputs[-1] if scope.outputs else None
        place = output_of(path)
        offer(place, made, path)
        offer(input_of(path), scope.first_input, f"input of {path}")
        index, rest = split_path(path)
        if index is not None and len(scope.softmax) == 1 and re.search("attn|attention", rest):
            offer(Place(layer_name(index, "attn_probs"), 2), scope.softmax[0], f"softmax in {path}")
        if everything and place is None:
            offer(Place(path, 0), made, path)
    for value in [o.name for o in graph.output] + [i.name for i in graph.input]:
        offer(_named(value), value, value)
    for value, checkpoint in (extra or {}).items():
        if value not in values:
            raise DumpError(f"mapping {value!r} to {checkpoint}: the graph has no such value")
        found[checkpoint] = Choice(checkpoint, value, value, -1)
    return sorted(found.values(), key=lambda c: execution_order(c.checkpoint))


def _named(value: str) -> Place | None:
    """Return the checkpoint that a value's own name says it is."""
    if value in ("input_ids", "tokens"):
        return Place("prompt_tokens", -1)
    index, tap = split_layer(value)
    standard = (tap is None or tap in SUB_TAPS) if index is not None else value in MODEL_TAPS
    return Place(value, -1) if standard else None


def with_outputs(model: Any, choices: Iterable[Choice]) -> dict[str, tuple[str, str | None]]:
    """Make the chosen values outputs of ``model``, in place.

    Returns value -> (name of the output to fetch, logical dtype where the value is cast to float32 on its way out).
    """
    import onnx

    graph = model.graph
    types = {v.name: v.type.tensor_type.elem_type for v in (*graph.value_info, *graph.output, *graph.input)}
    have = {o.name for o in graph.output}
    inputs = {i.name for i in graph.input}
    fetch: dict[str, tuple[str, str | None]] = {}
    for value in dict.fromkeys(c.value for c in choices):
        if value in inputs:
            continue  # the caller has it
        narrow = _NARROW.get(types.get(value, 0))
        name = f"{value}/parity_float32" if narrow else value
        if narrow:
            graph.node.append(onnx.helper.make_node("Cast", [value], [name], to=onnx.TensorProto.FLOAT))
        if name not in have:
            graph.output.append(onnx.ValueInfoProto(name=name))
            have.add(name)
        fetch[value] = (name, narrow)
    return fetch


def feeds_for(session: Any, ids: Sequence[int]) -> dict[str, Array]:
    """Return the inputs of a text model for one sequence: ids, mask, positions, token types, and an empty KV cache.

    Raises :class:`DumpError` for an input that is none of these: pass its array in ``feeds``.
    """
    n = len(ids)
    known = {
        "input_ids": np.array([list(ids)], np.int64),
        "tokens": np.array([list(ids)], np.int64),
        "attention_mask": np.ones((1, n), np.int64),
        "position_ids": np.arange(n, dtype=np.int64)[None],
        "token_type_ids": np.zeros((1, n), np.int64),
    }
    out = {}
    for spec in session.get_inputs():
        if spec.name in known:
            out[spec.name] = known[spec.name].astype(_NUMPY[spec.type])
        elif "past" in spec.name and spec.type in _NUMPY:
            shape = [d if isinstance(d, int) else (1 if i == 0 else 0) for i, d in enumerate(spec.shape)]
            out[spec.name] = np.zeros(shape, _NUMPY[spec.type])
        else:
            raise DumpError(f"feeding {spec.name} ({spec.type} {spec.shape}): it is no usual input; pass its array in feeds")
    return out


_NUMPY: dict[str, Any] = {
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(bool)": np.bool_,
}


def one_sequence(name: str, array: Array, row: int, batch: int, keep: Array | None) -> Array:
    """Return the tensor of one sequence: row ``row`` of a batch of ``batch``, without its padding.

    ``keep`` marks the real tokens of that row; it is applied where the first axis behind the batch has its length (and, for
    attention probabilities, to queries and keys). A tensor without a batch axis is left as it is.
    """
    if array.ndim < 2 or array.shape[0] != batch:
        return array
    a: Array = array[row]
    if keep is None or keep.all():
        return a
    n = len(keep)
    if name.endswith("attn_probs") and a.shape[-2:] == (n, n):
        a = a[:, keep][:, :, keep]
    elif a.shape and a.shape[0] == n:
        a = a[keep]
    return a


def dump(
    file: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    ids: Sequence[int] | None = None,
    feeds: Mapping[str, Array] | None = None,
    extra: Mapping[str, str] | None = None,
    everything: bool = False,
    optimize: bool = True,
    logits: str = "last",
    row: int = 0,
    threads: int | None = None,
    providers: Sequence[str] = ("CPUExecutionProvider",),
    **writer_options: Any,
) -> list[str]:
    """Run the model in ``file`` once and dump it; return the names written.

    Give ``ids`` (one sequence; mask, positions and an empty cache are made) or ``feeds`` (arrays by input name; of a batch,
    ``row`` is dumped, without the tokens that ``attention_mask`` masks), or both: ``feeds`` win. ``logits`` is ``last`` (the
    last real position) or ``all``, which adds ``logits``. ``extra`` and ``everything`` are :func:`choose`'s, the other
    options :class:`DumpWriter`'s.
    """
    import onnx
    import onnxruntime as ort

    path = Path(file)
    if not path.is_file():
        raise DumpError(f"loading {path}: there is no such file")
    try:
        proto = onnx.load(str(path), load_external_data=False)
    except Exception as e:  # protobuf's own errors, which have no common base
        raise DumpError(f"loading {path}: it is no ONNX model ({_first_line(e)})") from e
    choices = choose(proto.graph, extra, everything)
    if not any(split_layer(c.checkpoint)[0] is not None for c in choices):
        raise DumpError(
            f"dumping {path}: no node tells which module it is from, so no layer is known; export with dynamo=True, or map "
            "value names to checkpoints"
        )
    fetch = with_outputs(proto, choices)
    options = ort.SessionOptions()
    if not optimize:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    if threads:
        options.intra_op_num_threads = threads
    # The copy is in memory; weights beside the file are still read from there.
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(path.parent.resolve()))
    try:
        session = ort.InferenceSession(proto.SerializeToString(), options, providers=list(providers))
    except Exception as e:  # ONNX Runtime's errors derive from Exception only
        raise DumpError(f"loading {path} with its values as outputs: {_first_line(e)}") from e
    if ids is None and feeds is None:
        raise DumpError(f"running {path}: give ids or feeds")
    given: dict[str, Array] = dict(feeds_for(session, ids)) if ids is not None else {}
    given.update(feeds or {})
    _check_shapes(path, session, given)
    try:
        arrays = session.run([name for name, _ in fetch.values()], given)
    except Exception as e:
        raise DumpError(f"running {path}: {_first_line(e)}") from e
    results = dict(zip(fetch, arrays, strict=True))

    batch = next((a.shape[0] for n, a in given.items() if n in ("input_ids", "tokens") and a.ndim > 1), 1)
    mask = given.get("attention_mask")
    keep = mask[row].astype(bool) if mask is not None and mask.ndim == 2 else None
    device = "cpu" if list(providers) == ["CPUExecutionProvider"] else "gpu"
    framework = {"name": "onnxruntime", "version": ort.__version__, "device": device}
    with DumpWriter(out, dumper="parity_dump.onnx", framework=framework, **writer_options) as writer:
        for c in choices:
            array, dtype = (given[c.value], None) if c.value in given else (results[c.value], fetch[c.value][1])
            array = one_sequence(c.checkpoint, np.asarray(array), row, batch, keep)
            if c.checkpoint != "logits" or array.ndim != 2:
                writer.add(c.checkpoint, array, dtype=dtype, source=c.source)
                continue
            if logits == "all":
                writer.add("logits", array, dtype=dtype, source=c.source)
            writer.add("last_logits", array[-1], dtype=dtype, source=c.source)
        return writer.names


def _check_shapes(path: Path, session: Any, given: Mapping[str, Array]) -> None:
    """Raise :class:`DumpError` where an input has another size than the graph fixes; named dimensions may be anything."""
    for spec in session.get_inputs():
        have = list(given[spec.name].shape) if spec.name in given else None
        fixed = [(w, h) for w, h in zip(spec.shape, have or (), strict=False) if isinstance(w, int)]
        if have is not None and (len(have) != len(spec.shape) or any(w != h for w, h in fixed)):
            raise DumpError(
                f"running {path}: its input {spec.name} has the fixed shape {spec.shape}, but {have} was given: export with "
                "dynamic_shapes, or dump both sides with as many tokens as the export has"
            )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def tokenize(tokenizer: str | os.PathLike[str], text: str, *, add_special: bool = True) -> list[int]:
    """Return the ids of ``text`` by a ``tokenizer.json`` (needs the ``tokenizers`` package)."""
    from tokenizers import Tokenizer

    ids: list[int] = Tokenizer.from_file(os.fspath(tokenizer)).encode(text, add_special_tokens=add_special).ids
    return ids


def add_cli(subparsers: Any) -> None:
    """Register ``parity-dump onnx``."""
    p = subparsers.add_parser("onnx", help="run an .onnx model in ONNX Runtime and dump each layer")
    p.add_argument("model", help="the .onnx file")
    p.add_argument("-o", "--out", required=True, help="folder of the dump")
    what = p.add_mutually_exclusive_group(required=True)
    what.add_argument("--ids", help="token ids: a .npy file (the reference's prompt_tokens.npy) or a JSON list")
    what.add_argument("--prompt", help="text, for --tokenizer")
    what.add_argument("--feeds", help="an .npz file with all inputs by name")
    p.add_argument("--tokenizer", help="a tokenizer.json, for --prompt")
    p.add_argument("--no-special", action="store_true", help="add no special tokens to the prompt")
    p.add_argument("--map", help="a JSON object: value name to checkpoint")
    p.add_argument("--list", action="store_true", help="list which value becomes which checkpoint, and stop")
    p.add_argument("--config", help="the model's config.json, for the manifest's facts")
    p.add_argument("--logits", choices=["last", "all"], default="last", help="which positions' logits to keep")
    p.add_argument("--everything", action="store_true", help="also dump modules that no standard name is known for")
    p.add_argument("--no-optimize", action="store_true", help="turn ONNX Runtime's graph optimizations off")
    p.add_argument("--layers", help="which layers to keep, as in 0-3,last (last needs --config)")
    p.add_argument("--tokens", help="which rows to keep, as in 0-15,last")
    p.add_argument("--max-bytes", type=parse_size, metavar="SIZE", help="limit for the files: 500M, 2G")
    p.add_argument("--overwrite", action="store_true", help="replace a dump that is there")
    p.set_defaults(run=run_cli)


def run_cli(args: argparse.Namespace) -> int:
    """Carry out ``parity-dump onnx``."""
    import onnx

    from .hf_config import facts
    from .token_ids import read_ids

    extra = json.loads(Path(args.map).read_text()) if args.map else None
    if args.list:
        for c in choose(onnx.load(args.model, load_external_data=False).graph, extra, args.everything):
            print(f"{c.checkpoint}\t{c.value}\t{c.source}")
        return 0
    ids = read_ids(args.ids) if args.ids else None
    if args.prompt is not None:
        if not args.tokenizer:
            raise DumpError("tokenizing --prompt: name the model's tokenizer.json with --tokenizer")
        ids = tokenize(args.tokenizer, args.prompt, add_special=not args.no_special)
    written = dump(
        args.model,
        args.out,
        ids=ids,
        feeds=dict(np.load(args.feeds, allow_pickle=False)) if args.feeds else None,
        extra=extra,
        everything=args.everything,
        optimize=not args.no_optimize,
        logits=args.logits,
        model=facts(json.loads(Path(args.config).read_text())) if args.config else None,
        prompt={"text": args.prompt, "add_special_tokens": not args.no_special} if args.prompt else None,
        layers=args.layers,
        tokens=args.tokens,
        max_bytes=args.max_bytes,
        overwrite=args.overwrite,
    )
    print(f"wrote {args.out}: {len(written)} checkpoints")
    return 0
