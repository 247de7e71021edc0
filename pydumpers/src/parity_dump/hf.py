"""A Hugging Face causal LM from a name, folder or GGUF file: load it, encode a prompt, dump prefill and decode steps."""

from __future__ import annotations

import contextlib
import inspect
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from .errors import DumpError
from .estimate import human
from .torch import Dumper

Say = Callable[[str], None]

DTYPES = ("float32", "float64", "float16", "bfloat16")


@dataclass
class Prompt:
    """Token ids to run, and what the manifest says about where they are from."""

    ids: list[int]
    facts: dict[str, Any] = field(default_factory=dict)


def load(
    model: str,
    *,
    dtype: str = "float32",
    attn: str = "eager",
    device: str = "cpu",
    gguf_file: str | None = None,
    trust_remote_code: bool = False,
) -> tuple[Any, Any]:
    """Return ``(model, tokenizer)`` in eval mode; the tokenizer is None where the folder has none.

    Raises :class:`DumpError` with the loader's own words where it fails.
    """
    if dtype not in DTYPES:
        raise DumpError(f"loading {model}: dtype {dtype!r} is not one of {', '.join(DTYPES)}")
    try:
        import transformers
    except ImportError as e:
        raise DumpError(f"loading {model}: transformers is not installed (pip install 'parity-dump[hf]')") from e
    options: dict[str, Any] = {"trust_remote_code": trust_remote_code}
    if gguf_file:
        options["gguf_file"] = gguf_file
    try:
        lm = transformers.AutoModelForCausalLM.from_pretrained(
            model, dtype=getattr(torch, dtype), attn_implementation=attn, **options
        )
    except Exception as e:
        raise DumpError(f"loading {model}: {e}") from e
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(model, **options)
    except Exception:
        tokenizer = None  # Note: a folder of weights alone is fine, as long as ids are given.
    return lm.to(device).eval(), tokenizer


def encode(tokenizer: Any, text: str, *, chat: bool = False, add_special_tokens: bool = True) -> Prompt:
    """Return the ids of ``text``, or with ``chat`` of one user message rendered by the model's own template.

    The template's output holds its special tokens already, so none are added to it. Raises :class:`DumpError` without a
    tokenizer, for an empty result, and where the model has no template.
    """
    if tokenizer is None:
        raise DumpError("encoding the prompt: the model has no tokenizer; give ids with --ids")
    facts: dict[str, Any] = {"text": text, "add_special_tokens": add_special_tokens}
    if chat:
        if not getattr(tokenizer, "chat_template", None):
            raise DumpError("encoding the prompt: the tokenizer has no chat template; leave --chat out")
        message = [{"role": "user", "content": text}]
        rendered = tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
        facts = {"text": rendered, "add_special_tokens": False, "chat": text}
    ids = tokenizer(facts["text"], add_special_tokens=facts["add_special_tokens"])["input_ids"]
    if not ids:
        raise DumpError(f"encoding the prompt {text!r}: it has no tokens")
    return Prompt([int(i) for i in ids], facts)


# transformers is renaming its cache argument and output field: the newest name first.
CACHE_NAMES = ("cache", "past_key_values", "cache_params")


def cache_argument(model: Any, cache: Any) -> dict[str, Any]:
    """Return the keyword that hands ``cache`` to this model's forward; none for no cache."""
    parameters = inspect.signature(model.forward).parameters
    return {} if cache is None else {next((n for n in CACHE_NAMES if n in parameters), "past_key_values"): cache}


def cache_of(result: Any) -> Any:
    """Return the cache that a forward left in its result. Raises :class:`DumpError` where it left none."""
    found = next((result[n] for n in CACHE_NAMES if n in result and result[n] is not None), None)
    if found is None:
        raise DumpError("decoding: the model returned no cache (use_cache); use --recompute")
    return found


def greedy(model: Any, ids: Sequence[int], count: int) -> list[int]:
    """Return the next ``count`` greedy tokens, fewer where an end token comes first (which is left out)."""
    ends = model.generation_config.eos_token_id if getattr(model, "generation_config", None) else None
    stop = set(ends) if isinstance(ends, (list, tuple)) else {ends}
    out: list[int] = []
    past, feed = None, list(ids)
    with torch.no_grad():
        for _ in range(count):
            result = model(torch.tensor([feed], device=model.device), use_cache=True, **cache_argument(model, past))
            token = int(result.logits[0, -1].argmax())
            if token in stop:
                break
            out.append(token)
            past, feed = cache_of(result), [token]
    return out


