"""Dumpers that are broken in each of the known ways, on the real model: ``parity`` names the mistake, and blames no layer.

Each is written as people write it. The model is right in every case, so only the dump can be at fault.
"""

import json
import os
import subprocess
import warnings

import numpy as np
import pytest
import torch
from engine_support import ids_of, path_of
from transformers import AutoModelForCausalLM

from parity_dump import DumpWarning, DumpWriter
from parity_dump.torch import Dumper
from parity_dump.torch_facts import framework_facts, model_facts


@pytest.fixture(scope="module")
def model():
    return AutoModelForCausalLM.from_pretrained(path_of("smollm2"), dtype=torch.float32, attn_implementation="eager").eval()


@pytest.fixture(scope="module")
def ids():
    return torch.tensor([ids_of("prose")])


@pytest.fixture(scope="module")
def ref(model, ids, tmp_path_factory):
    return right(model, ids, tmp_path_factory.mktemp("ref") / "ref")


def right(model, ids, out, **options):
    with torch.no_grad(), Dumper(model, out, sub_taps=False, **options):
        model(input_ids=ids, attention_mask=torch.ones_like(ids))
    return out


@pytest.fixture(scope="module")
def states(model, ids):
    """The model's own hidden states: 31 of them, the last after the final norm."""
    with torch.no_grad():
        result = model(input_ids=ids, output_hidden_states=True)
    return [h[0].numpy() for h in result.hidden_states], result.logits[0, -1].numpy()


def by_hand(out, model, ids, layers, logits, final=None, embed=None, **options):
    """Write a dump whose layer outputs somebody collected by hand."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DumpWarning)  # the package's own doubts are tested elsewhere
        facts = {"framework": framework_facts(model), "model": model_facts(model)}
        with DumpWriter(out, dumper="by.hand", **facts, **options) as w:
            w.add("prompt_tokens", ids[0].numpy())
            w.add("attention_mask", np.ones(ids.shape[1], np.int64))
            w.add("position_ids", np.arange(ids.shape[1]))
            if embed is not None:
                w.add("post_embed", embed)
            for name, array in layers:
                w.add(name, array)
            if final is not None:
                w.add("post_final_norm", final)
            w.add("last_logits", logits)
    return out


def parity(command, ref, port):
    """Run a parity command with JSON output; return its exit status and the report."""
    done = subprocess.run(
        [os.environ["PARITY_BIN"], command, ref, port, "--format", "json"], capture_output=True, text=True, timeout=120
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def guards(report):
    """Return the statuses of all guards by id."""
    return {g["id"]: g["status"] for g in report["guards"]}


def assert_named(ref, port, guard, want="fail"):
    """Assert that this guard, and no other, names the mistake, and that no layer is blamed for it.

    What can be repaired from the dumps (an index shift, a norm too many, both halves of a sum) is repaired and said.
    """
    for command in ("validate", "compare"):
        status, report = parity(command, ref, port)
        found = {i: s for i, s in guards(report).items() if s in ("fail", "repaired")}
        assert found.get(guard) == want, f"{command}: {guard} should be {want} in {found}"
        if want == "fail":
            assert status == 3, f"{command} must not trust these dumpers: exit {status}"
        assert not report.get("enters"), "no layer is to blame for a dump's fault"


def test_the_right_dumper_is_trusted(ref, model, ids, tmp_path):
    status, report = parity("validate", ref, right(model, ids, tmp_path / "again"))
    assert status == 0, report["guards"]
    assert "not checked" not in guards(report).values()


def test_index_offset(ref, model, ids, states, tmp_path):
    """hidden_states[i], which is the input of layer i, taken for its output."""
    hs, logits = states
    layers = [(f"layer_{i:02d}", hs[i]) for i in range(30)]
    port = by_hand(tmp_path / "port", model, ids, layers, logits, final=hs[30], embed=hs[0])
    assert_named(ref, port, "capture.index_shift", "repaired")


def test_post_final_norm(ref, model, ids, states, tmp_path):
    """hidden_states[i + 1] for each layer: right for all but the last, which is after the final norm."""
    hs, logits = states
    layers = [(f"layer_{i:02d}", hs[i + 1]) for i in range(30)]
    port = by_hand(tmp_path / "port", model, ids, layers, logits, final=hs[30], embed=hs[0])
    assert_named(ref, port, "capture.post_final_norm", "repaired")


def test_overwritten_calls(ref, model, ids, tmp_path):
    """A hook left on during generate(): each decode step overwrites the files of the one before."""
    out = tmp_path / "port"
    facts = {"framework": framework_facts(model), "model": model_facts(model)}
    handles = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DumpWarning)
        with DumpWriter(out, dumper="by.hand", repeat="last", **facts) as w, torch.no_grad():
            w.add("prompt_tokens", ids[0].numpy())

            def save(name):
                return lambda m, args, output: w.add(name, output[0].numpy())  # add returns None, as a hook must

            handles.append(model.model.embed_tokens.register_forward_hook(save("post_embed")))
            for i, block in enumerate(model.model.layers):
                handles.append(block.register_forward_hook(save(f"layer_{i:02d}")))
            handles.append(model.model.norm.register_forward_hook(save("post_final_norm")))
            try:
                model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=3, do_sample=False)
            finally:
                for h in handles:
                    h.remove()
    assert_named(ref, out, "capture.chunked")


def test_view_reused(ref, model, ids, states, tmp_path):
    """Views of one output buffer, written when the run was over: two neighbours hold the same bytes."""
    hs, logits = states
    buffer = np.empty_like(hs[0])
    kept = []
    for i in range(30):
        if i % 2 == 0:
            buffer = np.empty_like(hs[0])  # two buffers in turn, as engines have them
        buffer[:] = hs[i + 1] if i < 29 else model_last(model, ids)
        kept.append((f"layer_{i:02d}", buffer))
    port = by_hand(tmp_path / "port", model, ids, kept, logits, final=hs[30], embed=hs[0])
    assert_named(ref, port, "capture.reused_buffer")


def model_last(model, ids):
    """Return the last layer's output, which hidden_states does not have."""
    seen = []
    handle = model.model.layers[-1].register_forward_hook(lambda m, a, out: seen.append(out))
    with torch.no_grad():
        model(input_ids=ids)
    handle.remove()
    return (seen[0] if isinstance(seen[0], torch.Tensor) else seen[0][0])[0].numpy()


