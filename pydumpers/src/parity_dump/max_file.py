"""MAX's own debug files (``.max``): read one, or turn a folder of them into a dump.

``parity-dump max-debug DIR -o port/``. Such folders come from
``InferenceSession.set_debug_print_options("BINARY_MAX_CHECKPOINT", output_directory=DIR)`` with ``ops.print`` or
``PrintHook().name_layers(model)``. What is to be known about them: each execute overwrites the files of the last one, so
after a generation they hold the last token only; names are cleaned of ``/ : < > ? |`` and blanks, so two labels can end in
one file; a value printed inside a subgraph is that of the last call.

The format, little-endian and packed: magic; u32 major = 0; u32 minor = 1; u64 size of the metadata; u32 key length; key;
u8 dtype; u8 rank; u32 for each dim; u64 offset of the data = 24 + metadata size; then the data, row-major, unaligned. It
was worked out from files that MAX 26.7 wrote.
"""

from __future__ import annotations

import argparse
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .core import DumpWriter
from .dtypes import RAW_FLOATS
from .errors import DumpError
from .folder import prepare
from .module_names import MODEL_ORDER, execution_order, input_of, output_of, split_path
from .names import SUB_TAPS, layer_name, split_layer

Array = npt.NDArray[Any]

MAGIC = bytes.fromhex("93f09f94a52b2b93")
_FIXED = struct.Struct("<IIQI")  # major, minor, metadata size, key length
_MAX_RANK = 64  # numpy's limit on dims
_MAX_KEY = 4096

# dtype code -> (logical name, numpy dtype of the bits). The 8-bit floats' codes are from MAX's enum, the others were seen.
DTYPES: dict[int, tuple[str, Any]] = {
    1: ("bool", np.bool_),
    134: ("uint8", np.uint8),
    135: ("int8", np.int8),
    136: ("uint16", np.uint16),
    137: ("int16", np.int16),
    138: ("uint32", np.uint32),
    139: ("int32", np.int32),
    140: ("uint64", np.uint64),
    141: ("int64", np.int64),
    73: ("float8_e8m0fnu", np.uint8),
    75: ("float8_e4m3fn", np.uint8),
    76: ("float8_e4m3fnuz", np.uint8),
    77: ("float8_e5m2", np.uint8),
    78: ("float8_e5m2fnuz", np.uint8),
    79: ("float16", np.float16),
    80: ("bfloat16", np.uint16),
    81: ("float32", np.float32),
    82: ("float64", np.float64),
}


class MaxFileError(DumpError):
    """A ``.max`` file that cannot be read: ``path``, the byte ``offset`` where it goes wrong, and what is wrong there."""

    def __init__(self, path: str | os.PathLike[str], offset: int, cause: str) -> None:
        self.path, self.offset = Path(path), offset
        super().__init__(f"reading {os.fspath(path)} at byte {offset}: {cause}")


class MaxTensor(NamedTuple):
    """A tensor read from a ``.max`` file: its key, its logical dtype, its values (raw bits for bfloat16 and 8-bit floats)."""

    key: str
    dtype: str
    array: Array


def read(path: str | os.PathLike[str]) -> MaxTensor:
    """Read one ``.max`` file. Raises :class:`MaxFileError` for a file that is truncated, too long, or of another format."""
    try:
        raw = Path(path).read_bytes()
    except OSError as e:
        raise MaxFileError(path, 0, e.strerror or str(e)) from e
    head = len(MAGIC)
    if raw[:head] != MAGIC:
        raise MaxFileError(path, 0, "it does not start with MAX's magic number; is it a .max file?")
    if len(raw) < head + _FIXED.size:
        raise MaxFileError(path, len(raw), "the header is cut off")
    major, minor, size, key_length = _FIXED.unpack_from(raw, head)
    if (major, minor) != (0, 1):
        raise MaxFileError(path, head, f"format version {major}.{minor} is not known (0.1 is)")
    at = head + _FIXED.size
    if key_length > _MAX_KEY or at + key_length + 2 > len(raw):
        raise MaxFileError(path, at - 4, f"a key of {key_length} bytes does not fit into the file")
    try:
        key = raw[at : at + key_length].decode()
    except UnicodeDecodeError as e:
        raise MaxFileError(path, at, "the key is not UTF-8") from e
    at += key_length
    code, rank = raw[at], raw[at + 1]
    if code not in DTYPES:
        raise MaxFileError(path, at, f"dtype code {code} is not known")
    if rank > _MAX_RANK or at + 2 + 4 * rank + 8 > len(raw):
        raise MaxFileError(path, at + 1, f"a rank of {rank} does not fit into the file")
    shape = struct.unpack_from(f"<{rank}I", raw, at + 2)
    (offset,) = struct.unpack_from("<Q", raw, at + 2 + 4 * rank)
    data = at + 2 + 4 * rank + 8
    if offset != data or size != 4 + key_length + 2 + 4 * rank + 8:
        raise MaxFileError(path, at + 2 + 4 * rank, f"data is said to start at byte {offset}, the header ends at {data}")
    name, dtype = DTYPES[code]
    count = 1
    for n in shape:
        count *= n  # Python's integers do not overflow
    want = count * np.dtype(dtype).itemsize
    if len(raw) - data != want:
        raise MaxFileError(path, data, f"{name} {list(shape)} needs {want} bytes of data, the file has {len(raw) - data}")
    little = np.dtype(dtype).newbyteorder("<")
    return MaxTensor(key, name, np.frombuffer(raw, little, count, data).reshape(shape).astype(dtype))


