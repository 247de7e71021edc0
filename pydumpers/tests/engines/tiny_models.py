"""Random models of many architectures, small enough for a test, from configs alone: nothing is fetched."""

import json

import numpy as np
import torch
import transformers as tf

SMALL = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 97, "max_position_embeddings": 64}
GLU = {**SMALL, "intermediate_size": 48, "num_key_value_heads": 2}

# Architecture -> its config. Each stands for a structure that the others do not have.
CONFIGS = {
    "llama": lambda: tf.LlamaConfig(**GLU),  # the plain case, grouped-query attention
    "qwen3": lambda: tf.Qwen3Config(**GLU, head_dim=8),  # norms on q and k
    "gemma2": lambda: tf.Gemma2Config(**GLU, head_dim=8),  # norms after attention and MLP too, soft-capped logits
    "phi3": lambda: tf.Phi3Config(**GLU, pad_token_id=0),  # fused qkv and gate_up
    "gpt2": lambda: tf.GPT2Config(n_embd=32, n_layer=3, n_head=4, vocab_size=97, n_positions=64),  # Conv1D, learned positions
    "opt": lambda: tf.OPTConfig(**SMALL, ffn_dim=48, word_embed_proj_dim=32),  # no MLP module: fc1 and fc2 in the block
    "gpt_neox": lambda: tf.GPTNeoXConfig(  # parallel blocks, qkv head by head, partial rotary
        **SMALL, intermediate_size=48, rope_parameters={"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
    ),
    "falcon": lambda: tf.FalconConfig(**SMALL, new_decoder_architecture=False, multi_query=True),  # one norm feeds both sides
    "phi": lambda: tf.PhiConfig(**SMALL, intermediate_size=48),  # rotary split off outside the function
    "gptj": lambda: tf.GPTJConfig(n_embd=32, n_layer=3, n_head=4, vocab_size=97, n_positions=64, rotary_dim=8),  # interleaved
    "mixtral": lambda: tf.MixtralConfig(**GLU, num_local_experts=4, num_experts_per_tok=2),  # mixture of experts
    "qwen2_moe": lambda: tf.Qwen2MoeConfig(  # ... with a shared expert
        **GLU, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=24
    ),
}


def causal_lm(name: str, dtype: torch.dtype = torch.float32, attn: str = "eager", seed: int = 0):
    """Return a random causal LM in eval mode, its weights spread wide enough that every part matters."""
    config = CONFIGS[name]()
    torch.manual_seed(seed)
    model = tf.AutoModelForCausalLM.from_config(config, attn_implementation=attn, dtype=torch.float32)
    spread(model)
    return model.to(dtype).eval()


def spread(model) -> None:
    """Give every matrix a standard deviation of 1/sqrt(fan-in), and norms weights around 1."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim >= 2:
                p.normal_(0, p.shape[-1] ** -0.5)
            elif "norm" in name or "ln_" in name:
                p.add_(torch.randn_like(p) * 0.2)
            else:
                p.normal_(0, 0.1)


def ids(count: int = 9, batch: int = 1, seed: int = 1) -> torch.Tensor:
    """Return random token ids [batch, count], none of them a special one."""
    return torch.randint(3, 97, (batch, count), generator=torch.Generator().manual_seed(seed))


def read(folder) -> dict[str, np.ndarray]:
    """Return a dump's arrays by name, widened: bfloat16 (two-byte voids) to float32."""
    out = {}
    for t in entries(folder).values():
        a = np.load(folder / t["file"], allow_pickle=False)
        if t["dtype"] == "bfloat16" and a.dtype.kind == "V":
            a = (a.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        out[t["name"]] = a
    return out


def entries(folder) -> dict[str, dict]:
    """Return a complete dump's manifest entries by name, in order."""
    manifest = manifest_of(folder)
    assert manifest["complete"] is True
    return {t["name"]: t for t in manifest["tensors"]}


def manifest_of(folder) -> dict:
    """Return a dump's manifest."""
    return json.loads((folder / "dump.json").read_text())