@pytest.mark.parametrize("both", [False, True], ids=["one half only", "both halves under their names"])
def test_half_of_a_split_residual(ref, model, ids, states, tmp_path, both):
    """A layer that returns (hidden, residual), of which the first was taken: the MLP's output instead of the stream."""
    hs, logits = states
    outputs = {}
    handles = [
        b.mlp.register_forward_hook(lambda m, a, out, i=i: outputs.__setitem__(i, out[0].numpy().copy()))
        for i, b in enumerate(model.model.layers)
    ]
    last = model_last(model, ids)
    for h in handles:
        h.remove()
    layers = []
    for i in range(30):
        whole = hs[i + 1] if i < 29 else last
        layers.append((f"layer_{i:02d}", outputs[i]))
        if both:
            layers.append((f"layer_{i:02d}.residual", whole - outputs[i]))
    port = by_hand(tmp_path / "port", model, ids, layers, logits, final=hs[30], embed=hs[0])
    if both:
        assert_named(ref, port, "capture.split_residual", "repaired")
    else:
        assert_named(ref, port, "capture.wrong_tensor")


def test_missing_mask_on_a_decode_prefix(model, ids, tmp_path):
    """The prefix grew by four decoded tokens, the attention mask did not: it was padded with zeros."""
    longer = torch.cat([ids, ids[:, :4]], 1)
    reference = right(model, longer, tmp_path / "ref")
    mask = torch.ones_like(longer)
    mask[:, ids.shape[1] :] = 0
    dumper = Dumper(model, tmp_path / "port", sub_taps=False, strip_padding=False)
    with pytest.warns(DumpWarning, match="not extended with the decoded prefix"), torch.no_grad(), dumper:
        model(input_ids=longer, attention_mask=mask)
    assert_named(reference, tmp_path / "port", "input.attention_mask")


def test_shifted_rows(ref, model, ids, states, tmp_path):
    """Rows one token later than they should be, while the ids are right: a BOS that the dump dropped."""
    hs, logits = states
    layers = [(f"layer_{i:02d}", np.roll(hs[i + 1], 1, axis=0)) for i in range(29)]
    layers.append(("layer_29", np.roll(model_last(model, ids), 1, axis=0)))
    final, embed = np.roll(hs[30], 1, axis=0), np.roll(hs[0], 1, axis=0)
    port = by_hand(tmp_path / "port", model, ids, layers, logits, final=final, embed=embed)
    assert_named(ref, port, "capture.row_shift")


def test_an_extra_token(ref, model, ids, tmp_path):
    """A BOS in front on one side only: other ids, so nothing else can be judged."""
    longer = torch.cat([torch.tensor([[1]]), ids], 1)
    assert_named(ref, right(model, longer, tmp_path / "port"), "input.extra_token")


def test_an_interrupted_run(ref, model, ids, tmp_path):
    original = model.model.layers[20].forward

    def out_of_memory(*args, **kwargs):
        raise MemoryError("out of memory")

    model.model.layers[20].forward = out_of_memory
    try:
        with pytest.raises(MemoryError):
            right(model, ids, tmp_path / "port")
    finally:
        model.model.layers[20].forward = original
    assert_named(ref, tmp_path / "port", "capture.incomplete")