def dump(
    model: Any,
    prompt: Prompt,
    out: Path,
    *,
    decode: int = 0,
    recompute: bool = False,
    forced: Sequence[int] | None = None,
    overwrite: bool = False,
    say: Say = lambda _: None,
    **options: Any,
) -> list[int]:
    """Dump ``model`` on ``prompt`` and return the greedy tokens that followed; ``options`` go to :class:`Dumper`.

    * ``decode=0``: one dump in ``out`` of the prompt alone; with ``forced`` tokens, one teacher-forced dump of prompt and
      tokens together in ``out/step_KKKK``, K being their number.
    * ``decode=N``: ``step_0000`` is the prefill, ``step_0001`` to ``step_N`` feed one token each: greedy ones, or those of
      ``forced``. They run on the cache (mode ``incremental``), or with ``recompute`` each over the whole prefix without
      one (mode ``teacher_forced``).

    Raises :class:`DumpError`, also where ``forced`` has fewer than ``decode`` tokens.
    """
    forced = list(forced) if forced is not None else None
    if forced is not None and len(forced) < decode:
        raise DumpError(f"decoding {decode} steps: the teacher's file has only {len(forced)} tokens")
    options["prompt"] = {**prompt.facts, **(options.get("prompt") or {})}
    ids = list(prompt.ids)
    if forced and not decode:
        options["prompt"]["teacher_forced"] = forced
        common: dict[str, Any] = {"step": len(forced), "overwrite": overwrite, **options}
        result = _forward(model, ids + forced, out, say, mode="teacher_forced", **common)
        return [int(result.logits[0, -1].argmax())]
    steps = decode > 0
    common = {"step": 0 if steps else None, "overwrite": overwrite, **options}
    result = _forward(model, ids, out, say, mode="prefill", cache=steps and not recompute, **common)
    tokens = [int(result.logits[0, -1].argmax())]
    for k in range(1, decode + 1):
        ids.append(forced[k - 1] if forced is not None else tokens[-1])
        common["step"] = k
        if recompute:
            result = _forward(model, ids, out, say, mode="teacher_forced", **common)
        else:
            past = cache_of(result)
            result = _forward(model, ids, out, say, mode="incremental", past=past, cache=True, **common)
        tokens.append(int(result.logits[0, -1].argmax()))
    if steps:
        (out / "generated.json").write_text(json.dumps(tokens) + "\n")
    return tokens


def _forward(
    model: Any,
    ids: Sequence[int],
    out: Path,
    say: Say,
    *,
    mode: str,
    step: int | None = None,
    past: Any = None,
    cache: bool = False,
    **options: Any,
) -> Any:
    """Run one forward over ``ids`` (only the last of them where ``past`` holds the others) inside a :class:`Dumper`."""
    feed = [ids[-1]] if past is not None else list(ids)
    dumper = Dumper(model, out, mode=mode, step=step, **options)
    say(f"{mode}{f' step {step}' if step is not None else ''}: {len(feed)} tokens, about {human(dumper.estimate(len(feed)))}")
    began = time.monotonic()
    with torch.no_grad(), dumper:
        result = model(
            input_ids=torch.tensor([feed], device=model.device),
            attention_mask=torch.ones(1, len(ids), dtype=torch.int64, device=model.device),
            use_cache=cache,
            **cache_argument(model, past),
        )
    for path in dumper.paths:
        size = sum(f.stat().st_size for f in path.glob("*.npy"))
        say(f"  wrote {path}: {len(list(path.glob('*.npy')))} files, {human(size)}, {time.monotonic() - began:.1f} s")
    return result


def decode_text(tokenizer: Any, ids: Sequence[int]) -> str:
    """Return the text of ``ids``, or the ids themselves without a tokenizer."""
    text = ""
    if tokenizer is not None:
        with contextlib.suppress(Exception):
            text = str(tokenizer.decode(list(ids)))
    return text or " ".join(map(str, ids))


def options_of(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the :class:`Dumper` options among parsed command-line arguments."""
    keys = ("logits", "layers", "tokens", "storage", "max_bytes", "sub_taps", "blocks")
    out = {k: args[k] for k in keys}
    if args.get("id"):
        out["model_facts"] = {"id": args["id"]}
    return out
