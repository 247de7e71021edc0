"""Module paths of many models to checkpoints; and the facts of their configs."""

import pytest

from parity_dump.hf_config import facts
from parity_dump.module_names import execution_order, input_of, output_of, split_path


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("model.layers.3", "layer_03"),
        ("layers.3", "layer_03"),
        ("model.layers.layers.3", "layer_03"),  # MAX's V2 models double the name
        ("language_model.layers.11.self_attn", "layer_11.attn_out"),
        ("transformer.h.0.ln_1", "layer_00.input_norm"),
        ("transformer.h.0.mlp", "layer_00.mlp_out"),
        ("model.layers.7.self_attn.q_proj", "layer_07.q"),
        ("model.layers.7.self_attn.k_norm", "layer_07.k_norm"),
        ("model.layers.7.mlp.gate_proj", "layer_07.mlp_gate"),
        ("model.layers.7.mlp.gate", "layer_07.router_logits"),
        ("model.layers.7.mlp.shared_expert", "layer_07.moe_shared"),
        ("model.layers.7.mlp.experts.3.gate_proj", None),
        ("encoder.layer.2.attention.self.query", "layer_02.q"),
        ("encoder.layer.2.attention.output.dense", "layer_02.attn_out"),
        ("encoder.layer.2.intermediate.dense", "layer_02.mlp_up"),
        ("model.embed_tokens", "post_embed"),
        ("inner.model.embed_tokens", "post_embed"),
        ("model.norm", "post_final_norm"),
        ("transformer.ln_f", "post_final_norm"),
        ("lm_head", "logits"),
        ("model.rotary_emb", None),
        ("model.layers.7.self_attn.rotary_emb", None),
        ("model", None),
        ("", None),
    ],
)
def test_outputs_of_modules(path, expected):
    place = output_of(path)
    assert (place.name if place else None) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("model.embed_tokens", "prompt_tokens"),
        ("model.layers.4.self_attn.o_proj", "layer_04.attn_ctx"),
        ("model.layers.4.mlp.down_proj", "layer_04.mlp_act"),
        ("model.layers.4.post_attention_layernorm", "layer_04.ffn_inp"),
        ("encoder.layer.4.output.dense", "layer_04.mlp_act"),
        ("model.layers.4", None),
        ("lm_head", None),
    ],
)
def test_first_inputs_of_modules(path, expected):
    place = input_of(path)
    assert (place.name if place else None) == expected


@pytest.mark.parametrize(
    ("better", "worse", "why"),
    [
        ("layers.0.self_attn", "layers.0.self_attn.o_proj", "a bias or a gate may follow the projection inside the block"),
        ("layers.0.mlp", "layers.0.mlp.down_proj", "the same for the MLP"),
        ("layer.0.attention.output.dense", "layer.0.attention", "BERT's attention block ends with a norm"),
        ("layers.0.pre_feedforward_layernorm", "layers.0.post_attention_layernorm", "Gemma's sandwich norms"),
        ("model.norm", "vision_tower.norm", "a tower's norm is not the model's"),
        ("embed_tokens", "audio.embed_tokens", "nor is its embedding"),
    ],
)
def test_of_two_modules_with_one_checkpoint_the_right_one_wins(better, worse, why):
    a, b = output_of(better), output_of(worse)
    assert a.name == b.name and a.rank < b.rank, why


def test_a_path_is_split_at_its_layer():
    assert split_path("a.b.layers.12.self_attn.q_proj") == (12, "self_attn.q_proj")
    assert split_path("model.norm") == (None, "norm")


def test_what_follows_a_layers_sub_taps_is_its_output():
    names = ["layer_02", "layer_02.mlp_out", "layer_02.unknown", "layer_10.q", "layer_02.input_norm", "post_embed"]
    assert sorted(names, key=execution_order) == [
        "post_embed", "layer_02.input_norm", "layer_02.mlp_out", "layer_02.unknown", "layer_02", "layer_10.q",
    ]  # fmt: skip


def test_facts_go_by_our_names_whatever_the_config_calls_them():
    assert facts({"n_layer": 12, "n_embd": 768, "n_head": 12, "layer_norm_epsilon": 1e-5, "vocab_size": 50257}) == {
        "num_layers": 12, "hidden_size": 768, "num_heads": 12, "num_kv_heads": 12, "head_dim": 64, "rms_eps": 1e-5,
        "vocab_size": 50257,
    }  # fmt: skip


def test_facts_look_into_text_configs_and_rope_parameters_and_leave_out_what_is_null():
    config = {
        "architectures": ["SomethingForConditionalGeneration"],
        "text_config": {"num_hidden_layers": 2, "sliding_window": None, "rope_parameters": {"rope_theta": 5e5}},
        "torch_dtype": "torch.bfloat16",
    }
    assert facts(config) == {
        "class": "SomethingForConditionalGeneration", "num_layers": 2, "rope_theta": 5e5, "dtype": "bfloat16",
    }  # fmt: skip