# ---- names ---------------------------------------------------------------------------------------------------------

_KEY = re.compile(r"^(?P<path>.+?)(?:\((?P<call>\d+)\))?-(?P<side>input|output)(?:_(?P<which>\w+))?$")


class Place(NamedTuple):
    """What a file of a debug folder stands for: a checkpoint (with the preference of its source, lower is better)."""

    name: str
    rank: int


def place(key: str) -> Place | None:
    """Return the checkpoint that MAX's label ``key`` stands for; None for one that stands for none.

    ``model.layers.layers.0.self_attn-output`` is ``layer_00.attn_out``, ``model-output_0`` the logits, ``model-input_0`` the
    token ids. A label that is a checkpoint's name already (``ops.print(x, "layer_00")``) is taken as it is; a second call
    (``norm(2)-output``) becomes ``post_final_norm.call_2``.
    """
    m = _KEY.match(key)
    if m is None:
        index, tap = split_layer(key)
        standard = tap in SUB_TAPS or tap is None if index is not None else key in MODEL_ORDER
        return Place(key, 0) if standard else None
    path, side, which = m["path"], m["side"], m["which"]
    if side == "output":
        if which not in (None, "0", "hidden_states", "last_hidden_state"):
            return None
        found = output_of(path)
        if found is None and "." not in path:
            found = output_of("lm_head")  # the model itself: what it returns first are the logits
    else:
        if which not in (None, "0", "x", "input", "hidden_states", "tokens", "input_ids"):
            return None
        found = input_of(path)
        if found is None and "." not in path:
            found = input_of("embed_tokens")
            found = found._replace(rank=found.rank + 1) if found else None
    if found is None:
        return None
    name = found.name if not m["call"] or m["call"] == "1" else f"{found.name}.call_{m['call']}"
    return Place(name, found.rank)


# ---- folders -------------------------------------------------------------------------------------------------------


@dataclass
class Source:
    """A tensor to write: where it was read, and what it is."""

    tensor: MaxTensor
    rank: int


def step_folders(folder: Path) -> list[Path]:
    """Return the folders with ``.max`` files: ``folder`` itself, or its sub-folders in the order of their numbers.

    Raises :class:`DumpError` where there is no such file, or files lie on both levels.
    """
    if not folder.is_dir():
        raise DumpError(f"reading MAX debug files from {folder}: it is not a folder")
    below = [d for d in sorted(folder.iterdir(), key=_natural) if d.is_dir() and any(d.glob("*.max"))]
    here = any(folder.glob("*.max"))
    if here and below:
        raise DumpError(f"reading MAX debug files from {folder}: there are some in it and some in {below[0].name}/; name one")
    if not here and not below:
        raise DumpError(f"reading MAX debug files from {folder}: there is no .max file in it")
    return [folder] if here else below


