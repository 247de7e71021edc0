"""What the manifest says about a torch model and the torch it runs on, and what makes a dump of it impossible."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch

from . import hf_config
from .errors import DumpError


def model_facts(model: Any, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the ``model`` facts of the manifest; ``given`` ones win over what the config says.

    Without a transformers config only the class and the dtype are known. ``id`` is the last part of the name or path that
    the model was loaded from.
    """
    config = getattr(model, "config", None)
    facts: dict[str, Any] = {}
    if config is not None and hasattr(config, "to_dict"):
        facts = hf_config.facts(config.to_dict())
        name = str(getattr(config, "_name_or_path", "") or "")
        if name:
            facts["id"] = os.path.basename(os.path.normpath(name))
    facts["class"] = type(model).__name__
    dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), None)
    if dtype is not None:
        facts["dtype"] = str(dtype).removeprefix("torch.")
    quantization = getattr(config, "quantization_config", None)
    if quantization is not None:
        facts["quantization"] = str(getattr(quantization, "quant_method", None) or type(quantization).__name__)
    facts.update(given or {})
    first = ("id", "class", "dtype")
    return {k: facts[k] for k in (*first, *(k for k in facts if k not in first)) if k in facts}


def framework_facts(model: Any) -> dict[str, Any]:
    """Return the ``framework`` facts: version, device, precision of products, attention, autocast."""
    device = next((p.device.type for p in model.parameters()), "cpu")
    facts: dict[str, Any] = {
        "name": "torch",
        "version": str(torch.__version__),
        "device": device,
        "matmul_precision": torch.get_float32_matmul_precision(),
    }
    attention = getattr(getattr(model, "config", None), "_attn_implementation", None)
    if attention:
        facts["attention"] = str(attention)
    if torch.is_autocast_enabled(device):
        facts["autocast"] = str(torch.get_autocast_dtype(device)).removeprefix("torch.")
    return facts


def refuse_unhookable(model: Any) -> None:
    """Raise :class:`DumpError` for a model whose modules do not run as Python modules, so that hooks would not fire."""
    for name, m in model.named_modules():
        where = f"its module {name!r}" if name else "the model"
        if isinstance(m, torch.jit.ScriptModule):
            raise DumpError(f"hooking {type(model).__name__}: {where} is scripted and runs no Python hooks; dump the original")
        if hasattr(m, "_orig_mod") or getattr(m, "_compiled_call_impl", None) is not None:
            raise DumpError(
                f"hooking {type(model).__name__}: {where} is compiled (torch.compile), so hooks would not fire; dump the "
                "original (model._orig_mod), or set TORCHDYNAMO_DISABLE=1 before loading it"
            )
        if hasattr(m.forward, "_torchdynamo_orig_callable") and any(m.children()):
            raise DumpError(
                f"hooking {type(model).__name__}: the forward of {where} is compiled (torch.compile), so hooks of the "
                "modules in it would be traced instead of run; set TORCHDYNAMO_DISABLE=1 before loading it"
            )


def refuse_capture() -> None:
    """Raise :class:`DumpError` inside a trace or a CUDA graph capture: values do not exist there."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        raise DumpError("dumping inside a trace (torch.compile, torch.jit, torch.export): tensors have no values here")
    if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
        raise DumpError("dumping while a CUDA graph is captured: replays of the graph run no hooks; disable CUDA graphs")


def active_dropout(model: Any) -> bool:
    """Report whether the model is in training mode and drops something out, so that no two runs are equal."""
    if not model.training:
        return False
    if any(isinstance(m, torch.nn.modules.dropout._DropoutNd) and m.training and m.p > 0 for m in model.modules()):
        return True
    config = getattr(model, "config", None)
    return any(bool(getattr(config, k, 0)) for k in ("attention_dropout", "attention_probs_dropout_prob", "attn_pdrop"))
