"""The facts of a model that a diagnosis uses, from the ``config.json`` that transformers and others write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Our name of a fact -> the names that configs give it, in order of preference.
KEYS: dict[str, tuple[str, ...]] = {
    "num_layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "hidden_size": ("hidden_size", "n_embd", "d_model"),
    "num_heads": ("num_attention_heads", "n_head", "num_heads"),
    "num_kv_heads": ("num_key_value_heads", "num_kv_heads", "multi_query_group_num"),
    "head_dim": ("head_dim",),
    "intermediate_size": ("intermediate_size", "n_inner", "ffn_dim"),
    "vocab_size": ("vocab_size",),
    "rope_theta": ("rope_theta", "rotary_emb_base"),
    "rope_scaling": ("rope_scaling",),
    "partial_rotary_factor": ("partial_rotary_factor", "rotary_pct"),
    "mrope_section": ("mrope_section",),
    "rms_eps": ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps"),
    "sliding_window": ("sliding_window",),
    "attn_logit_softcapping": ("attn_logit_softcapping",),
    "final_logit_softcapping": ("final_logit_softcapping",),
    "residual_multiplier": ("residual_multiplier",),
    "num_experts": ("num_experts", "num_local_experts", "n_routed_experts"),
    "num_experts_per_tok": ("num_experts_per_tok",),
    "norm_topk_prob": ("norm_topk_prob",),
    "scoring_func": ("scoring_func",),
    "routed_scaling_factor": ("routed_scaling_factor",),
    "tie_word_embeddings": ("tie_word_embeddings",),
    "dtype": ("dtype", "torch_dtype"),
}


def facts(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest's ``model`` facts of a config: those that are there and not null, under our names.

    A multimodal config's ``text_config`` is looked into as well. transformers 5 keeps rotary settings in
    ``rope_parameters``; ``head_dim`` is hidden_size / num_heads where the config does not say, num_kv_heads is num_heads.
    """
    text = config.get("text_config")
    layers = [config, text if isinstance(text, Mapping) else {}]
    rope: Mapping[str, Any] = next((c["rope_parameters"] for c in layers if isinstance(c.get("rope_parameters"), Mapping)), {})
    layers.append(rope)
    out: dict[str, Any] = {}
    if architectures := config.get("architectures"):
        out["class"] = architectures[0]
    for ours, theirs in KEYS.items():
        found = (c[k] for k in theirs for c in layers if c.get(k) is not None)
        value = next(found, None)
        if value is not None:
            out[ours] = str(value).removeprefix("torch.") if ours == "dtype" else value
    if "num_heads" in out:
        out.setdefault("num_kv_heads", out["num_heads"])
        if "hidden_size" in out:
            out.setdefault("head_dim", out["hidden_size"] // out["num_heads"])
    return out
