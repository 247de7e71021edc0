"""Which process of a parallel torch run this is, how a tensor is split over them, and the state of its random generators."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any

import torch

from .ranks import MESH_AXES, RankInfo

# Names that people give the dimensions of a device mesh -> ours. "fsdp" and "ddp" replicate the model over data.
_ALIASES = {
    "tensor": "tp", "model": "tp", "sequence": "sp", "context": "cp", "pipeline": "pp", "pipe": "pp",
    "data": "dp", "ddp": "dp", "fsdp": "dp", "dp_shard": "dp", "dp_replicate": "dp", "expert": "ep",
}


def distributed() -> bool:
    """Report whether ``torch.distributed`` is initialised in this process."""
    return bool(torch.distributed.is_available() and torch.distributed.is_initialized())


def detect(model: Any, mesh: Any = None) -> RankInfo | None:
    """Return this process's place in the run, or None in a run of one process.

    Mesh coordinates come from ``mesh`` (a ``DeviceMesh`` with names), else from the mesh of the model's first DTensor
    parameter; a mesh without names gives none.
    """
    if not distributed():
        return None
    info = RankInfo(int(torch.distributed.get_rank()), int(torch.distributed.get_world_size()))
    mesh = mesh if mesh is not None else _mesh_of(model.parameters())
    names = getattr(mesh, "mesh_dim_names", None)
    if mesh is None or not names:
        return info
    at: dict[str, tuple[int, int]] = {}
    for i, name in enumerate(names):
        axis = _ALIASES.get(name, name)
        if axis in MESH_AXES and axis not in at:
            at[axis] = (int(mesh.get_local_rank(i)), int(mesh.size(i)))
    return RankInfo.of({"index": info.index, "world": info.world, **at})


def _mesh_of(parameters: Iterable[Any]) -> Any:
    return next((p.device_mesh for p in parameters if hasattr(p, "device_mesh")), None)


def rng_fingerprint() -> str:
    """Return a short hash of the states of torch's random generators (CPU, and each CUDA device that is in use).

    Reads the states and changes nothing. Ranks that draw alike have equal fingerprints at each step.
    """
    h = hashlib.sha256(bytes(torch.random.get_rng_state().numpy()))
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        for state in torch.cuda.get_rng_state_all():
            h.update(bytes(state.numpy()))
    return h.hexdigest()[:16]


def local(tensor: Any) -> tuple[Any, tuple[str, int | None, int, int] | None]:
    """Return this rank's part of a tensor and how it is split: ``(kind, dim, index, count)``, or None for a plain tensor.

    ``kind`` is ``concat`` (a DTensor with a Shard placement along ``dim``), ``sum`` (Partial) or ``replica``. Of several
    mesh dimensions the first that splits counts.
    """
    if not hasattr(tensor, "to_local") or not hasattr(tensor, "placements"):
        return tensor, None
    mesh = tensor.device_mesh
    split: tuple[str, int | None, int, int] | None = None
    for i, p in enumerate(tensor.placements):
        index, count = int(mesh.get_local_rank(i)), int(mesh.size(i))
        if p.is_shard():
            split = ("concat", int(p.dim), index, count)
            break
        if p.is_partial():
            split = ("sum", None, index, count)
            break
        split = split or ("replica", None, index, count)
    return tensor.to_local(), split


def shard_from_plan(path: str, plan: dict[str, str] | None) -> str | None:
    """Return the shard kind of a module's output under a transformers ``tp_plan``: ``concat``, ``replica`` or None.

    A colwise module's output is this rank's columns; a rowwise one's was summed over the ranks by the plan's own hook.
    """
    for pattern, style in (plan or {}).items():
        if re.fullmatch(re.escape(pattern).replace(r"\*", r"\d+"), path):
            if "colwise" in style and "rep" not in style and "gather" not in style:
                return "concat"
            return "replica"
    return None
