"""Taps as prints: MAX writes each tapped value into a ``.max`` file while the graph runs, and the files are read back.

For a pipeline whose outputs cannot be extended; the values are the same as those of extra outputs, to the bit. What is known
of ``ops.print`` with the style ``BINARY_MAX_CHECKPOINT``, and what is done about it:

* each execute overwrites the files of the last one: each has a folder of its own here, which is read and removed after it;
* a label is cleaned of blanks and ``/ : < > ? |``, a non-ASCII one does not compile, one over 251 bytes is silently not
  written: labels are short, plain and numbered, and the checkpoint that each stands for is kept beside the graph;
* a folder that cannot be written, or a full disk, gives no error: a file that is missing or cut off is one here;
* MAX says one line on stdout for each file. A graph with prints takes about twice as long to compile.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
import weakref
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .errors import DumpError
from .max_file import read
from .max_taps import Result, Tap

_UNSAFE = re.compile(r"[^A-Za-z0-9_.\-]")


class Prints:
    """Prints taps while graphs are built, and collects the files of each execute.

    ``scratch`` is the folder below which each execute's files lie while it runs (default: the system's folder for temporary
    files); it needs room for one execute's taps. MAX's debug options belong to a session, so those made while the hooks are
    installed are remembered by :meth:`add_session`.
    """

    def __init__(self, scratch: str | os.PathLike[str] | None = None) -> None:
        self._scratch = None if scratch is None else Path(scratch)
        self._sessions: weakref.WeakSet[Any] = weakref.WeakSet()
        self._serial: dict[str, int] = {}
        self._lock = threading.RLock()

    def add_session(self, session: Any) -> None:
        """Remember an ``InferenceSession``; until something tapped runs, it prints nothing."""
        self._sessions.add(session)
        session.set_debug_print_options("NONE")

    def emit(self, graph: str, name: str, values: Sequence[Any]) -> tuple[str, ...]:
        """Print ``values`` (one symbol for each device) in the graph being built and return their labels.

        The labels of a graph depend on its name and on the order of its taps only, so that MAX's compile cache knows it again.
        """
        from max.graph import ops

        labels = []
        for value in values:
            serial = self._serial[graph] = self._serial.get(graph, -1) + 1
            labels.append(f"{zlib.crc32(graph.encode()):08x}-{serial:05d}-{_UNSAFE.sub('_', name)[:100]}")
            ops.print(value, labels[-1])
        return tuple(labels)

    @contextmanager
    def capture(self) -> Iterator[Path]:
        """Let the sessions write into a new folder inside the block; the folder is removed afterwards."""
        with self._lock:
            if self._scratch is not None:
                self._scratch.mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(prefix=".max-prints-", dir=self._scratch))
            try:
                for s in list(self._sessions):
                    s.set_debug_print_options("BINARY_MAX_CHECKPOINT", output_directory=folder)
                yield folder
            finally:
                for s in list(self._sessions):
                    s.set_debug_print_options("NONE")
                shutil.rmtree(folder, ignore_errors=True)

    def read(self, folder: Path, taps: Iterable[Tap], results: Iterable[Any]) -> Iterator[Result]:
        """Yield what an execute has printed into ``folder``, tap by tap; ``results`` are waited for first.

        Raises :class:`DumpError` for a tap that was not written, and its kind :class:`MaxFileError` for half a file.
        """
        for r in results:
            device = getattr(r, "device", None)
            if device is not None:
                device.synchronize()
        for tap in taps:
            for rank, label in enumerate(tap.labels):
                path = folder / f"{label}.max"
                if not path.is_file():
                    raise DumpError(
                        f"reading what MAX printed for {tap.name}: it did not write {path}, and gives no error where a folder "
                        "cannot be written or the disk is full; check both, or use --via outputs"
                    )
                yield Result(rank, len(tap.labels), tap.name, read(path))
                path.unlink()  # a prefill's taps can be large: none is on disk twice for long
