"""The hooks for vLLM and SGLang on stand-ins: torch modules with the engines' signatures, their pairs and in-place norms.

The real engines need a GPU. What is copied here from them are the signatures, what their layers return, and that the fused
norm adds in place; the arithmetic beside is worked out again in the tests.
"""

import json

import numpy as np
import pytest
import torch
from engine_support import manifest, tensors
from torch import nn

from parity_dump import sglang, vllm
from parity_dump.errors import DumpError, DumpExistsError, DumpTooLargeError
from parity_dump.serving_hooks import ServingDumper

HIDDEN, HEADS, KV, HEAD_DIM, MLP, VOCAB, LAYERS = 16, 4, 2, 4, 24, 32, 3


class FusedNorm(nn.Module):
    """RMSNorm as both engines have it: with a residual it adds *in place* and returns (normed, residual)."""

    def __init__(self, dtype):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, HIDDEN, dtype=dtype))

    def norm(self, x):
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * self.weight

    def forward(self, x, residual=None):
        if residual is None:
            return self.norm(x)
        residual.add_(x)
        x.copy_(self.norm(residual))
        return x, residual


class Parallel(nn.Module):
    """A parallel linear layer: returns (output, bias)."""

    def __init__(self, width_in, width_out, dtype):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width_out, width_in, dtype=dtype) / width_in**0.5)

    def forward(self, x):
        return x @ self.weight.T, None


class Rotary(nn.Module):
    """Rotates q and k by position: called rotary_emb(positions, q, k)."""

    def forward(self, positions, q, k):
        return q * torch.cos(positions)[:, None].to(q.dtype), k * torch.cos(positions)[:, None].to(k.dtype)


class Backend(nn.Module):
    """Stands for the attention kernel: called attn(q, k, v) (SGLang adds the forward batch)."""

    def forward(self, q, k, v, *_):
        return q + v.repeat(1, HEADS // KV)


class SiluAndMul(nn.Module):
    """silu(gate) * up of one [T, 2 * intermediate] tensor."""

    def forward(self, x):
        gate, up = x.chunk(2, -1)
        return nn.functional.silu(gate) * up


class Attention(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.q_size, self.kv_size = HEADS * HEAD_DIM, KV * HEAD_DIM
        self.qkv_proj = Parallel(HIDDEN, self.q_size + 2 * self.kv_size, dtype)
        self.rotary_emb, self.attn = Rotary(), Backend()
        self.o_proj = Parallel(HEADS * HEAD_DIM, HIDDEN, dtype)

    def forward(self, positions, hidden_states, *batch):
        q, k, v = self.qkv_proj(hidden_states)[0].split([self.q_size, self.kv_size, self.kv_size], -1)
        q, k = self.rotary_emb(positions, q, k)
        return self.o_proj(self.attn(q, k, v, *batch))[0]


class Mlp(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.gate_up_proj, self.act_fn = Parallel(HIDDEN, 2 * MLP, dtype), SiluAndMul()
        self.down_proj = Parallel(MLP, HIDDEN, dtype)

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_up_proj(x)[0]))[0]


class DecoderLayer(nn.Module):
    """vLLM: forward(positions, hidden_states, residual) -> (hidden_states, residual)."""

    def __init__(self, dtype):
        super().__init__()
        self.self_attn, self.mlp = Attention(dtype), Mlp(dtype)
        self.input_layernorm, self.post_attention_layernorm = FusedNorm(dtype), FusedNorm(dtype)

    def run(self, positions, hidden_states, residual, *batch):
        if residual is None:
            residual = hidden_states.clone()
            hidden_states = self.input_layernorm(hidden_states)
        else:
            hidden_states, residual = self.input_layernorm(hidden_states, residual)
        hidden_states = self.self_attn(positions, hidden_states, *batch)
        hidden_states, residual = self.post_attention_layernorm(hidden_states, residual)
        return self.mlp(hidden_states), residual

    def forward(self, positions, hidden_states, residual):
        return self.run(positions, hidden_states, residual)


class SglangDecoderLayer(DecoderLayer):
    """SGLang: forward(positions, hidden_states, forward_batch, residual)."""

    def forward(self, positions, hidden_states, forward_batch, residual):
        return self.run(positions, hidden_states, residual, forward_batch)


class Decoder(nn.Module):
    def __init__(self, layer, dtype):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCAB, HIDDEN, dtype=dtype)
        self.layers = nn.ModuleList(layer(dtype) for _ in range(LAYERS))
        self.norm = FusedNorm(dtype)

    def forward(self, input_ids, positions, *batch):
        hidden, residual = self.embed_tokens(input_ids), None
        for one in self.layers:
            hidden, residual = one(positions, hidden, *batch, residual)
        return self.norm(hidden, residual)[0]