def _natural(path: Path) -> list[Any]:
    return [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", path.name)]


def collect(folder: Path, everything: bool = False) -> dict[str, Source]:
    """Read the ``.max`` files of one folder by checkpoint, in execution order.

    Where two files claim a checkpoint the better source wins (an attention block's output over its projection's). A layer
    that returned two tensors of one shape, as (hidden, residual) pairs are, gives their sum and both halves. With
    ``everything``, files that stand for no standard checkpoint keep their own key as name.
    """
    found: dict[str, Source] = {}
    pairs: dict[str, MaxTensor] = {}
    for path in sorted(folder.glob("*.max"), key=_natural):
        tensor = read(path)
        where = place(tensor.key)
        if where is None:
            second = re.match(r"^(.+)-output_1$", tensor.key)
            if second and split_path(second[1])[0] is not None and not split_path(second[1])[1]:
                pairs[layer_name(split_path(second[1])[0] or 0)] = tensor
            if everything:
                found.setdefault(tensor.key, Source(tensor, 0))
            continue
        name = where.name
        if name.startswith("prompt_tokens") and tensor.array.dtype.kind not in "iu":
            continue
        if name not in found or where.rank < found[name].rank:
            found[name] = Source(tensor, where.rank)
    for name, residual in pairs.items():
        if name in found:
            _sum_halves(found, name, residual)
    return {name: found[name] for name in sorted(found, key=execution_order)}


def _sum_halves(found: dict[str, Source], name: str, residual: MaxTensor) -> None:
    hidden = found[name].tensor
    if hidden.array.shape != residual.array.shape or hidden.dtype != residual.dtype or hidden.dtype in RAW_FLOATS:
        return
    total = MaxTensor(f"{hidden.key} + {residual.key}", hidden.dtype, hidden.array + residual.array)
    found[f"{name}.hidden"], found[f"{name}.residual"] = Source(hidden, 0), Source(residual, 0)
    found[name] = Source(total, 0)


def convert(
    folder: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    everything: bool = False,
    overwrite: bool = False,
    **writer_options: Any,
) -> list[Path]:
    """Turn a folder of ``.max`` files into a dump; return the folders written.

    Sub-folders become ``step_0000``, ``step_0001``, ... in their order. Raises :class:`DumpError` for a folder without any
    standard checkpoint, and :class:`MaxFileError` for a file that cannot be read.
    """
    folders = step_folders(Path(folder))
    prepare(Path(out), Path(out), overwrite)
    written = []
    for step, one in enumerate(folders):
        sources = collect(one, everything)
        if not sources:
            raise DumpError(f"reading MAX debug files from {one}: no label is known; everything=True takes all of them")
        with DumpWriter(
            out,
            dumper="parity_dump.max_file",
            framework={"name": "max", **writer_options.pop("framework", {})},
            mode="prefill" if step == 0 else "incremental",
            step=step if len(folders) > 1 else None,
            **writer_options,
        ) as writer:
            for name, array, source in _written_form(sources):
                writer.add(name, array, dtype=source.dtype, source=source.key)
            tokens = sources.get("prompt_tokens")
            if tokens is not None and tokens.tensor.array.size == 1:
                writer.warn("one token only: MAX overwrites these files at each execute, so this is the last decode step")
        written.append(writer.path)
    return written


def _written_form(sources: dict[str, Source]) -> Iterator[tuple[str, Array, MaxTensor]]:
    for name, s in sources.items():
        array = s.tensor.array
        if name == "prompt_tokens" and array.ndim == 2 and array.shape[0] == 1:
            array = array[0]
        if name == "logits" and array.ndim == 2 and array.shape[0] == 1:
            yield "last_logits", array[0], s.tensor
        else:
            yield name, array, s.tensor


def add_cli(subparsers: Any) -> None:
    """Register ``parity-dump max-debug``."""
    p = subparsers.add_parser("max-debug", help="turn a folder of MAX's own debug files (.max) into a dump")
    p.add_argument("folder", help="the folder that MAX wrote, or one with such folders, one for each step")
    p.add_argument("-o", "--out", required=True, help="folder of the dump")
    p.add_argument("--everything", action="store_true", help="keep files that stand for no standard checkpoint")
    p.add_argument("--storage", choices=["native", "float32"], default="native", help="how files hold narrow floats")
    p.add_argument("--overwrite", action="store_true", help="replace a dump that is there")
    p.set_defaults(run=run_cli)


def run_cli(args: argparse.Namespace) -> int:
    """Carry out ``parity-dump max-debug``."""
    for path in convert(
        args.folder, args.out, everything=args.everything, overwrite=args.overwrite, storage=args.storage
    ):
        print(f"wrote {path}")
    return 0
