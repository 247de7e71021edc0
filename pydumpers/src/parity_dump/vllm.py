"""vLLM: dump the model inside its workers.

NOT RUN ON THE REAL ENGINE by this project, which needs a GPU for it: tested on stand-in modules with the same signatures
(``tests/engines/test_vllm_sglang.py``).

vLLM runs the model in worker processes, so the hooks are put there::

    from functools import partial
    from vllm import LLM, SamplingParams
    from parity_dump.vllm import install, uninstall

    llm = LLM(model, enforce_eager=True, enable_prefix_caching=False)   # CUDA graphs bypass hooks; cached prefixes are skipped
    llm.apply_model(partial(install, out="port/"))                      # needs VLLM_ALLOW_INSECURE_SERIALIZATION=1
    llm.generate(prompt, SamplingParams(max_tokens=1, temperature=0))
    llm.apply_model(uninstall)

A decoder layer is called ``layer(positions, hidden_states, residual)`` and returns ``(hidden_states, residual)``; the
final norm is called ``norm(hidden_states, residual)``.
"""

from __future__ import annotations

import os
from typing import Any

import torch

from .errors import DumpError
from .serving_hooks import ServingDumper

_ATTRIBUTE = "_parity_dumper"


def tensor_parallel() -> tuple[int, int]:
    """Return ``(rank, world size)`` of vLLM's tensor-parallel group; ``(0, 1)`` where vLLM has set up none."""
    try:
        from vllm.distributed import get_tensor_model_parallel_rank, get_tensor_model_parallel_world_size

        return int(get_tensor_model_parallel_rank()), int(get_tensor_model_parallel_world_size())
    except (ImportError, AssertionError):
        return 0, 1


def install(
    model: torch.nn.Module,
    out: str | os.PathLike[str] = "port",
    *,
    rank: int | None = None,
    world: int | None = None,
    **options: Any,
) -> str:
    """Hook ``model`` in this worker; return what was hooked. Options are :class:`ServingDumper`'s.

    ``rank`` and ``world`` are vLLM's own unless given. Raises :class:`DumpError` for a model that is hooked already.
    """
    if getattr(model, _ATTRIBUTE, None) is not None:
        raise DumpError(f"hooking {type(model).__name__}: it is hooked already; call uninstall first")
    found = tensor_parallel()
    dumper = ServingDumper(
        model,
        out,
        engine="vllm",
        version=_version(),
        rank=found[0] if rank is None else rank,
        world=found[1] if world is None else world,
        **options,
    )
    # Not through nn.Module.__setattr__'s registries: the dumper is no part of the model.
    object.__setattr__(model, _ATTRIBUTE, dumper)
    return f"{type(model).__name__}: {len(dumper._handles)} hooks"


def uninstall(model: torch.nn.Module) -> int:
    """Remove the hooks, end the dump and return how many forwards were dumped."""
    dumper = getattr(model, _ATTRIBUTE, None)
    if dumper is None:
        raise DumpError(f"ending the dump of {type(model).__name__}: it is not hooked")
    object.__setattr__(model, _ATTRIBUTE, None)
    return int(dumper.close())


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("vllm")
    except PackageNotFoundError:
        return "unknown"