class Output:
    """What SGLang's logits processor returns."""

    def __init__(self, logits):
        self.next_token_logits = logits


class LogitsProcessor(nn.Module):
    def __init__(self, wrap):
        super().__init__()
        self.wrap = wrap

    def forward(self, weight, hidden):
        return self.wrap(hidden[-1:] @ weight.T)


class Config:
    def to_dict(self):
        return {"num_hidden_layers": LAYERS, "hidden_size": HIDDEN, "num_attention_heads": HEADS, "vocab_size": VOCAB}


class Model(nn.Module):
    """A causal LM as an engine holds it."""

    def __init__(self, layer, wrap, dtype):
        super().__init__()
        torch.manual_seed(0)
        self.model = Decoder(layer, dtype)
        self.logits_processor = LogitsProcessor(wrap)
        self.config = Config()

    def forward(self, input_ids, positions, *batch):
        hidden = self.model(input_ids, positions, *batch)
        return self.logits_processor(self.model.embed_tokens.weight, hidden)


def a_model(engine, dtype=torch.float32):
    model = Model(DecoderLayer, lambda x: x, dtype) if engine == "vllm" else Model(SglangDecoderLayer, Output, dtype)
    return model.requires_grad_(False)


def run(model, engine, ids):
    batch = ["forward batch"] if engine == "sglang" else []
    return model(torch.tensor(ids), torch.arange(len(ids)), *batch)


def residual_stream(model, ids):
    """Return the residual stream after each layer, without any fused norm: x + attention, x + MLP."""
    x, out = model.model.embed_tokens(torch.tensor(ids)), []
    positions = torch.arange(len(ids))
    for layer in model.model.layers:
        x = x + layer.self_attn(positions, layer.input_layernorm.norm(x))
        x = x + layer.mlp(layer.post_attention_layernorm.norm(x))
        out.append(x.float().numpy())
    return out


