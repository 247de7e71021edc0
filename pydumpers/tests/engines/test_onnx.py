"""ONNX Runtime on exports of the real SmolLM2-135M and MiniLM, and on small graphs made by hand."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from engine_support import assert_float32_engine, ids_of, manifest, path_of, reference, tensors, validate
from onnx import TensorProto, helper, numpy_helper

from parity_dump.errors import DumpError
from parity_dump.onnx import SCOPES_KEY, choose, dump, feeds_for, one_sequence


@pytest.fixture(scope="module")
def prose(tmp_path_factory):
    out = tmp_path_factory.mktemp("onnx") / "prose"
    dump(path_of("onnx") / "smollm2.onnx", out, ids=ids_of("prose"), logits="all", model={"dtype": "float32"})
    return out


def test_smollm2_agrees_with_hugging_face_to_float32_rounding(prose):
    found = assert_float32_engine(reference("prose"), prose)
    taps = {n.split(".")[1] for n in found if "." in n}
    assert taps >= {"input_norm", "q", "k", "v", "attn_probs", "attn_ctx", "attn_out", "ffn_inp", "post_attn_norm",
                    "mlp_gate", "mlp_up", "mlp_act", "mlp_out"}  # fmt: skip


def test_parity_trusts_the_dumpers_of_smollm2(prose):
    validate(reference("prose"), prose)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    out = tmp_path_factory.mktemp("onnx") / "encoder"
    dump(path_of("onnx") / "minilm.onnx", out, ids=ids_of("encoder"), model={"dtype": "float32"})
    return out


def test_minilm_agrees_with_hugging_face_to_float32_rounding(encoder):
    found = assert_float32_engine(reference("encoder"), encoder)
    assert {"layer_05", "layer_05.attn_out", "layer_05.post_attn_norm", "layer_00.attn_probs"} <= found.keys()


def test_parity_trusts_the_dumpers_of_minilm(encoder):
    validate(reference("encoder"), encoder)


def test_graph_optimizations_off_give_the_same_checkpoints(prose, tmp_path):
    dump(path_of("onnx") / "smollm2.onnx", tmp_path / "plain", ids=ids_of("prose"), optimize=False, layers="0,1")
    for name in ("layer_00", "layer_01.attn_out"):
        np.testing.assert_allclose(tensors(tmp_path / "plain")[name], tensors(prose)[name], rtol=1e-4, atol=1e-5)


# ---- small graphs --------------------------------------------------------------------------------------------------


def node(op, inputs, output, path=None, name=None, **attributes):
    """Return a node that says which module it is from, as torch's exporter does."""
    n = helper.make_node(op, inputs, [output], name=name or f"node_{output}", **attributes)
    if path is not None:
        scopes = [""] + [".".join(path.split(".")[: i + 1]) for i in range(path.count(".") + 1)] + [op.lower()]
        n.metadata_props.append(onnx.StringStringEntryProto(key=SCOPES_KEY, value=repr(scopes)))
    return n


WEIGHTS = {"table": np.arange(20, dtype=np.float32).reshape(5, 4), "two": np.float32(2), "three": np.float32(3)}


