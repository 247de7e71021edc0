"""Where a process stands in a parallel run, and the folders of steps and ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from .errors import DumpError

MESH_AXES = ("tp", "sp", "cp", "pp", "dp", "ep")
SHARD_KINDS = ("concat", "sum", "replica")


@dataclass(frozen=True)
class RankInfo:
    """One process of a parallel run.

    ``index`` of ``world`` processes; each mesh coordinate is ``(index, size)`` along tensor (tp), sequence (sp), context
    (cp), pipeline (pp), data (dp) or expert (ep) parallelism, None where the run has no such axis. ``rng`` is a fingerprint
    of the rank's random generators when the step began: ranks whose fingerprints part have drawn different numbers.
    """

    index: int = 0
    world: int = 1
    tp: tuple[int, int] | None = None
    sp: tuple[int, int] | None = None
    cp: tuple[int, int] | None = None
    pp: tuple[int, int] | None = None
    dp: tuple[int, int] | None = None
    ep: tuple[int, int] | None = None
    rng: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.world:
            raise DumpError(f"describing rank {self.index} of {self.world}: the index must be in [0, {self.world})")
        for axis in MESH_AXES:
            at = getattr(self, axis)
            if at is not None and not 0 <= at[0] < at[1]:
                raise DumpError(f"describing rank {self.index}: {axis} coordinate {at[0]} is not in [0, {at[1]})")

    @classmethod
    def of(cls, value: RankInfo | Mapping[str, Any] | None) -> RankInfo | None:
        """Return ``value`` as a RankInfo; a mapping has the manifest's form. Unknown keys raise :class:`DumpError`."""
        if value is None or isinstance(value, RankInfo):
            return value
        known = {f.name for f in fields(cls)}
        unknown = sorted(set(value) - known)
        if unknown:
            raise DumpError(f"describing a rank: unknown key {unknown[0]!r}; known are {', '.join(sorted(known))}")
        mesh = {axis: (int(at[0]), int(at[1])) for axis in MESH_AXES if (at := value.get(axis)) is not None}
        return cls(int(value.get("index", 0)), int(value.get("world", 1)), rng=value.get("rng"), **mesh)

    def to_json(self) -> dict[str, Any]:
        """Return the manifest's form: ``{"index": 0, "world": 4, "tp": [0, 2], ...}``."""
        out: dict[str, Any] = {"index": self.index, "world": self.world}
        for axis in MESH_AXES:
            at = getattr(self, axis)
            if at is not None:
                out[axis] = [at[0], at[1]]
        if self.rng is not None:
            out["rng"] = self.rng
        return out


def step_dir(out: str | Path, step: int | None) -> Path:
    """Return the folder of a decode step: ``out/step_0012``, or ``out`` itself where ``step`` is None."""
    if step is None:
        return Path(out)
    if step < 0:
        raise DumpError(f"naming step {step}: steps count from 0")
    return Path(out) / f"step_{step:04d}"


def rank_dir(out: str | Path, rank: RankInfo | Mapping[str, Any] | None) -> Path:
    """Return the folder of a rank: ``out/rank_03``, or ``out`` itself in a run of one process."""
    r = RankInfo.of(rank)
    return Path(out) if r is None or r.world == 1 else Path(out) / f"rank_{r.index:02d}"


def check_shard(name: str, shard: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest's form of a shard, or raise :class:`DumpError` for one that cannot be.

    ``kind`` is ``concat`` (a part along ``axis``), ``sum`` (a partial sum) or ``replica``; ``index`` of ``count``.
    """
    kind, index, count = shard.get("kind"), shard.get("index"), shard.get("count")
    if kind not in SHARD_KINDS:
        raise DumpError(f"adding {name}: shard kind {kind!r} is not one of {', '.join(SHARD_KINDS)}")
    if not isinstance(index, int) or not isinstance(count, int) or not 0 <= index < count:
        raise DumpError(f"adding {name}: shard index {index!r} of {count!r}")
    if kind == "concat" and not shard.get("axis"):
        raise DumpError(f"adding {name}: a concat shard needs its axis (one of the tensor's axes)")
    return dict(shard)
