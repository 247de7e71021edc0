"""MAX on the real SmolLM2-135M: whole pipelines through ``max generate``, unedited, and a graph written by hand.

Compiled graphs are kept in MAX's own cache: minutes the first time, seconds after. One prompt, one compile for each graph.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from engine_support import (
    LIMIT_FLOAT32,
    assert_float32_engine,
    distance,
    ids_of,
    manifest,
    path_of,
    reference,
    tensors,
    text_of,
    validate,
)
from max import nn
from max.driver import CPU
from max.dtype import DType
from max.engine import InferenceSession
from max.graph import DeviceRef, Graph, TensorType, ops

from parity_dump import DumpWriter, tap
from parity_dump.errors import DumpError, DumpExistsError
from parity_dump.max import MaxTaps, command, environment, to_numpy
from parity_dump.max_file import convert
from parity_dump.max_hooks import MaxHooks
from parity_dump.max_taps import StepRecorder

PACKAGE = Path(__file__).parents[2]
CPU_FLOAT32 = ("--devices", "cpu", "--quantization-encoding", "float32", "--max-length", "64", "--top-k", "1")


def generate(model, out, *more, options=None):
    """Run ``parity-dump max -- generate`` on the chat prompt in a process of its own."""
    line = command(
        ["generate", "--model-path", str(model), "--prompt", text_of("chat"), "--max-new-tokens", "2", *CPU_FLOAT32, *more]
    )
    env = {**os.environ, **environment({"out": out, **(options or {})})}
    done = subprocess.run(line, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    out = tmp_path_factory.mktemp("max") / "port"
    generate(path_of("smollm2"), out)
    return out


def test_the_whole_pipeline_agrees_with_hugging_face_to_float32_rounding(generated):
    found = assert_float32_engine(reference("chat"), generated / "step_0000")
    taps = {n.split(".")[1] for n in found if "." in n}
    assert taps == {"input_norm", "attn_ctx", "attn_out", "ffn_inp", "post_attn_norm", "mlp_act", "mlp_out"}
    assert len(found) == 30 * 8 + 3


def test_parity_trusts_the_dumpers(generated):
    validate(reference("chat"), generated / "step_0000")


def test_each_execute_has_its_own_folder(generated):
    prefill, step = generated / "step_0000", generated / "step_0001"
    assert sorted(p.name for p in generated.iterdir()) == ["step_0000", "step_0001"]
    assert (manifest(prefill)["mode"], manifest(step)["mode"]) == ("prefill", "incremental")
    first, second = tensors(prefill), tensors(step)
    assert second["prompt_tokens"].tolist() == [int(np.argmax(first["last_logits"]))], "greedy: the prefill's own argmax"
    assert second["layer_29.mlp_act"].shape == (1, 1536)


def test_the_manifest_tells_what_ran(generated):
    m = manifest(generated / "step_0000")
    assert m["framework"]["name"] == "max" and m["framework"]["device"] == "cpu"
    facts = {k: m["model"][k] for k in ("dtype", "num_layers", "hidden_size", "num_kv_heads", "rope_theta")}
    assert facts == {"dtype": "float32", "num_layers": 30, "hidden_size": 576, "num_kv_heads": 3, "rope_theta": 100000}
    sources = {t["name"]: t["source"] for t in m["tensors"]}
    assert sources["layer_07.attn_out"] == "layers.7.self_attn"


@pytest.fixture(scope="module")
def two_layers(tmp_path_factory):
    """The same model cut after its second layer: quicker to compile; its first layers are the reference's."""
    from safetensors.numpy import load_file, save_file

    whole, folder = path_of("smollm2"), tmp_path_factory.mktemp("model") / "smollm2-two-layers"
    folder.mkdir()
    for f in whole.iterdir():
        if f.name not in ("model.safetensors", "config.json"):
            (folder / f.name).write_bytes(f.read_bytes())
    weights = {
        k: v for k, v in load_file(whole / "model.safetensors").items()
        if not k.startswith("model.layers.") or int(k.split(".")[2]) < 2
    }  # fmt: skip
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((whole / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 2}))
    return folder


