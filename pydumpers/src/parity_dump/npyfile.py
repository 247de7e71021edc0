"""Writing one ``.npy`` file: all of it or nothing, with a descr that numpy alone cannot write."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from .errors import DiskFullError, DumpError

_CHUNK = 16 << 20
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def header(descr: str, shape: tuple[int, ...]) -> bytes:
    """Return the header of a C-ordered array: magic, version 1.0, dict, padded to 64 bytes, as numpy writes it."""
    buf = io.BytesIO()
    np.lib.format.write_array_header_1_0(buf, {"descr": descr, "fortran_order": False, "shape": tuple(shape)})
    return buf.getvalue()


def file_size(descr: str, shape: tuple[int, ...], itemsize: int) -> int:
    """Return the size in bytes of the file that :func:`write` makes."""
    n = itemsize
    for d in shape:
        n *= d
    return len(header(descr, shape)) + n


def write(path: Path, array: npt.NDArray[Any], descr: str) -> int:
    """Write ``array`` to ``path`` through a temporary file and a rename; return the size in bytes.

    The values are in the file when this returns: what the caller does to its buffer afterwards does not matter. A reader
    sees the old file or the whole new one. Raises :class:`DiskFullError` when space or quota runs out and
    :class:`DumpError` for other trouble of the file system; the temporary file is removed in either case.
    """
    a = np.ascontiguousarray(array).reshape(np.shape(array))  # Note: ascontiguousarray alone turns 0-d into 1-d.

    def body(f: BinaryIO) -> None:
        f.write(header(descr, a.shape))
        if a.size == 0:
            return
        raw = a.reshape(-1).view(np.uint8)
        for start in range(0, raw.size, _CHUNK):
            f.write(raw[start : start + _CHUNK].data)

    return write_atomically(path, body)


def write_atomically(path: Path, body: Callable[[BinaryIO], None], *, sync: bool = False) -> int:
    """Call ``body`` with a temporary file beside ``path``, rename it to ``path``; return its size.

    ``sync`` also flushes it to the disk before the rename. Errors as in :func:`write`.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as f:
            body(f)
            f.flush()
            if sync:
                os.fsync(f.fileno())
            size = f.tell()
        os.replace(part, path)
    except OSError as e:
        with contextlib.suppress(OSError):
            part.unlink()
        if e.errno in _NO_SPACE:
            free = _free(path.parent)
            raise DiskFullError(
                f"writing {path}: {os.strerror(e.errno or errno.ENOSPC).lower()} ({free} bytes free): "
                "free some space, or dump less (layers=, tokens=, storage='native')"
            ) from e
        raise DumpError(f"writing {path}: {e.strerror or e}") from e
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    return size


def _free(folder: Path) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0
