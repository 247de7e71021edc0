"""The dumper leaves the model as it was, and takes what the model computed, whatever happens to the buffers later."""

import random
import warnings

import numpy as np
import pytest
import torch
from tiny_models import causal_lm, entries, ids, manifest_of, read
from torch import nn

from parity_dump import DumpError, DumpTooLargeError, DumpWarning, DumpWriter, tap, to_numpy
from parity_dump.torch import Dumper
from parity_dump.torch_facts import refuse_unhookable


def hooks(model):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def run(model, out, x=None, **options):
    forward = options.pop("forward", {})
    with torch.no_grad(), Dumper(model, out, **options) as d:
        model(input_ids=ids() if x is None else x, **forward)
    return d


# ---- nothing of the model is changed


def test_the_output_is_the_same_to_the_bit_and_every_hook_is_gone(tmp_path):
    model = causal_lm("llama")
    before, count = model(input_ids=ids()).logits, hooks(model)
    with Dumper(model, tmp_path):
        during = model(input_ids=ids()).logits
    assert torch.equal(before, during)
    assert hooks(model) == count == 0


def test_rope_is_wrapped_only_while_the_dumper_is_on(tmp_path):
    from transformers.models.llama import modeling_llama

    original = modeling_llama.apply_rotary_pos_emb
    with Dumper(causal_lm("llama"), tmp_path) as d:
        assert modeling_llama.apply_rotary_pos_emb is not original
        d.model(input_ids=ids())
    assert modeling_llama.apply_rotary_pos_emb is original


def test_an_exception_in_a_layer_passes_through_and_cleans_up(tmp_path):
    from transformers.models.llama import modeling_llama

    model, original = causal_lm("llama"), modeling_llama.apply_rotary_pos_emb

    def broken(*args, **kwargs):
        raise RuntimeError("layer 1 broke")

    model.model.layers[1].mlp.forward = broken
    with pytest.raises(RuntimeError, match="layer 1 broke"), Dumper(model, tmp_path):
        model(input_ids=ids())
    assert hooks(model) == 0 and modeling_llama.apply_rotary_pos_emb is original
    m = manifest_of(tmp_path)
    assert m["complete"] is False and m["error"] == "RuntimeError: layer 1 broke"
    assert "layer_00" in [t["name"] for t in m["tensors"]]


def test_an_exception_after_the_forward_makes_its_dump_incomplete_too(tmp_path):
    model = causal_lm("llama")
    with pytest.raises(ValueError, match="of the caller"), Dumper(model, tmp_path / "one"):
        model(input_ids=ids())
        raise ValueError("of the caller")
    m = manifest_of(tmp_path / "one")
    assert (m["complete"], m["error"]) == (False, "ValueError: of the caller")
    assert "last_logits" in [t["name"] for t in m["tensors"]], "what was written stays listed"


def test_steps_that_ended_stay_complete_when_a_later_one_breaks(tmp_path):
    model = causal_lm("llama")
    with pytest.raises(ValueError, match="later"), Dumper(model, tmp_path, steps=True):
        model(input_ids=ids())
        raise ValueError("later")
    assert manifest_of(tmp_path / "step_0000")["complete"] is True


@pytest.mark.parametrize("grad", [True, False])
def test_grad_mode_training_flag_and_random_states_are_left_alone(tmp_path, grad):
    model = causal_lm("llama")
    torch.manual_seed(5)
    np.random.seed(5)
    random.seed(5)
    before = (torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate())
    with torch.set_grad_enabled(grad), Dumper(model, tmp_path):
        out = model(input_ids=ids()).logits
        assert torch.is_grad_enabled() is grad and out.requires_grad is grad
    assert not model.training
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (np.random.get_state()[1].tolist(), random.getstate()) == before[1:]


def test_gradients_flow_through_a_dumped_forward(tmp_path):
    model = causal_lm("llama")
    model(input_ids=ids()).logits.sum().backward()
    want = model.model.embed_tokens.weight.grad.clone()
    model.zero_grad()
    with Dumper(model, tmp_path):
        model(input_ids=ids()).logits.sum().backward()
    assert torch.equal(model.model.embed_tokens.weight.grad, want)


# ---- what is taken is what was computed


class Block(nn.Module):
    """Adds a linear map to the stream, in a way that ``style`` names."""

    def __init__(self, style):
        super().__init__()
        self.lin, self.style = nn.Linear(6, 6), style

    def forward(self, x):
        if self.style == "in place":
            return x.add_(self.lin(x))  # changes its input, which is the previous block's output
        return x + self.lin(x)