def test_v3_modules_give_the_same_bits_as_v2(two_layers, generated, tmp_path):
    generate(two_layers, tmp_path / "v3", "--prefer-module-v3")
    v2, v3 = tensors(generated / "step_0000"), tensors(tmp_path / "v3" / "step_0000")
    common = [n for n in v3 if n.startswith(("layer_", "post_embed", "prompt_tokens"))]
    assert {"layer_00", "layer_01", "layer_01.attn_out", "layer_01.mlp_out", "layer_00.input_norm"} <= set(common)
    for name in common:
        np.testing.assert_array_equal(v3[name], v2[name], name)
    assert v3["last_logits"].shape == v2["last_logits"].shape, "the tied head of V3 is no module: its logits are an output"
    ref = tensors(reference("chat"))
    assert max(distance(ref[n], v3[n]).whole for n in ("layer_00", "layer_01")) <= LIMIT_FLOAT32


def test_the_pipeline_with_taps_as_prints_gives_the_same_dump_to_the_bit(generated, tmp_path):
    generate(path_of("smollm2"), tmp_path / "port", options={"via": "prints"})
    assert sorted(p.name for p in (tmp_path / "port").iterdir()) == ["step_0000", "step_0001"], "no scratch file is left"
    for step in ("step_0000", "step_0001"):
        assert manifest(tmp_path / "port" / step)["tensors"] == manifest(generated / step)["tensors"]
        prints, outputs = tensors(tmp_path / "port" / step), tensors(generated / step)
        assert len(prints) == 30 * 8 + 4
        for name, x in outputs.items():
            assert x.tobytes() == prints[name].tobytes(), f"{step} {name}"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextmanager
def serving(model, out, log):
    """Run ``parity-dump max -- serve`` until the block ends; yields a function that completes token ids, and the process."""
    port = free_port()
    line = command(["serve", "--model-path", str(model), "--port", str(port), *CPU_FLOAT32[:6]])
    env = {**os.environ, **environment({"out": out}), "MAX_SERVE_DISABLE_TELEMETRY": "1"}
    url = f"http://127.0.0.1:{port}"
    with open(log, "w") as f:
        server = subprocess.Popen(line, env=env, stdout=f, stderr=f, start_new_session=True)

    def complete(ids):
        body = json.dumps({"model": str(model), "prompt": ids, "max_tokens": 2, "temperature": 0}).encode()
        request = urllib.request.Request(f"{url}/v1/completions", body, {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request, timeout=120))["usage"]

    try:
        while True:
            assert server.poll() is None, Path(log).read_text()[-3000:]
            try:
                urllib.request.urlopen(f"{url}/v1/models", timeout=5)
                break
            except OSError:
                time.sleep(0.5)
        yield complete, server
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def test_a_server_dumps_each_request_from_its_worker_process(generated, tmp_path):
    port, log = tmp_path / "port", tmp_path / "log"
    ids = ids_of("chat")
    with serving(path_of("smollm2"), port, log) as (complete, server):
        assert not port.exists() or not list(port.rglob("dump.json")), "nothing is recorded before a request"
        assert complete(ids)["prompt_tokens"] == len(ids)
        assert manifest(port / "step_0000")["mode"] == "serve", "on disk while the server runs"
        server.send_signal(signal.SIGINT)
        server.wait(timeout=60)
    assert f"parity-dump max: wrote {port / 'step_0000'}" in Path(log).read_text()
    assert_float32_engine(reference("chat"), port / "step_0000")
    validate(reference("chat"), port / "step_0000")
    for step in ("step_0000", "step_0001"):
        served, run = tensors(port / step), tensors(generated / step)
        assert served.keys() == run.keys()
        assert all(np.array_equal(served[n], run[n]) for n in run), "the same graph, asked by a server"


def test_a_dump_that_is_there_stops_before_anything_is_compiled(generated):
    from argparse import ArgumentParser

    from parity_dump.max import add_cli

    parser = ArgumentParser()
    add_cli(parser.add_subparsers())
    args = parser.parse_args(["max", "-o", str(generated), "--", "generate", "--model-path", "m"])
    assert args.max_args[-3:] == ["generate", "--model-path", "m"]
    with pytest.raises(DumpExistsError):
        args.run(args)


