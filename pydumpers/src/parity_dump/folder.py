"""The folder of a dump before anything is written: made, refused, or cleared of an older dump."""

from __future__ import annotations

import re
from pathlib import Path

from .errors import DumpError, DumpExistsError

_NESTED = re.compile(r"^(step|rank)_\d+$")


def prepare(root: Path, path: Path, overwrite: bool) -> None:
    """Make ``path``; refuse, or with ``overwrite`` clear, what an older dump left there or nested below it."""
    below = [d for d in path.rglob("*") if d.is_dir() and all(_NESTED.match(part) for part in d.relative_to(path).parts)]
    folders = [path, *below] if path.is_dir() else []
    above = {p for p in (path.parent, path.parent.parent) if root in (p, *p.parents) and p != path and p.is_dir()}
    old = [f for d in folders for f in sorted(d.iterdir()) if _is_dump_file(f)]
    clash = [f for d in above for f in sorted(d.iterdir()) if _is_dump_file(f)]
    if (old or clash) and not overwrite:
        first = (old or clash)[0]
        raise DumpExistsError(
            f"opening dump {path}: {first} is there already: choose another folder, or pass overwrite=True (--overwrite)"
        )
    # Manifests first: a clearing that is interrupted must not look like a whole dump.
    for f in sorted(old + clash, key=lambda f: f.suffix != ".json"):
        f.unlink()
    for d in sorted(folders, key=lambda d: len(d.parts), reverse=True):
        if d != path and not any(d.iterdir()):
            d.rmdir()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise DumpError(f"making folder {path}: {e.strerror or e}") from e


def _is_dump_file(f: Path) -> bool:
    return f.is_file() and (f.name == "dump.json" or f.suffix == ".npy")