IDS = [3, 1, 4, 1, 5]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_sum_of_hidden_and_residual_is_the_residual_stream(tmp_path, engine):
    model = a_model(engine)
    expected = residual_stream(model, IDS)
    install = {"vllm": vllm.install, "sglang": sglang.install}[engine]
    dumper = install(model, tmp_path / "port")
    run(model, engine, IDS)
    (vllm.uninstall(model) if engine == "vllm" else dumper.close())
    got = tensors(tmp_path / "port" / "step_0000")
    for i, x in enumerate(expected):
        np.testing.assert_allclose(got[f"layer_{i:02d}"], x, rtol=2e-6, atol=2e-6)
        np.testing.assert_array_equal(got[f"layer_{i:02d}.hidden"] + got[f"layer_{i:02d}.residual"], got[f"layer_{i:02d}"])
        assert np.abs(got[f"layer_{i:02d}.residual"] - x).max() > 0.1, "a half alone is something else"
    np.testing.assert_array_equal(got["prompt_tokens"], IDS)
    np.testing.assert_array_equal(got["position_ids"], np.arange(5))
    norm = model.model.norm.norm(torch.tensor(expected[-1])).numpy()
    np.testing.assert_allclose(got["post_final_norm"], norm, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(got["last_logits"], norm[-1] @ model.model.embed_tokens.weight.numpy().T, rtol=1e-4, atol=1e-4)


def test_sub_taps_are_split_out_of_fused_projections(tmp_path):
    model = a_model("vllm")
    vllm.install(model, tmp_path)
    run(model, "vllm", IDS)
    vllm.uninstall(model)
    got = tensors(tmp_path / "step_0000")
    assert got["layer_01.q"].shape == (5, 16) and got["layer_01.k"].shape == got["layer_01.v"].shape == (5, 8)
    attention = model.model.layers[1].self_attn
    normed = torch.tensor(got["layer_01.input_norm"])
    np.testing.assert_allclose(got["layer_01.v"], (normed @ attention.qkv_proj.weight.T)[:, -8:].numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got["layer_01.q_rope"], got["layer_01.q"] * np.cos(np.arange(5))[:, None], rtol=1e-5, atol=1e-6)
    out = torch.tensor(got["layer_01.attn_ctx"]) @ attention.o_proj.weight.T
    np.testing.assert_allclose(got["layer_01.attn_out"], out.numpy(), rtol=1e-5, atol=1e-6)
    silu = got["layer_01.mlp_gate"] / (1 + np.exp(-got["layer_01.mlp_gate"]))
    np.testing.assert_allclose(got["layer_01.mlp_act"], silu * got["layer_01.mlp_up"], rtol=1e-5, atol=1e-6)
    assert {"layer_01.post_attn_norm", "layer_01.mlp_out", "post_embed"} <= got.keys()


def test_hooks_do_not_change_what_the_model_computes(tmp_path):
    model = a_model("vllm")
    plain = run(model, "vllm", IDS)
    vllm.install(model, tmp_path)
    assert torch.equal(run(model, "vllm", IDS), plain)
    vllm.uninstall(model)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_bfloat16_halves_are_summed_as_the_fused_norm_does_and_keep_their_dtype(tmp_path):
    model = a_model("vllm", torch.bfloat16)
    vllm.install(model, tmp_path)
    run(model, "vllm", IDS)
    vllm.uninstall(model)
    entry = {t["name"]: t for t in manifest(tmp_path / "step_0000")["tensors"]}["layer_00"]
    assert entry["dtype"] == "bfloat16"

    def load(name):
        raw = np.load(tmp_path / "step_0000" / f"{name}.npy").view(np.uint16)
        return (raw.astype(np.uint32) << 16).view(np.float32)

    total = torch.tensor(load("layer_00.hidden") + load("layer_00.residual")).bfloat16().float().numpy()
    np.testing.assert_array_equal(load("layer_00"), total)


def test_each_forward_is_a_step_and_steps_can_be_limited(tmp_path):
    model = a_model("vllm")
    vllm.install(model, tmp_path, steps=2)
    for ids in (IDS, [9], [2], [6]):
        run(model, "vllm", ids)
    assert vllm.uninstall(model) == 4
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step_0000", "step_0001"]
    np.testing.assert_array_equal(tensors(tmp_path / "step_0001")["prompt_tokens"], [9])


def test_each_rank_has_its_folder_and_says_what_its_parts_are(tmp_path):
    for rank in (0, 1):
        model = a_model("vllm")
        vllm.install(model, tmp_path, rank=rank, world=2)
        run(model, "vllm", IDS)
        vllm.uninstall(model)
    for rank in (0, 1):
        m = manifest(tmp_path / "step_0000" / f"rank_{rank:02d}")
        entries = {t["name"]: t for t in m["tensors"]}
        assert m["rank"]["index"] == rank and m["rank"]["tp"] == [rank, 2]
        assert entries["layer_00.q"]["shard"] == {"index": rank, "count": 2, "kind": "concat", "axis": "hidden"}
        assert entries["layer_00.mlp_act"]["shard"]["axis"] == "intermediate"
        assert entries["layer_00"]["shard"]["kind"] == "replica"


def test_a_layer_of_another_pipeline_stage_is_left_out(tmp_path):
    model = a_model("vllm")

    class PPMissingLayer(nn.Identity):
        def forward(self, positions, hidden, residual):
            return hidden, residual if residual is not None else torch.zeros_like(hidden)

    model.model.layers[0] = PPMissingLayer()
    vllm.install(model, tmp_path)
    with pytest.warns(UserWarning, match="no output of layer 0"):
        run(model, "vllm", IDS)
    vllm.uninstall(model)
    got = tensors(tmp_path / "step_0000")
    assert "layer_00" not in got and "layer_01" in got


def test_an_error_in_a_hook_does_not_stop_the_engine_but_is_raised_at_the_end(tmp_path):
    model = a_model("vllm")
    vllm.install(model, tmp_path, max_bytes=2000)
    run(model, "vllm", IDS)
    with pytest.raises(DumpTooLargeError):
        vllm.uninstall(model)
    assert json.loads((tmp_path / "step_0000" / "dump.json").read_text())["complete"] is False


def test_wrong_models_and_double_hooks_are_errors(tmp_path):
    with pytest.raises(DumpError, match=r"no modules named layers\.N"):
        ServingDumper(nn.Linear(2, 2), tmp_path / "a", engine="x", version="1")
    model = a_model("vllm")
    with pytest.raises(DumpError, match="not hooked"):
        vllm.uninstall(model)
    vllm.install(model, tmp_path / "b")
    with pytest.raises(DumpError, match="hooked already"):
        vllm.install(model, tmp_path / "c")
    run(model, "vllm", IDS)
    vllm.uninstall(model)
    with pytest.raises(DumpExistsError):
        vllm.install(model, tmp_path / "b")


def test_sglangs_model_runner_hooks_each_model_that_it_loads(tmp_path):
    class ModelRunner:
        def load_model(self, kind):
            self.model = a_model(kind)
            return "loaded"

    sglang.patch(tmp_path, runner=ModelRunner)
    with pytest.raises(DumpError, match="patched already"):
        sglang.patch(tmp_path, runner=ModelRunner)
    runner = ModelRunner()
    assert runner.load_model("sglang") == "loaded"
    run(runner.model, "sglang", IDS)
    # The logits end the step: a scheduler process is killed, not closed.
    assert manifest(tmp_path / "step_0000")["framework"]["name"] == "sglang"