# ---- taps as prints, on a small model ------------------------------------------------------------------------------


class Double(nn.Module):
    def __call__(self, x):
        return x * 2.0


class Narrow(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = Double()

    def __call__(self, x):
        return ops.cast(x, DType.bfloat16) + self.mlp(ops.cast(x, DType.bfloat16))


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.LayerList([Narrow()])
        self.norm = Double()

    def __call__(self, x):
        return self.norm(ops.cast(self.layers[0](x), DType.float32))


def dump_small(out, **options):
    """Dump two executes of :class:`Small` and return what they return themselves."""

    def make_writer(step, rank):
        return DumpWriter(out, dumper="test", step=step, rank=rank)

    with MaxHooks(StepRecorder(make_writer), scratch=out, **options):
        session = InferenceSession(devices=[CPU()])
        network = Small()
        network.load_state_dict({})
        model = session.load(network.trace(TensorType(DType.float32, ["tokens", 4], DeviceRef.CPU())))
        xs = [np.linspace(-3, 3, 4 * rows, dtype=np.float32).reshape(rows, 4) for rows in (3, 1)]
        return [[r.to_numpy() for r in model.execute(x)] for x in xs]


@pytest.mark.filterwarnings("ignore::parity_dump.errors.DumpWarning")
def test_prints_and_outputs_give_one_dump_for_each_execute_with_the_same_names_bits_and_results(tmp_path):
    results = {via: dump_small(tmp_path / via, via=via) for via in ("outputs", "prints")}
    for outputs, prints, rows in zip(results["outputs"], results["prints"], (3, 1), strict=True):
        assert len(outputs) == len(prints) == 1, "the model's own results, and they alone"
        np.testing.assert_array_equal(outputs[0], prints[0])
        x = np.linspace(-3, 3, 4 * rows, dtype=np.float32).reshape(rows, 4)
        np.testing.assert_allclose(prints[0], 6 * x, rtol=0.02)
    for step in ("step_0000", "step_0001"):
        outputs, prints = (tmp_path / via / step for via in ("outputs", "prints"))
        assert manifest(outputs)["tensors"] == manifest(prints)["tensors"]
        assert [(t["name"], t["dtype"]) for t in manifest(prints)["tensors"]] == [
            ("layer_00.mlp_out", "bfloat16"), ("layer_00", "bfloat16"), ("post_final_norm", "float32"),
        ]  # fmt: skip
        for name, x in tensors(outputs).items():
            assert x.tobytes() == tensors(prints)[name].tobytes(), name


# ---- a graph by hand -----------------------------------------------------------------------------------------------

DEVICE = DeviceRef.CPU()
TYPE = TensorType(DType.float32, ["tokens", 4], DEVICE)


@pytest.fixture(scope="module")
def hand_written(tmp_path_factory):
    """A graph with taps as outputs and, beside them, MAX's own prints; executed twice."""
    root = tmp_path_factory.mktemp("graph")
    session = InferenceSession(devices=[CPU()])
    (root / "debug").mkdir()
    session.set_debug_print_options("BINARY_MAX_CHECKPOINT", output_directory=root / "debug")
    with MaxTaps(root / "port", model={"num_layers": 2, "dtype": "float32"}) as taps:
        with Graph("by_hand", input_types=[TYPE]) as graph:
            x = taps.tap("post_embed", graph.inputs[0].tensor)
            x = tap("layer_00", x * 2.0)  # the function that works in every framework
            ops.print(x, "model.layers.layers.0-output")
            narrow = taps.tap("layer_00.mlp_out", ops.cast(x + 1.00390625, DType.bfloat16), source="by hand")
            ops.print(narrow, "model.layers.layers.0.mlp-output")
            x = taps.tap("layer_01", ops.cast(narrow, DType.float32) - 0.5)
            taps.tap('odd "name"/ä', x)
            taps.output(graph, ops.sum(x, axis=-1))
        model = taps.wrap(session.load(graph))
        with pytest.warns(UserWarning, match="prompt_tokens was not dumped"):
            results = [model.execute(np.full((rows, 4), value, np.float32)) for rows, value in ((3, 1.0), (1, 5.0))]
    return root, results


def test_taps_are_taken_off_the_results(hand_written):
    _, results = hand_written
    assert [len(r) for r in results] == [1, 1]
    np.testing.assert_array_equal(results[0][0].to_numpy(), np.full((3, 1), 10.0))  # 4 * (bf16(2 + 1.0039) - 0.5)


def test_values_and_dtypes_of_a_hand_written_graph(hand_written):
    root, _ = hand_written
    for step, rows, value in ((0, 3, 2.0), (1, 1, 10.0)):
        folder = root / "port" / f"step_{step:04d}"
        np.testing.assert_array_equal(np.load(folder / "layer_00.npy"), np.full((rows, 4), value, np.float32))
        entries = {t["name"]: t for t in manifest(folder)["tensors"]}
        assert list(entries) == ["post_embed", "layer_00", "layer_00.mlp_out", "layer_01", 'odd "name"/ä']
        assert entries["layer_00.mlp_out"]["dtype"] == "bfloat16" and entries["layer_00.mlp_out"]["source"] == "by hand"
    raw = np.load(root / "port" / "step_0000" / "layer_00.mlp_out.npy")
    np.testing.assert_array_equal(raw.view(np.uint16), np.full((3, 4), 0x4040))  # 3.0 in bfloat16


def test_maxs_own_debug_files_hold_the_same_bits_as_the_taps_of_the_last_execute(hand_written, tmp_path):
    root, _ = hand_written
    with pytest.warns(UserWarning, match="prompt_tokens was not dumped"):
        convert(root / "debug", tmp_path / "port")
    for name in ("layer_00", "layer_00.mlp_out"):
        a, b = (np.load(p / f"{name}.npy") for p in (tmp_path / "port", root / "port" / "step_0001"))
        assert a.tobytes() == b.tobytes() and a.shape == b.shape
    assert {t["dtype"] for t in manifest(tmp_path / "port")["tensors"]} == {"float32", "bfloat16"}


def test_the_example_runs(tmp_path):
    # MAX's Mojo runtime sets PYTHONEXECUTABLE behind os.environ's back: a child that inherits it leaves the environment.
    line = [sys.executable, PACKAGE / "examples" / "max_graph.py", "--out", tmp_path / "port"]
    subprocess.run(line, check=True, env=dict(os.environ))
    got = tensors(tmp_path / "port")
    np.testing.assert_array_equal(got["post_embed"], np.eye(16, dtype=np.float32)[[3, 1, 4]])
    np.testing.assert_allclose(got["layer_00"], got["post_embed"] + got["layer_00.mlp_out"], rtol=1e-6)


def test_a_tap_in_a_graph_needs_a_max_taps(tmp_path):
    with pytest.raises(DumpError, match="open a MaxTaps"), DumpWriter(tmp_path / "w", dumper="t") as w:
        w.add("prompt_tokens", np.arange(1))
        with Graph("wrong", input_types=[TYPE]) as graph:
            tap("layer_00", graph.inputs[0].tensor)


def test_a_graph_without_taps_and_a_model_without_graph_are_errors(tmp_path):
    taps = MaxTaps(tmp_path / "port")
    with Graph("untapped", input_types=[TYPE]) as graph, pytest.raises(DumpError, match="nothing was tapped"):
        taps.output(graph, graph.inputs[0])
    with pytest.raises(DumpError, match="finish its graph"):
        taps.wrap(object())
    with pytest.raises(DumpError, match="not a ndarray"), taps:
        tap("layer_00", [1.0])


def test_values_of_a_driver_buffer_are_copied():
    from max.driver import Buffer

    source = np.arange(4, dtype=np.float32)
    buffer = Buffer.from_numpy(source)
    array, dtype = to_numpy(buffer)
    source[:] = -1
    np.testing.assert_array_equal(array, np.arange(4))
    assert dtype == "float32"
