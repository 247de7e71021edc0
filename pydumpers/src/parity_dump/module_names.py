"""From an engine's own name of a module to the checkpoint that its output or input is.

Engines that keep a Hugging Face model's module tree (MAX, an ONNX export, vLLM, SGLang) name places by path:
``model.layers.3.self_attn.q_proj``. Two tables say what the output and the first input of such a module are; a path that
no row knows has no checkpoint. Prefixes (``model.``, ``language_model.``, ``transformer.``) and the doubled
``layers.layers`` of MAX's V2 models do not matter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from .names import SUB_TAPS, layer_name, split_layer


class Row(NamedTuple):
    """A pattern for the path below a layer (or below the model), and the checkpoint that it stands for.

    ``rank`` settles which of two modules with the same checkpoint is kept: the lower one (an attention block rather than
    its output projection, whose output is the same tensor wherever the block does nothing after it).
    """

    pattern: str
    tap: str
    rank: int = 0


_ATTN = r"(?:self_attn|self_attention|attention|attn|attention\.self|attn\.self)"
_MLP = r"(?:mlp|feed_forward|ffn|block_sparse_moe|moe)"

# Below a decoder or encoder layer.
LAYER_OUTPUTS: tuple[Row, ...] = (
    Row(r"input_layernorm|attention_norm|attn_norm|ln_1|ln1|norm1|self_attn_layer_norm", "input_norm"),
    Row(rf"{_ATTN}\.(?:q_proj|wq|query|to_q)", "q"),
    Row(rf"{_ATTN}\.(?:k_proj|wk|key|to_k)", "k"),
    Row(rf"{_ATTN}\.(?:v_proj|wv|value|to_v)", "v"),
    Row(rf"{_ATTN}\.(?:q_norm|q_layernorm)", "q_norm"),
    Row(rf"{_ATTN}\.(?:k_norm|k_layernorm)", "k_norm"),
    Row(r"self_attn|self_attention|attention|attn", "attn_out"),
    Row(rf"{_ATTN}\.(?:o_proj|wo|out_proj|c_proj|dense)", "attn_out", 1),
    # BERT: the block called "attention" ends with a norm; what it adds to the stream comes from the projection.
    Row(r"attention\.output\.dense", "attn_out", -1),
    Row(r"post_attention_layernorm|ffn_norm|ln_2|ln2|norm2|attention\.output\.LayerNorm", "post_attn_norm"),
    # Sandwich norms (Gemma): "post_attention_layernorm" norms the attention's output, this one feeds the MLP.
    Row(r"pre_feedforward_layernorm", "post_attn_norm", -1),
    Row(rf"{_MLP}\.(?:gate_proj|w1)", "mlp_gate"),
    Row(rf"{_MLP}\.(?:up_proj|w3|c_fc|fc1)|intermediate\.dense", "mlp_up"),
    Row(r"mlp|feed_forward|ffn|block_sparse_moe|moe", "mlp_out"),
    Row(rf"{_MLP}\.(?:down_proj|w2|c_proj|fc2)|output\.dense", "mlp_out", 1),
    Row(rf"{_MLP}\.(?:gate|router)", "router_logits"),
    Row(rf"{_MLP}\.(?:shared_expert|shared_experts)", "moe_shared"),
)
LAYER_INPUTS: tuple[Row, ...] = (
    Row(rf"{_ATTN}\.(?:o_proj|wo|out_proj|c_proj|dense)|attention\.output\.dense", "attn_ctx"),
    Row(r"post_attention_layernorm|ffn_norm|ln_2|ln2|norm2|attention\.output\.LayerNorm", "ffn_inp"),
    Row(r"pre_feedforward_layernorm", "ffn_inp", -1),
    Row(rf"{_MLP}\.(?:down_proj|w2|c_proj|fc2)|output\.dense", "mlp_act"),
)
# Below the model itself.
MODEL_OUTPUTS: tuple[Row, ...] = (
    Row(r"embed_tokens|wte|tok_embeddings|word_embeddings|embeddings|embedding|embed", "post_embed"),
    Row(r"norm|ln_f|final_norm|final_layernorm|final_layer_norm", "post_final_norm"),
    Row(r"lm_head|output|embed_out", "logits"),
)
MODEL_INPUTS: tuple[Row, ...] = (Row(r"embed_tokens|wte|tok_embeddings|word_embeddings|embedding|embed", "prompt_tokens"),)

_LAYER = re.compile(r"^(?:.*\.)?(?:layers|layer|blocks|h)\.(\d+)(?:\.(.+))?$")
_PREFIX = re.compile(r"^(?:(?:model|language_model|transformer|encoder|decoder|backbone|bert|gpt_neox)\.)+")


class Place(NamedTuple):
    """A checkpoint's name and the rank of the row that gave it (lower is better)."""

    name: str
    rank: int


def split_path(path: str) -> tuple[int | None, str]:
    """Return ``(layer index, path below it)``; ``(None, path without prefixes)`` outside the layers.

    ``model.layers.3.mlp`` gives ``(3, "mlp")``, a layer itself ``(3, "")``, ``model.norm`` gives ``(None, "norm")``.
    """
    m = _LAYER.match(path)
    if m:
        return int(m.group(1)), m.group(2) or ""
    return None, _PREFIX.sub("", path)


def _find(rows: Sequence[Row], rest: str) -> Row | None:
    return next((r for r in rows if re.fullmatch(r.pattern, rest)), None)


def output_of(path: str) -> Place | None:
    """Return the checkpoint that the output of the module at ``path`` is, or None where no row knows it."""
    index, rest = split_path(path)
    if index is not None:
        if not rest:
            return Place(layer_name(index), 0)
        row = _find(LAYER_OUTPUTS, rest)
        return Place(layer_name(index, row.tap), row.rank) if row else None
    return _below_the_model(MODEL_OUTPUTS, rest)


def input_of(path: str) -> Place | None:
    """Return the checkpoint that the first input of the module at ``path`` is, or None where no row knows it."""
    index, rest = split_path(path)
    if index is None:
        return _below_the_model(MODEL_INPUTS, rest)
    row = _find(LAYER_INPUTS, rest)
    return Place(layer_name(index, row.tap), row.rank) if row else None


def _below_the_model(rows: Sequence[Row], rest: str) -> Place | None:
    """Look ``rest`` up, then without its leading names, each of which (a wrapper, a tower) makes it a worse candidate."""
    dropped = 0
    while rest:
        row = _find(rows, rest)
        if row is not None:
            return Place(row.tap, row.rank + 10 * dropped)
        rest, dropped = rest.partition(".")[2], dropped + 1
    return None


# Where checkpoints outside the layers stand; the layers are 4.
MODEL_ORDER = {
    "prompt_tokens": 0, "position_ids": 1, "attention_mask": 2, "post_embed": 3,
    "post_final_norm": 5, "logits": 6, "last_logits": 7,
}  # fmt: skip
_SUB_ORDER = {name: i for i, name in enumerate(SUB_TAPS)}


def execution_order(name: str) -> tuple[int, int, int, str]:
    """Return a sort key that puts checkpoints in execution order; names that are not standard come last, by text.

    For sources that have no order of their own: a folder of files, a graph's outputs.
    """
    index, tap = split_layer(name)
    if index is not None:
        known = _SUB_ORDER.get(tap.partition(".call_")[0], len(_SUB_ORDER)) if tap else len(_SUB_ORDER) + 1
        return (4, index, known, name)
    return (MODEL_ORDER.get(name.partition(".call_")[0], 8), 0, 0, name)
