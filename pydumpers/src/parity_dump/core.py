"""The writer that every adapter uses: arrays in, a dump of schema ``parity.dump/1`` out. numpy only."""

from __future__ import annotations

import os
import threading
import warnings as _warnings
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Literal

import numpy as np
import numpy.typing as npt

from . import manifest as manifest_text
from . import npyfile
from .arrays import register_array_type, to_numpy
from .checks import doubts
from .dtypes import file_form, normalize
from .errors import DumpError, DumpTooLargeError, DumpWarning
from .folder import prepare
from .names import default_axes, file_name, split_layer
from .ranks import RankInfo, check_shard, rank_dir, step_dir
from .selection import Selection
from .taps import active, pop_sink, push_sink, recording, tap
from .version import VERSION

__all__ = [
    "DumpWriter",
    "RankInfo",
    "active",
    "pop_sink",
    "push_sink",
    "rank_dir",
    "recording",
    "register_array_type",
    "step_dir",
    "tap",
    "to_numpy",
]

SCHEMA = "parity.dump/1"
MODES = ("prefill", "teacher_forced", "incremental", "serve")
Storage = Literal["native", "float32"]
Repeat = Literal["first", "last", "error"]

_prepare = prepare  # adapters that write many steps clear the folder once, before the first writer


class DumpWriter:
    """Writes one run's tensors into a folder, as a context manager.

    ``with DumpWriter("ref/", dumper="my.script") as w: w.add("layer_00", x)``

    Every array is in its file before :meth:`add` returns. The manifest ``dump.json`` is written last, by rename: a folder
    without it, or with ``"complete": false``, is a run that did not end well. Leaving the block through an exception
    writes ``complete: false`` and lets the exception pass.

    Parameters
    ----------
    out:
        The dump's folder, made if needed. With ``step`` or several ranks the files go to ``step_NNNN/`` and ``rank_NN/``
        below it: see :attr:`path`.
    dumper:
        Name of what dumps, for the manifest: ``parity_dump.torch``.
    framework, model, prompt:
        Facts for the manifest. ``model["dtype"]`` and ``model["num_layers"]`` are also used to check what arrives.
    mode:
        ``prefill``, ``teacher_forced``, ``incremental`` or ``serve``.
    storage:
        ``native`` keeps each dtype's bits (bfloat16 in 2 bytes); ``float32`` widens narrower floats, exactly.
    layers, tokens:
        Keep these layers (``"0-3,last"``) and these rows of everything with a token axis (``"0-15,last"``); the full token
        ids then go to the manifest's ``prompt``. Rows are not sampled in mode ``incremental``.
    max_bytes:
        A limit for the files of this folder; the array that would pass it raises :class:`DumpTooLargeError`.
    overwrite:
        Allow ``out`` to hold a dump already: its ``.npy`` files and manifests are removed first.
    repeat:
        What a second :meth:`add` of a name does: keep the ``first`` values, keep the ``last``, or raise an ``error``. The
        calls are counted and a warning is given in any case.
    """

    def __init__(
        self,
        out: str | os.PathLike[str],
        *,
        dumper: str,
        framework: Mapping[str, Any] | None = None,
        model: Mapping[str, Any] | None = None,
        mode: str = "prefill",
        step: int | None = None,
        rank: RankInfo | Mapping[str, Any] | None = None,
        prompt: Mapping[str, Any] | None = None,
        storage: Storage = "native",
        layers: str | None = None,
        tokens: str | None = None,
        max_bytes: int | None = None,
        overwrite: bool = False,
        repeat: Repeat = "first",
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        if mode not in MODES:
            raise DumpError(f"opening dump {os.fspath(out)}: mode {mode!r} is not one of {', '.join(MODES)}")
        if storage not in ("native", "float32"):
            raise DumpError(f"opening dump {os.fspath(out)}: storage {storage!r} is not native or float32")
        if repeat not in ("first", "last", "error"):
            raise DumpError(f"opening dump {os.fspath(out)}: repeat {repeat!r} is not first, last or error")
        self.rank = RankInfo.of(rank)
        self.path = rank_dir(step_dir(Path(out), step), self.rank)
        self.model = dict(model or {})
        self.prompt = dict(prompt or {})
        self.framework = dict(framework or {})
        self.extra = dict(extra or {})
        self.mode, self.step = mode, step
        self.storage: Storage = storage
        self.repeat: Repeat = repeat
        self.max_bytes = max_bytes
        self.bytes_written = 0
        self.warnings: list[str] = []
        self._dumper = dumper
        self._layers = Selection.parse(layers, "layers") if layers else None
        self._tokens = Selection.parse(tokens, "tokens") if tokens else None
        if self._layers and self._layers.needs_count() and not self.model.get("num_layers"):
            raise DumpError(f"opening dump {self.path}: layers={layers!r} needs model={{'num_layers': ...}} to know the last")
        if self._layers and self.model.get("num_layers"):
            self._layers.require(int(self.model["num_layers"]), "layers")
        self._entries: dict[str, dict[str, Any]] = {}
        self._sizes: dict[str, int] = {}
        self._crc: dict[str, int] = {}
        self._taken: set[str] = set()
        self._lock = threading.RLock()
        self._closed = False
        self._selected_rows: list[int] | None = None
        prepare(Path(out), self.path, overwrite)

    # ---- adding ----------------------------------------------------------------------------------------------------

    def wants(self, name: str) -> bool:
        """Report whether ``layers=`` keeps this checkpoint: names outside the layers are always kept."""
        index, _ = split_layer(name)
        if index is None or self._layers is None:
            return True
        return self._layers.has(index, self.model.get("num_layers"))

    def add(
        self,
        name: str,
        array: Any,
        *,
        dtype: str | None = None,
        source: str | None = None,
        axes: Sequence[str] | None = None,
        columns: str | None = None,
        shard: Mapping[str, Any] | None = None,
        inputs: Sequence[str] | None = None,
        before: str | None = None,
    ) -> None:
        """Write one checkpoint.

        ``array`` is a numpy array (or what :func:`to_numpy` takes); bfloat16 and 8-bit floats as their bits (uint16,
        uint8) with ``dtype`` naming them. ``dtype`` is the logical one, what the model computed in; the array may be
        wider. ``source`` is the engine's own name of the place. ``axes`` name the dimensions (known for standard names).
        ``columns`` is ``interleaved`` or ``half_split`` for q, k and their rotated forms. ``shard`` has axis, index, count,
        kind. ``inputs`` are the checkpoints that this one is computed from, where the block's shape is unusual.
        ``before`` names a checkpoint that was added already but comes later in execution order: attention probabilities
        are seen only when the module returns.

        A second call with one name is counted and warned about; which values stay is ``repeat``'s choice. Raises
        :class:`DumpError` and its kinds.
        """
        with self._lock:
            if self._closed:
                raise DumpError(f"adding {name} to {self.path}: the dump is closed")
            if not self.wants(name):
                return
            if columns not in (None, "interleaved", "half_split"):
                raise DumpError(f"adding {name}: columns {columns!r} is not interleaved or half_split")
            if not isinstance(array, np.ndarray):
                array, logical = to_numpy(array)
                dtype = dtype or logical
            try:
                values, logical = normalize(array, dtype)
            except DumpError as e:
                raise DumpError(f"adding {name}: {e}") from e
            if axes is not None and len(axes) != values.ndim:
                raise DumpError(f"adding {name}: {len(axes)} axes {tuple(axes)} for an array of shape {values.shape}")
            shard = check_shard(name, shard) if shard is not None else None
            axes = tuple(axes) if axes is not None else default_axes(name, values.ndim)

            entry = self._entries.get(name)
            if entry is not None and not self._count(name, entry):
                return
            if name == "prompt_tokens" and self._tokens is not None:
                self.prompt.setdefault("token_ids", np.ravel(values).tolist())
            values = self._sample(name, values, axes)
            data, descr = file_form(values, logical, self.storage)
            fname = entry["file"] if entry else file_name(name, self._taken)
            self._check_size(name, npyfile.file_size(descr, data.shape, data.dtype.itemsize))
            size = npyfile.write(self.path / fname, data, descr)
            self.bytes_written += size - self._sizes.get(name, 0)
            self._sizes[name] = size
            if split_layer(name)[1] is None:  # residual checkpoints: compared with each other when the dump ends
                self._crc[name] = zlib.crc32(np.ascontiguousarray(values).tobytes())
            calls = entry["calls"] if entry else 1
            self._entries[name] = manifest_text.entry(
                name, fname, 0, logical, calls, list(data.shape), source, axes, columns, shard, inputs
            )
            if before is not None and before in self._entries and entry is None:
                self._move_before(name, before)

    def _move_before(self, name: str, other: str) -> None:
        names = [n for n in self._entries if n != name]
        names.insert(names.index(other), name)
        self._entries = {n: self._entries[n] for n in names}

    def _count(self, name: str, entry: dict[str, Any]) -> bool:
        """Count a further call of ``name``; return whether its values replace the earlier ones."""
        entry["calls"] += 1
        if self.repeat == "error":
            raise DumpError(f"adding {name}: it was added before in this run, and repeat='error'")
        if entry["calls"] == 2:
            self.warn(
                f"{name} was produced more than once in this run; the {self.repeat} values are kept. Is the dumper on "
                "during generate(), or is the module used in several places?"
            )
        return self.repeat == "last"

    def _sample(self, name: str, values: npt.NDArray[Any], axes: Sequence[str] | None) -> npt.NDArray[Any]:
        if self._tokens is None or self.mode == "incremental" or not axes or "token" not in axes:
            return values
        axis = list(axes).index("token")
        rows = self._tokens.indices(values.shape[axis])
        if not rows:
            raise DumpError(f"adding {name}: tokens={self._tokens.text!r} selects none of its {values.shape[axis]} rows")
        if self._selected_rows is None:
            self._selected_rows = rows
        return np.take(values, rows, axis=axis)

    def _check_size(self, name: str, size: int) -> None:
        total = self.bytes_written + size - self._sizes.get(name, 0)
        if self.max_bytes is not None and total > self.max_bytes:
            raise DumpTooLargeError(
                f"adding {name} to {self.path}: the dump would hold {total} bytes, over the limit of {self.max_bytes}: raise "
                "max_bytes, or dump less (layers=, tokens=, storage='native')"
            )

    def annotate(self, name: str, **facts: Any) -> None:
        """Add manifest facts (``columns``, ``inputs``, ...) to a checkpoint that was added before; unknown names are ignored.

        For what is known only later: which dims RoPE paired is seen when the rotated q arrives.
        """
        with self._lock:
            entry = self._entries.get(name)
            if entry is not None:
                entry.update({k: list(v) if isinstance(v, tuple) else v for k, v in facts.items() if v is not None})

    def warn(self, message: str) -> None:
        """Give a :class:`DumpWarning` and keep it in the manifest under ``warnings``, once."""
        if message not in self.warnings:
            self.warnings.append(message)
            self._say(message)

    def _say(self, message: str) -> None:
        _warnings.warn(f"{self.path}: {message}", DumpWarning, stacklevel=5)

    @property
    def names(self) -> list[str]:
        """The checkpoints written so far, in order."""
        return list(self._entries)

    def entry(self, name: str) -> dict[str, Any]:
        """Return a copy of a checkpoint's manifest entry (with its shape). Raises KeyError for an unknown name."""
        return dict(self._entries[name])

    # ---- ending ----------------------------------------------------------------------------------------------------

    def close(self, complete: bool = True, error: BaseException | None = None) -> None:
        """Write the manifest; later calls do nothing.

        With ``complete`` the dump is also checked for the known mistakes of capturing (repeated calls, identical
        neighbours, missing layers, ...), which become warnings. A complete dump without one tensor raises
        :class:`DumpError` and is marked incomplete: a hook that never fired is no success.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            empty = complete and not self._entries
            found = []
            if complete and not empty:
                found = doubts(self._entries, self._crc, self.model, sampled=self._layers is not None)
            self.warnings += found
            self._write_manifest(complete and not empty, error)
            for doubt in found:  # Note: after the manifest, since a caller may turn warnings into errors.
                self._say(doubt)
            if empty:
                raise DumpError(
                    f"closing {self.path}: no tensor was added; did the hooks fire (torch.compile and CUDA graphs bypass them)?"
                )

    def fail(self, error: BaseException) -> None:
        """Mark the dump incomplete because of ``error``, also one that was closed already.

        For adapters that close a dump when a forward ends: an exception can still pass through the block around it.
        """
        with self._lock:
            self._closed = True
            self._write_manifest(False, error)

    def _write_manifest(self, complete: bool, error: BaseException | None) -> None:
        manifest: dict[str, Any] = {
            "schema": SCHEMA,
            "complete": complete,
            "created": manifest_text.now(),
            "dumper": {"name": self._dumper, "version": VERSION},
        }
        if self.framework:
            manifest["framework"] = self.framework
        if self.model:
            manifest["model"] = self.model
        manifest["mode"] = self.mode
        manifest["step"] = self.step or 0
        manifest["rank"] = (self.rank or RankInfo()).to_json()
        if self.prompt:
            manifest["prompt"] = self.prompt
        if self._layers is not None:
            manifest["layers"] = self._layers.text
        if self._selected_rows is not None:
            manifest["tokens"] = self._selected_rows
        manifest.update(self.extra)
        if error is not None:
            manifest["error"] = f"{type(error).__name__}: {error}"
        if self.warnings:
            manifest["warnings"] = self.warnings
        manifest["tensors"] = [{**e, "order": i} for i, e in enumerate(self._entries.values())]
        text = manifest_text.layout(manifest).encode()

        def body(f: BinaryIO) -> None:
            f.write(text)

        npyfile.write_atomically(self.path / "dump.json", body, sync=True)

    def __enter__(self) -> DumpWriter:
        push_sink(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        pop_sink(self)
        if error is None:
            self.close()
            return
        try:
            self.close(complete=False, error=error)
        except DumpError as e:
            # The first error is the one to tell; a folder without a manifest already says "incomplete".
            _warnings.warn(f"{e}", DumpWarning, stacklevel=2)
