"""SGLang: dump the model inside its scheduler processes.

NOT RUN ON THE REAL ENGINE by this project, which needs a GPU for it: tested on stand-in modules with the same signatures
(``tests/engines/test_vllm_sglang.py``).

SGLang spawns a scheduler process for each GPU, which imports the main script again. So :func:`patch` is called at the top
of the script, outside ``if __name__ == "__main__"``: it wraps the model runner's ``load_model`` in every process::

    from parity_dump import sglang as parity
    parity.patch("port/")

    if __name__ == "__main__":
        import sglang
        engine = sglang.Engine(model_path=..., disable_cuda_graph=True, disable_radix_cache=True)
        engine.generate(prompt, {"max_new_tokens": 1, "temperature": 0})

A decoder layer is called ``layer(positions, hidden_states, forward_batch, residual)`` and returns
``(hidden_states, residual)``; the logits processor returns an object with ``next_token_logits``, which ends a step.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import torch

from .errors import DumpError
from .serving_hooks import ServingDumper


def tensor_parallel() -> tuple[int, int]:
    """Return ``(rank, world size)`` of SGLang's tensor-parallel group; ``(0, 1)`` where it has set up none."""
    try:
        from sglang.srt.distributed import get_tensor_model_parallel_rank, get_tensor_model_parallel_world_size

        return int(get_tensor_model_parallel_rank()), int(get_tensor_model_parallel_world_size())
    except (ImportError, AssertionError):
        return 0, 1


def install(
    model: torch.nn.Module,
    out: str | os.PathLike[str],
    *,
    rank: int | None = None,
    world: int | None = None,
    **options: Any,
) -> ServingDumper:
    """Hook ``model`` in this process and return the dumper; options are :class:`ServingDumper`'s.

    ``rank`` and ``world`` are SGLang's own unless given.
    """
    found = tensor_parallel()
    return ServingDumper(
        model,
        out,
        engine="sglang",
        version=_version(),
        rank=found[0] if rank is None else rank,
        world=found[1] if world is None else world,
        **options,
    )


def patch(out: str | os.PathLike[str], *, runner: Any = None, **options: Any) -> None:
    """Wrap ``ModelRunner.load_model`` so that each model is hooked as soon as it is loaded.

    ``runner`` is the class to patch, SGLang's own unless given. SGLang warms up with a request of its own: its forwards are
    the first steps. Raises :class:`DumpError` where the class is patched already.
    """
    if runner is None:
        from sglang.srt.model_executor.model_runner import ModelRunner

        runner = ModelRunner
    load = runner.load_model
    if getattr(load, "_parity_dump", False):
        raise DumpError("patching SGLang's ModelRunner: it is patched already")

    @functools.wraps(load)
    def load_model(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = load(self, *args, **kwargs)
        self._parity_dumper = install(self.model, out, **options)
        return result

    load_model._parity_dump = True  # type: ignore[attr-defined]
    runner.load_model = load_model


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("sglang")
    except PackageNotFoundError:
        return "unknown"