def a_model(nodes, outputs=("end",), inputs=(("input_ids", TensorProto.INT64, [1, "T"]),), weights=WEIGHTS, infos=()):
    """Return an ONNX model of these nodes."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs],
        [numpy_helper.from_array(v, k) for k, v in weights.items()],
        value_info=[helper.make_tensor_value_info(*i) for i in infos],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def two_layers(path=True):
    """Return a model of an embedding and two layers x -> 2x + x, whose values are known by heart."""
    scopes = iter(["model.embed_tokens", "model.layers.0.mlp", "model.layers.0", "model.layers.1.mlp", "model.layers.1"])
    steps = [
        ("Gather", ["table", "input_ids"], "e"),
        ("Mul", ["e", "two"], "m0"), ("Add", ["m0", "e"], "h0"),
        ("Mul", ["h0", "two"], "m1"), ("Add", ["m1", "h0"], "h1"),
    ]  # fmt: skip
    nodes = []
    for op, inputs, output in steps:
        scope = next(scopes)
        old = "/" + scope.replace(".layers.", "/layers.").replace(".mlp", "/mlp").replace("model.e", "model/e") + f"/{op}"
        nodes.append(node(op, inputs, output, scope) if path else node(op, inputs, output, name=old))
    return a_model([*nodes, node("Identity", ["h1"], "end")])


def run(model, tmp_path, **options):
    """Save and dump a model; return its tensors."""
    onnx.save(model, tmp_path / "m.onnx")
    options.setdefault("ids", [1, 3, 4])
    dump(tmp_path / "m.onnx", tmp_path / "out", overwrite=True, **options)
    return tensors(tmp_path / "out")


@pytest.mark.parametrize("metadata", [True, False], ids=["name_scopes of the dynamo export", "node names of the old export"])
def test_values_inside_the_graph_are_dumped_under_their_checkpoints(tmp_path, metadata):
    got = run(two_layers(metadata), tmp_path)
    e = WEIGHTS["table"][[1, 3, 4]]
    assert list(got) == ["prompt_tokens", "post_embed", "layer_00.mlp_out", "layer_00", "layer_01.mlp_out", "layer_01"]
    np.testing.assert_array_equal(got["prompt_tokens"], [1, 3, 4])
    np.testing.assert_array_equal(got["post_embed"], e)
    np.testing.assert_array_equal(got["layer_00"], 3 * e)
    np.testing.assert_array_equal(got["layer_01.mlp_out"], 6 * e)
    np.testing.assert_array_equal(got["layer_01"], 9 * e)


def test_a_map_of_ones_own_wins_and_must_name_values_that_exist(tmp_path):
    got = run(two_layers(), tmp_path, extra={"m0": "layer_00", "h0": "my tap"})
    np.testing.assert_array_equal(got["layer_00"], 2 * WEIGHTS["table"][[1, 3, 4]])
    assert "my tap" in got
    with pytest.raises(DumpError, match="no such value"):
        run(two_layers(), tmp_path, extra={"nothing": "layer_00"})


def test_the_file_itself_is_not_changed(tmp_path):
    onnx.save(two_layers(), tmp_path / "m.onnx")
    before = (tmp_path / "m.onnx").read_bytes()
    dump(tmp_path / "m.onnx", tmp_path / "out", ids=[1])
    assert (tmp_path / "m.onnx").read_bytes() == before


def test_weights_beside_the_file_are_found(tmp_path):
    big = {**WEIGHTS, "table": np.arange(4000, dtype=np.float32).reshape(1000, 4)}
    model = two_layers()
    del model.graph.initializer[:]
    model.graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in big.items())
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=100)
    assert (tmp_path / "m.data").exists()
    dump(tmp_path / "m.onnx", tmp_path / "out", ids=[7])
    np.testing.assert_array_equal(tensors(tmp_path / "out")["post_embed"], big["table"][[7]])


def test_bfloat16_values_come_out_as_float32_and_say_what_they_were(tmp_path):
    nodes = [
        node("Gather", ["table", "input_ids"], "e", "embed_tokens"),
        node("Cast", ["e"], "h0", "layers.0", to=TensorProto.BFLOAT16),
        node("Cast", ["h0"], "end", to=TensorProto.FLOAT),
    ]
    table = np.full((5, 4), 1.00390625, np.float32)  # 1 + 2^-8, which bfloat16 rounds to 1
    got = run(a_model(nodes, weights={"table": table}, infos=[("h0", TensorProto.BFLOAT16, [1, "T", 4])]), tmp_path)
    np.testing.assert_array_equal(got["layer_00"], np.ones((3, 4), np.float32))
    entry = next(t for t in manifest(tmp_path / "out")["tensors"] if t["name"] == "layer_00")
    assert entry["dtype"] == "bfloat16"


def test_of_a_padded_batch_one_sequence_is_dumped_without_its_padding(tmp_path):
    model = two_layers()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "B"
    model.graph.input.append(helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["B", "T"]))
    feeds = {"input_ids": np.array([[1, 2, 3], [0, 0, 4]]), "attention_mask": np.array([[1, 1, 1], [0, 0, 1]])}
    got = run(model, tmp_path, ids=None, feeds=feeds, row=1)
    np.testing.assert_array_equal(got["prompt_tokens"], [4])
    np.testing.assert_array_equal(got["layer_00"], 3 * WEIGHTS["table"][[4]])


def test_padding_is_taken_out_of_both_axes_of_attention_probabilities():
    probs = np.arange(18, dtype=np.float32).reshape(1, 2, 3, 3)
    got = one_sequence("layer_00.attn_probs", probs, 0, 1, np.array([False, True, True]))
    np.testing.assert_array_equal(got, [[[4, 5], [7, 8]], [[13, 14], [16, 17]]])


class Spec:
    """An input of a session, as ONNX Runtime describes it."""

    def __init__(self, name, kind, shape):
        self.name, self.type, self.shape = name, kind, shape


class Session:
    """A session of which only the inputs matter."""

    def __init__(self, *specs):
        self.specs = specs

    def get_inputs(self):
        return self.specs


def test_usual_inputs_are_made_from_the_ids_and_an_unusual_one_is_asked_for():
    cache = Spec("past_key_values.0.key", "tensor(float16)", ["batch", 3, "past", 64])
    ids, positions = Spec("input_ids", "tensor(int32)", [1, "T"]), Spec("position_ids", "tensor(int64)", [1, "T"])
    got = feeds_for(Session(ids, positions, cache), [5, 6])
    assert got["input_ids"].dtype == np.int32
    np.testing.assert_array_equal(got["position_ids"], [[0, 1]])
    assert got["past_key_values.0.key"].shape == (1, 3, 0, 64)
    with pytest.raises(DumpError, match="pixel_values"):
        feeds_for(Session(Spec("pixel_values", "tensor(float)", [1, 3, 8, 8])), [1])


def test_a_graph_that_tells_nothing_about_layers_is_no_success(tmp_path):
    model = a_model([node("Gather", ["table", "input_ids"], "end")])
    with pytest.raises(DumpError, match="no layer is known"):
        run(model, tmp_path)
    with pytest.raises(DumpError, match="no such file"):
        dump(tmp_path / "no.onnx", tmp_path / "x", ids=[1])
    with pytest.raises(DumpError, match="give ids or feeds"):
        run(two_layers(), tmp_path, ids=None)
    (tmp_path / "bad.onnx").write_bytes(b"\xff\xfe not a model")
    with pytest.raises(DumpError, match="no ONNX model"):
        dump(tmp_path / "bad.onnx", tmp_path / "x", ids=[1])


def test_a_run_that_onnx_runtime_refuses_says_what_it_said(tmp_path):
    with pytest.raises(DumpError, match=r"running .*m\.onnx: .*indices element out of data bounds"):
        run(two_layers(), tmp_path, ids=[7])


def test_an_export_of_fixed_length_says_which_length_it_takes(tmp_path):
    model = two_layers()
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 2
    with pytest.raises(DumpError, match=r"input_ids has the fixed shape \[1, 2\], but \[1, 3\] was given: export with dynamic"):
        run(model, tmp_path)


def test_what_would_be_dumped_can_be_listed_without_running():
    chosen = {c.checkpoint: c.value for c in choose(two_layers().graph)}
    assert chosen["layer_01"] == "h1"


def test_the_example_runs(tmp_path):
    example = Path(__file__).parents[2] / "examples" / "onnx_runtime.py"
    subprocess.run([sys.executable, example, "--out", tmp_path / "port"], check=True)
    assert json.loads((tmp_path / "port" / "dump.json").read_text())["complete"]