class SplitBlock(nn.Module):
    """Returns (hidden, residual), whose sum is the stream, as fused serving layers do."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(6, 6)

    def forward(self, hidden_states, residual=None):
        residual = hidden_states if residual is None else hidden_states + residual
        return self.lin(residual), residual


class Toy(nn.Module):
    def __init__(self, style, n=3):
        super().__init__()
        torch.manual_seed(0)
        self.emb, self.style = nn.Embedding(20, 6), style
        self.blocks = nn.ModuleList(SplitBlock() if style == "split" else Block(style) for _ in range(n))
        self.norm = nn.LayerNorm(6)
        self.buffer = torch.zeros(1, 4, 6)

    def forward(self, input_ids):
        x = self.emb(input_ids)
        if self.style == "split":
            residual = None
            for b in self.blocks:
                x, residual = b(x, residual)
            return self.norm(x + residual)
        for b in self.blocks:
            if self.style == "one buffer":
                self.buffer.copy_(b(x))
                x = self.buffer
            else:
                x = b(x)
        return self.norm(x)

    def stream(self, input_ids):
        """Return what each block should leave, computed apart."""
        x, out = self.emb(input_ids), []
        for b in self.blocks:
            x = x + b.lin(x)
            out.append(x[0].detach().numpy())
        return out


@pytest.mark.parametrize("style", ["plain", "in place", "one buffer"])
def test_later_changes_of_a_buffer_do_not_reach_the_dump(tmp_path, style):
    model, x = Toy(style), torch.tensor([[1, 2, 3, 4]])
    want = Toy(style).stream(x)
    run(model, tmp_path, x)
    arrays = read(tmp_path)
    for i in range(3):
        np.testing.assert_allclose(arrays[f"layer_{i:02d}"], want[i], rtol=1e-6)
    np.testing.assert_array_equal(arrays["post_embed"], model.emb(x)[0].detach().numpy())


def test_a_split_residual_stream_is_summed_and_both_halves_are_kept(tmp_path):
    model, x = Toy("split"), torch.tensor([[1, 2, 3, 4]])
    want = Toy("split").stream(x)
    run(model, tmp_path, x)
    arrays, table = read(tmp_path), entries(tmp_path)
    for i in range(3):
        np.testing.assert_allclose(arrays[f"layer_{i:02d}"], want[i], rtol=1e-6)
        np.testing.assert_array_equal(
            arrays[f"layer_{i:02d}"], arrays[f"layer_{i:02d}.hidden"] + arrays[f"layer_{i:02d}.residual"]
        )
    assert table["layer_01"]["source"] == "blocks.1[0] + [1]"
    assert "post_final_norm" in arrays


def test_a_module_called_twice_in_one_forward_is_counted_and_loud(tmp_path):
    class Twice(Toy):
        def forward(self, input_ids):
            x = self.emb(input_ids)
            for b in self.blocks:
                x = b(b(x))
            return self.norm(x)

    with pytest.warns(DumpWarning) as said:
        run(Twice("plain"), tmp_path, torch.tensor([[1, 2, 3, 4]]))
    for i in range(3):
        assert any(f"layer_{i:02d} was produced more than once" in str(w.message) for w in said)
        assert entries(tmp_path)[f"layer_{i:02d}"]["calls"] == 2


def test_a_model_that_returns_dicts_or_tuples(tmp_path):
    model = causal_lm("llama")
    with torch.no_grad(), Dumper(model, tmp_path / "tuple"):
        model(input_ids=ids(), return_dict=False)
    run(model, tmp_path / "object")
    np.testing.assert_array_equal(read(tmp_path / "tuple")["last_logits"], read(tmp_path / "object")["last_logits"])


def test_only_the_inner_model_may_be_called(tmp_path):
    model = causal_lm("llama")
    run(model, tmp_path / "whole")
    with pytest.warns(DumpWarning, match="prompt_tokens was not dumped"), torch.no_grad(), Dumper(model, tmp_path / "inner"):
        model.model(input_ids=ids())
    np.testing.assert_array_equal(read(tmp_path / "inner")["layer_02"], read(tmp_path / "whole")["layer_02"])


def test_a_hand_placed_tap_inside_the_model_takes_part(tmp_path):
    model = causal_lm("llama")
    original = model.model.layers[1].mlp.forward
    model.model.layers[1].mlp.forward = lambda x: tap("layer_01.mlp_doubled", original(x) * 2) / 2
    run(model, tmp_path)
    arrays = read(tmp_path)
    np.testing.assert_allclose(arrays["layer_01.mlp_doubled"], arrays["layer_01.mlp_out"] * 2, rtol=1e-6)


# ---- steps


def test_only_the_first_forward_is_dumped_and_the_rest_is_said(tmp_path):
    model = causal_lm("llama")
    run(model, tmp_path / "one")
    with torch.no_grad(), pytest.warns(DumpWarning, match="ran more than 1 time"), Dumper(model, tmp_path / "gen"):
        model.generate(ids(), attention_mask=torch.ones_like(ids()), max_new_tokens=3, do_sample=False, pad_token_id=0)
    np.testing.assert_array_equal(read(tmp_path / "gen")["layer_02"], read(tmp_path / "one")["layer_02"])
    assert all(e["calls"] == 1 for e in entries(tmp_path / "gen").values())


def test_generate_gives_a_folder_for_each_step(tmp_path):
    model = causal_lm("llama")
    with torch.no_grad(), Dumper(model, tmp_path, steps=True) as d:
        out = model.generate(ids(), attention_mask=torch.ones_like(ids()), max_new_tokens=3, do_sample=False, pad_token_id=0)
    assert [p.name for p in d.paths] == ["step_0000", "step_0001", "step_0002"]
    assert [manifest_of(p)["mode"] for p in d.paths] == ["prefill", "incremental", "incremental"]
    assert [manifest_of(p)["step"] for p in d.paths] == [0, 1, 2]
    run(model, tmp_path / "whole", out[:, :-1])
    whole = read(tmp_path / "whole")
    for k in (1, 2):
        step = read(d.paths[k])
        assert step["prompt_tokens"].tolist() == [int(out[0, 8 + k])]
        assert step["position_ids"].tolist() == [8 + k]
        np.testing.assert_allclose(step["layer_02"][0], whole["layer_02"][8 + k], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(
            step["layer_01.attn_probs"][:, 0], whole["layer_01.attn_probs"][:, 8 + k, : 9 + k], atol=1e-5
        )


def test_a_number_of_steps_ends_there(tmp_path):
    model = causal_lm("llama")
    with torch.no_grad(), pytest.warns(DumpWarning, match="ran more than 2 time"), Dumper(model, tmp_path, steps=2) as d:
        model.generate(ids(), attention_mask=torch.ones_like(ids()), max_new_tokens=4, do_sample=False, pad_token_id=0)
    assert len(d.paths) == 2


# ---- batch, padding, masks


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_is_not_counted_as_tokens(tmp_path, side):
    model, x = causal_lm("llama"), ids(5)
    run(model, tmp_path / "alone", x, logits="all")
    pad = torch.zeros(1, 3, dtype=torch.int64)
    padded = torch.cat([pad, x] if side == "left" else [x, pad], 1)
    mask = torch.cat([pad, torch.ones_like(x)] if side == "left" else [torch.ones_like(x), pad], 1)
    batch = torch.cat([ids(8, seed=9), padded])
    run(model, tmp_path / "batch", batch, row=1, logits="all",
        forward={"attention_mask": torch.cat([torch.ones(1, 8, dtype=torch.int64), mask])})  # fmt: skip
    alone, row = read(tmp_path / "alone"), read(tmp_path / "batch")
    assert row["prompt_tokens"].tolist() == x[0].tolist()
    rotated = {"position_ids"} | {n for n in alone if n.endswith("_rope") and side == "left"}
    for name in alone.keys() - rotated:
        np.testing.assert_allclose(row[name], alone[name], rtol=2e-4, atol=2e-5, err_msg=name)
    assert row["attention_mask"].tolist() == [1] * 5, "as of the sequence alone"


@pytest.mark.parametrize(
    ("mask", "kept", "reason"),
    [
        ([0, 0, 1, 1, 1], [1, 1, 1], "padding on the left"),
        ([1, 1, 1, 0, 0], [1, 1, 1, 0, 0], "it may be a decoded prefix: the other side's mask tells"),
    ],
)
def test_what_the_mask_of_a_single_sequence_hides_is_taken_out_only_where_it_must_be_padding(tmp_path, mask, kept, reason):
    with pytest.warns(DumpWarning, match="hides 2 of 5 positions"):
        run(causal_lm("llama"), tmp_path, ids(5), forward={"attention_mask": torch.tensor([mask])})
    assert read(tmp_path)["attention_mask"].tolist() == kept, reason


def test_a_batch_row_equals_the_sequence_alone(tmp_path):
    model, batch = causal_lm("mixtral"), ids(batch=3)
    run(model, tmp_path / "row", batch, row=2)
    run(model, tmp_path / "alone", batch[2:])
    row, alone = read(tmp_path / "row"), read(tmp_path / "alone")
    for name in alone:
        np.testing.assert_allclose(row[name], alone[name], rtol=2e-4, atol=2e-5, err_msg=name)
    with pytest.raises(DumpError, match="row 3 of a batch of 3"):
        run(model, tmp_path / "none", batch, row=3)


def test_a_mask_that_was_not_extended_is_loud(tmp_path):
    model = causal_lm("llama")
    mask = torch.ones_like(ids())
    mask[0, 7:] = 0
    with pytest.warns(DumpWarning, match="hides 2 of 9 positions of the only sequence: .*not extended with the decoded prefix"):
        run(model, tmp_path, forward={"attention_mask": mask}, strip_padding=False)


def test_positions_that_start_again_without_a_mask_are_loud(tmp_path):
    positions = torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2, 3]])
    with pytest.warns(DumpWarning, match="masks that as packed sequences"):
        run(causal_lm("llama"), tmp_path, forward={"position_ids": positions})
    assert read(tmp_path)["position_ids"].tolist() == positions[0].tolist()


# ---- dtypes


def test_bfloat16_is_kept_to_the_bit(tmp_path):
    model = causal_lm("llama", torch.bfloat16)
    with torch.no_grad():
        want = model(input_ids=ids(), output_hidden_states=True).hidden_states[2][0].float().numpy()
    for storage, descr in (("native", b"'<V2'"), ("float32", b"'<f4'")):
        run(model, tmp_path / storage, storage=storage)
        np.testing.assert_array_equal(read(tmp_path / storage)["layer_01"], want)
        assert descr in (tmp_path / storage / "layer_01.npy").read_bytes()[:60]
        assert entries(tmp_path / storage)["layer_01"]["dtype"] == "bfloat16"


def test_autocast_is_stated_and_its_mixture_is_loud(tmp_path):
    model = causal_lm("llama")
    with pytest.warns(DumpWarning, match="float tensors are not float32"), torch.autocast("cpu", dtype=torch.bfloat16):
        run(model, tmp_path)
    assert manifest_of(tmp_path)["framework"]["autocast"] == "bfloat16"


@pytest.mark.parametrize(
    "dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float16, torch.float64, torch.int32, torch.bool]
)
def test_every_dtype_comes_through_with_its_values(tmp_path, dtype):
    import ml_dtypes

    t = torch.tensor([[0.0, 1.0, -2.0], [0.5, 1.0, 3.0]]).to(dtype)
    name = str(dtype).removeprefix("torch.")
    with DumpWriter(tmp_path, dumper="t") as w:
        w.add("prompt_tokens", np.arange(2))
        tap("x", t.T)  # not contiguous
    raw = np.load(tmp_path / "x.npy")
    values = raw.view(getattr(ml_dtypes, name)) if raw.dtype.kind == "V" else raw
    assert entries(tmp_path)["x"]["dtype"] == name
    np.testing.assert_array_equal(values.astype(np.float64), t.T.double().numpy())


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"])
def test_arrays_of_ml_dtypes_are_recognised(name):
    import ml_dtypes

    array, dtype = to_numpy(np.array([1, 2, 0.5], np.float32).astype(getattr(ml_dtypes, name)))
    assert dtype == name and array.dtype.kind == "u"


def test_what_has_no_values_or_no_dense_ones():
    with pytest.raises(DumpError, match="shape but no values"):
        to_numpy(torch.zeros(2, device="meta"))
    sparse = torch.eye(2).to_sparse()
    assert to_numpy(sparse)[0].tolist() == [[1, 0], [0, 1]]
    negated = torch.tensor([1 + 2j]).conj().imag  # a view that is only marked as negative
    assert to_numpy(negated)[0].tolist() == [-2]
    with pytest.raises(DumpError, match="split complex values"):
        to_numpy(torch.tensor([1j]))


# ---- refusals and choices


def test_a_model_with_a_compiled_forward_is_refused_where_hooks_are_inside_it(tmp_path):
    model = causal_lm("llama")
    model.model.norm.forward = torch.compile(model.model.norm.forward)  # no module in it: its own hooks fire
    refuse_unhookable(model)
    model.model.layers[1].forward = torch.compile(model.model.layers[1].forward)
    with pytest.raises(DumpError, match=r"forward of its module 'model\.layers\.1' is compiled"), Dumper(model, tmp_path):
        raise AssertionError("not reached")
    assert hooks(model) == 0


def test_a_compiled_model_is_refused(tmp_path):
    model = causal_lm("llama")
    with pytest.raises(DumpError, match=r"the model is compiled .*model\._orig_mod"), Dumper(torch.compile(model), tmp_path):
        pass
    model.model.layers[1].compile()
    with pytest.raises(DumpError, match=r"module 'model\.layers\.1' is compiled"), Dumper(model, tmp_path):
        pass
    assert hooks(model) == 0


def test_a_scripted_model_is_refused_and_a_trace_too(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        scripted = torch.jit.script(nn.Linear(6, 6))
    model = Toy("plain")
    model.blocks[1].lin = scripted
    with pytest.raises(DumpError, match=r"its module 'blocks\.1\.lin' is scripted"), Dumper(model, tmp_path):
        pass
    model = Toy("plain")
    with pytest.raises(DumpError, match="inside a trace"), warnings.catch_warnings(), Dumper(model, tmp_path):
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.trace(model, torch.tensor([[1, 2]]))


def test_dropout_in_training_mode_is_loud(tmp_path):
    model = causal_lm("gpt2").train()
    with pytest.warns(DumpWarning, match="training mode with dropout"):
        run(model, tmp_path)
    assert model.training


def test_a_dumper_around_nothing_is_no_success(tmp_path):
    with (
        pytest.raises(DumpError, match="the model did not run, or its hooks did not fire"),
        Dumper(causal_lm("llama"), tmp_path),
    ):
        pass


def test_the_size_is_estimated_before_a_layer_runs(tmp_path):
    model = causal_lm("llama")
    d = Dumper(model, tmp_path / "ok")
    estimate = d.estimate(9)
    run(model, tmp_path / "ok")
    written = sum(
        a.nbytes for n, a in read(tmp_path / "ok").items() if n not in ("prompt_tokens", "position_ids", "attention_mask")
    )
    assert abs(estimate / written - 1) < 0.05
    with pytest.raises(DumpTooLargeError, match="it would take about"):
        run(model, tmp_path / "no", max_bytes=estimate - 1)
    assert not (tmp_path / "no").exists()


def test_layers_tokens_and_taps_are_sampled(tmp_path):
    run(causal_lm("llama"), tmp_path / "a", layers="0,last", tokens="0-1,last")
    arrays = read(tmp_path / "a")
    assert sorted({n.split(".")[0] for n in arrays if n.startswith("layer")}) == ["layer_00", "layer_02"]
    assert arrays["layer_02.q"].shape[0] == 3 and arrays["layer_00.attn_probs"].shape == (4, 3, 9)
    run(causal_lm("llama"), tmp_path / "b", sub_taps=False)
    assert not [n for n in read(tmp_path / "b") if "." in n]


def test_overrides_place_and_remove_taps(tmp_path):
    model = Toy("plain")
    run(model, tmp_path / "a", torch.tensor([[1, 2, 3, 4]]), taps={"mlp_out": "lin", "mlp_in": "lin:in"}, final_norm="norm")
    arrays = read(tmp_path / "a")
    np.testing.assert_allclose(arrays["layer_01.mlp_in"] + arrays["layer_01.mlp_out"], arrays["layer_01"], rtol=1e-5)
    run(causal_lm("llama"), tmp_path / "b", taps={"q": ""})
    assert "layer_00.q" not in read(tmp_path / "b") and "layer_00.k" in read(tmp_path / "b")
    for bad in ({"taps": {"q": "nowhere"}}, {"blocks": "emb"}, {"final_norm": "nowhere"}):
        with pytest.raises(DumpError):
            run(Toy("plain"), tmp_path / "c", torch.tensor([[1]]), **bad)
    assert hooks(model) == 0


def test_the_heaviest_stack_is_the_one_dumped_and_the_others_are_named(tmp_path):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.tower, self.text = Toy("plain", n=1), Toy("plain", n=4)

        def forward(self, input_ids):
            self.tower(input_ids)
            return self.text(input_ids)

    with pytest.warns(DumpWarning, match=r"blocks are text\.blocks; not dumped: tower\.blocks \(choose with blocks=\)"):
        run(Two(), tmp_path / "a", torch.tensor([[1, 2]]))
    assert "layer_03" in read(tmp_path / "a")


def test_a_model_without_blocks_is_refused_with_the_remedy(tmp_path):
    with pytest.raises(DumpError, match="name it with blocks="):
        Dumper(nn.Sequential(nn.Linear(2, 2)), tmp_path)
