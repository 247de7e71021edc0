"""Sub-taps of many architectures: each is where it should be, shown by the arithmetic that connects it with the others.

The relations are worked out here in numpy float64 from the weights; the model's own hidden states and attentions are the
second witness.
"""

import numpy as np
import pytest
import torch
from tiny_models import CONFIGS, causal_lm, entries, ids, manifest_of, read

from parity_dump.torch import Dumper

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    """Dump an architecture once; return (model, output, arrays, entries)."""
    done = {}

    def get(name):
        if name not in done:
            model = causal_lm(name)
            out = tmp_path_factory.mktemp(name)
            with torch.no_grad(), Dumper(model, out, logits="all", overwrite=True):
                result = model(input_ids=ids(), output_hidden_states=True, output_attentions=True, use_cache=False)
            done[name] = (model, result, read(out), entries(out))
        return done[name]

    return get


def layer(arrays, i, tap=None):
    return arrays[f"layer_{i:02d}" + (f".{tap}" if tap else "")].astype(np.float64)


def previous(arrays, i):
    return layer(arrays, i - 1) if i else arrays["post_embed"].astype(np.float64)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_residual_stream_is_transformers_own(dumps, name):
    _, result, arrays, _ = dumps(name)
    hs = [h[0].numpy() for h in result.hidden_states]
    np.testing.assert_array_equal(arrays["post_embed"], hs[0])
    for i in (0, 1):
        np.testing.assert_array_equal(arrays[f"layer_{i:02d}"], hs[i + 1])
    assert not np.array_equal(arrays["layer_02"], hs[3]), "transformers' last entry is after the final norm"
    np.testing.assert_array_equal(arrays["post_final_norm"], hs[3])
    np.testing.assert_array_equal(arrays["logits"], result.logits[0].numpy())
    np.testing.assert_array_equal(arrays["last_logits"], result.logits[0, -1].numpy())
    assert arrays["prompt_tokens"].tolist() == ids()[0].tolist()


@pytest.mark.parametrize("name", CONFIGS)
def test_attention_probabilities_are_transformers_own(dumps, name):
    _, result, arrays, _ = dumps(name)
    for i in range(3):
        np.testing.assert_array_equal(arrays[f"layer_{i:02d}.attn_probs"], result.attentions[i][0].numpy())


@pytest.mark.parametrize("name", CONFIGS)
def test_context_is_probabilities_times_values(dumps, name):
    _, _, arrays, _ = dumps(name)
    for i in range(3):
        probs = layer(arrays, i, "attn_probs")  # [heads, T, T]
        heads = probs.shape[0]
        v = layer(arrays, i, "v").reshape(9, -1, layer(arrays, i, "attn_ctx").shape[-1] // heads)
        v = np.repeat(v, heads // v.shape[1], axis=1)
        want = np.einsum("hts,shd->thd", probs, v).reshape(9, -1)
        np.testing.assert_allclose(layer(arrays, i, "attn_ctx"), want, **CLOSE)


# What scores are divided by: 1/sqrt(head_dim) unless the config says otherwise.
SCALE = {"gemma2": 256**-0.5}
ROTARY = [n for n in CONFIGS if n not in ("gpt2", "opt")]


@pytest.mark.parametrize("name", ROTARY)
def test_probabilities_are_the_softmax_of_rotated_q_and_k(dumps, name):
    """Shows that q_rope and k_rope are the very tensors that are multiplied, whole heads included."""
    model, _, arrays, table = dumps(name)
    for i in range(3):
        q, k = layer(arrays, i, "q_rope"), layer(arrays, i, "k_rope")
        k = np.repeat(k, q.shape[1] // k.shape[1], axis=1)
        scores = np.einsum("thd,shd->hts", q, k) * SCALE.get(name, q.shape[-1] ** -0.5)
        if cap := getattr(model.config, "attn_logit_softcapping", None):
            scores = np.tanh(scores / cap) * cap
        scores[:, np.triu(np.ones((9, 9), bool), 1)] = -np.inf
        want = np.exp(scores - scores.max(-1, keepdims=True))
        want /= want.sum(-1, keepdims=True)
        np.testing.assert_allclose(layer(arrays, i, "attn_probs"), want, **CLOSE)
        columns = table[f"layer_{i:02d}.q_rope"]["columns"]
        assert columns == ("interleaved" if name == "gptj" else "half_split")
        assert table[f"layer_{i:02d}.q"]["columns"] == columns


@pytest.mark.parametrize("name", ROTARY)
def test_position_0_is_not_rotated(dumps, name):
    _, _, arrays, _ = dumps(name)
    for which in "qk":
        tap = f"{which}_norm" if f"layer_01.{which}_norm" in arrays else which
        np.testing.assert_allclose(
            layer(arrays, 1, f"{which}_rope")[0].ravel(), layer(arrays, 1, tap)[0].ravel(), **CLOSE
        )  # fmt: skip
        turned = layer(arrays, 1, f"{which}_rope")[5].ravel()
        assert not np.allclose(turned, layer(arrays, 1, tap)[5].ravel(), atol=1e-2)


SEQUENTIAL = ["llama", "qwen3", "phi3", "gpt2", "opt", "mixtral", "qwen2_moe"]
PARALLEL = ["gpt_neox", "falcon", "phi", "gptj"]


@pytest.mark.parametrize("name", SEQUENTIAL)
def test_a_sequential_block_adds_attention_then_mlp(dumps, name):
    _, _, arrays, _ = dumps(name)
    for i in range(3):
        middle = previous(arrays, i) + layer(arrays, i, "attn_out")
        np.testing.assert_allclose(layer(arrays, i, "ffn_inp"), middle, **CLOSE)
        np.testing.assert_allclose(layer(arrays, i), middle + layer(arrays, i, "mlp_out"), **CLOSE)


@pytest.mark.parametrize("name", PARALLEL)
def test_a_parallel_block_adds_both_at_once_and_says_so(dumps, name):
    _, _, arrays, table = dumps(name)
    for i in range(3):
        want = previous(arrays, i) + layer(arrays, i, "attn_out") + layer(arrays, i, "mlp_out")
        np.testing.assert_allclose(layer(arrays, i), want, **CLOSE)
        assert f"layer_{i:02d}.ffn_inp" not in arrays, "there is no stream between attention and MLP"
        if name == "gpt_neox":  # a norm of its own, on the block's input
            assert table[f"layer_{i:02d}.post_attn_norm"]["inputs"] == [f"layer_{i - 1:02d}" if i else "post_embed"]
        else:
            assert table[f"layer_{i:02d}.mlp_up"]["inputs"] == [f"layer_{i:02d}.input_norm"]


def test_gemma2_norms_what_it_adds(dumps):
    _, _, arrays, _ = dumps("gemma2")
    for i in range(3):
        middle = previous(arrays, i) + layer(arrays, i, "post_attention_layernorm")
        np.testing.assert_allclose(layer(arrays, i, "ffn_inp"), middle, **CLOSE)
        np.testing.assert_allclose(layer(arrays, i), middle + layer(arrays, i, "post_feedforward_layernorm"), **CLOSE)
        rms = np.sqrt((layer(arrays, i, "ffn_inp") ** 2).mean(-1, keepdims=True) + 1e-6)
        weight = dumps("gemma2")[0].model.layers[i].pre_feedforward_layernorm.weight.detach().double().numpy()
        np.testing.assert_allclose(
            layer(arrays, i, "post_attn_norm"), layer(arrays, i, "ffn_inp") / rms * (1 + weight), **CLOSE
        )


@pytest.mark.parametrize("name", ["llama", "qwen3", "phi3"])
def test_projections_follow_from_the_weights(dumps, name):
    model, _, arrays, _ = dumps(name)
    for i, block in enumerate(model.model.layers):
        w = {n: p.detach().double().numpy() for n, p in block.named_parameters()}
        x = previous(arrays, i)
        normed = x / np.sqrt((x**2).mean(-1, keepdims=True) + model.config.rms_norm_eps) * w["input_layernorm.weight"]
        np.testing.assert_allclose(layer(arrays, i, "input_norm"), normed, **CLOSE)
        if name == "phi3":
            q, k, v = np.split(w["self_attn.qkv_proj.weight"], [32, 48])
            gate, up = np.split(w["mlp.gate_up_proj.weight"], 2)
        else:
            q, k, v = (w[f"self_attn.{n}_proj.weight"] for n in "qkv")
            gate, up = w["mlp.gate_proj.weight"], w["mlp.up_proj.weight"]
        for tap, m in (("q", q), ("k", k), ("v", v)):
            np.testing.assert_allclose(layer(arrays, i, tap), normed @ m.T, **CLOSE)
        np.testing.assert_allclose(
            layer(arrays, i, "attn_out"), layer(arrays, i, "attn_ctx") @ w["self_attn.o_proj.weight"].T, **CLOSE
        )
        y = layer(arrays, i, "post_attn_norm")
        g, u = y @ gate.T, y @ up.T
        np.testing.assert_allclose(layer(arrays, i, "mlp_gate"), g, **CLOSE)
        np.testing.assert_allclose(layer(arrays, i, "mlp_up"), u, **CLOSE)
        np.testing.assert_allclose(layer(arrays, i, "mlp_act"), g / (1 + np.exp(-g)) * u, **CLOSE)
        np.testing.assert_allclose(
            layer(arrays, i, "mlp_out"), layer(arrays, i, "mlp_act") @ w["mlp.down_proj.weight"].T, **CLOSE
        )


@pytest.mark.parametrize("name", ["gpt_neox", "falcon", "gpt2"])
def test_fused_projections_are_split_as_the_model_splits_them(dumps, name):
    """Head by head for GPT-NeoX, group by group for Falcon, in three parts for GPT-2; checked through the scores."""
    _, _, arrays, _ = dumps(name)
    assert layer(arrays, 0, "q").shape == (9, 32)
    assert layer(arrays, 0, "k").shape == layer(arrays, 0, "v").shape == (9, 8 if name == "falcon" else 32)
    if name == "gpt2":  # no rotation: the scores are those of q and k themselves
        q, k = (layer(arrays, 0, t).reshape(9, 4, 8) for t in "qk")
        scores = np.einsum("thd,shd->hts", q, k) * 8**-0.5
        scores[:, np.triu(np.ones((9, 9), bool), 1)] = -np.inf
        want = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
        np.testing.assert_allclose(layer(arrays, 0, "attn_probs"), want, **CLOSE)


def test_qwen3_norms_its_heads(dumps):
    model, _, arrays, _ = dumps("qwen3")
    for which, heads in (("q", 4), ("k", 2)):
        x = layer(arrays, 1, which).reshape(9, heads, 8)
        weight = getattr(model.model.layers[1].self_attn, f"{which}_norm").weight.detach().double().numpy()
        want = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * weight
        np.testing.assert_allclose(layer(arrays, 1, f"{which}_norm"), want, **CLOSE)


@pytest.mark.parametrize("name", ["mixtral", "qwen2_moe"])
def test_experts_are_chosen_by_their_logits_and_summed(dumps, name):
    model, _, arrays, _ = dumps(name)
    for i, block in enumerate(model.model.layers):
        router = block.mlp.gate.weight.detach().double().numpy()
        logits = layer(arrays, i, "post_attn_norm") @ router.T
        np.testing.assert_allclose(layer(arrays, i, "router_logits"), logits, **CLOSE)
        chosen = arrays[f"layer_{i:02d}.expert_ids"]
        assert chosen.shape == (9, 2) and chosen.dtype.kind == "i"
        want = np.sort(np.argsort(-logits, axis=1)[:, :2], axis=1)
        np.testing.assert_array_equal(np.sort(chosen, axis=1), want)
        p = np.exp(logits - logits.max(1, keepdims=True))
        p = np.take_along_axis(p / p.sum(1, keepdims=True), chosen, 1)
        if model.config.model_type == "mixtral" or model.config.norm_topk_prob:
            p = p / p.sum(1, keepdims=True)
        np.testing.assert_allclose(layer(arrays, i, "expert_weights"), p, **CLOSE)
        total = layer(arrays, i, "moe_routed")
        if name == "qwen2_moe":
            gate = block.mlp.shared_expert_gate.weight.detach().double().numpy()
            total = total + layer(arrays, i, "moe_shared") / (1 + np.exp(-layer(arrays, i, "post_attn_norm") @ gate.T))
        np.testing.assert_allclose(layer(arrays, i, "mlp_out"), total, **CLOSE)
        assert "layer_00.mlp_gate" not in arrays, "an expert's own projections are no taps of the block"


def test_an_encoder_of_the_bert_kind(tmp_path):
    import transformers as tf
    from tiny_models import SMALL, spread

    torch.manual_seed(0)
    model = tf.BertModel._from_config(tf.BertConfig(**SMALL, intermediate_size=48), attn_implementation="eager").eval()
    spread(model)
    with torch.no_grad(), Dumper(model, tmp_path):
        result = model(input_ids=ids(), output_hidden_states=True, output_attentions=True)
    arrays, table = read(tmp_path), entries(tmp_path)
    for i in range(3):
        np.testing.assert_array_equal(arrays[f"layer_{i:02d}"], result.hidden_states[i + 1][0].numpy())
        np.testing.assert_array_equal(arrays[f"layer_{i:02d}.attn_probs"], result.attentions[i][0].numpy())
        w = {n: p.detach().double().numpy() for n, p in model.encoder.layer[i].named_parameters()}
        x = previous(arrays, i)
        q = x @ w["attention.self.query.weight"].T + w["attention.self.query.bias"]
        np.testing.assert_allclose(layer(arrays, i, "q"), q, **CLOSE)
        middle = x + layer(arrays, i, "attn_out")
        np.testing.assert_allclose(layer(arrays, i, "ffn_inp"), middle, **CLOSE)
        np.testing.assert_allclose(
            layer(arrays, i, "mlp_up"),
            layer(arrays, i, "post_attn_norm") @ w["intermediate.dense.weight"].T + w["intermediate.dense.bias"], **CLOSE,
        )  # fmt: skip
        np.testing.assert_allclose(
            layer(arrays, i, "mlp_out"),
            layer(arrays, i, "mlp_act") @ w["output.dense.weight"].T + w["output.dense.bias"], **CLOSE,
        )  # fmt: skip
    assert "layer_00.input_norm" not in arrays, "a post-norm block has no norm before its attention"
    assert "post_final_norm" not in table and "last_logits" not in table
    np.testing.assert_array_equal(arrays["pooler_output"], result.pooler_output[0].numpy())


def test_one_block_that_runs_three_times_is_three_layers(tmp_path):
    import transformers as tf
    from tiny_models import SMALL, spread

    torch.manual_seed(0)
    config = tf.AlbertConfig(**SMALL, intermediate_size=48, embedding_size=16)
    model = tf.AlbertModel._from_config(config, attn_implementation="eager").eval()
    spread(model)
    with torch.no_grad(), Dumper(model, tmp_path):
        result = model(input_ids=ids(), output_hidden_states=True)
    arrays, table = read(tmp_path), entries(tmp_path)
    for i in range(3):
        np.testing.assert_array_equal(arrays[f"layer_{i:02d}"], result.hidden_states[i + 1][0].numpy())
        assert table[f"layer_{i:02d}"]["calls"] == 1


def test_facts_come_from_the_config(dumps, tmp_path):
    model = causal_lm("mixtral", torch.bfloat16)
    with torch.no_grad(), Dumper(model, tmp_path, model_facts={"id": "tiny"}):
        model(input_ids=ids())
    m = manifest_of(tmp_path)
    want = {"id": "tiny", "class": "MixtralForCausalLM", "dtype": "bfloat16", "num_layers": 3, "hidden_size": 32,
            "num_heads": 4,
            "num_kv_heads": 2, "head_dim": 8, "intermediate_size": 48, "vocab_size": 97, "num_experts": 4,
            "num_experts_per_tok": 2}  # fmt: skip
    assert {k: m["model"][k] for k in want} == want
    assert m["framework"]["name"] == "torch" and m["framework"]["device"] == "cpu"
    assert m["framework"]["attention"] == "eager" and m["framework"]["matmul_precision"] == "highest"
