"""The hooks that tap a MAX pipeline, on small models that are traced but never compiled."""

import re
import struct
from contextlib import contextmanager

import engine_support  # noqa: F401  # puts the package on PYTHONPATH, for processes that a test starts
import numpy as np
import pytest
from max import nn
from max.driver import Buffer
from max.dtype import DType
from max.engine import Model
from max.graph import DeviceRef, TensorType, ops

from parity_dump import DumpWriter
from parity_dump.errors import DumpError, DumpWarning
from parity_dump.max import command, environment, model_facts
from parity_dump.max_file import MAGIC
from parity_dump.max_hooks import PATCHES, MaxHooks
from parity_dump.max_taps import GraphTaps, Result, StepRecorder, split_results

DEVICE = DeviceRef.CPU()
IDS = TensorType(DType.int64, ["tokens"], DEVICE)
X = TensorType(DType.float32, ["tokens", 8], DEVICE)


class Embed(nn.Module):
    def __call__(self, ids):
        return ops.broadcast_to(ops.unsqueeze(ops.cast(ids, DType.float32), -1), ["tokens", 8])


class Scale(nn.Module):
    def __call__(self, x):
        return x * 2.0


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm, self.self_attn = Scale(), Scale()
        self.post_attention_layernorm, self.mlp = Scale(), Scale()

    def __call__(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class PairBlock(Block):
    """A layer that leaves the last addition to the next one."""

    def __call__(self, x):
        return self.mlp(x), x


class Network(nn.Module):
    def __init__(self, block=Block, layers=2):
        super().__init__()
        self.embed_tokens, self.norm, self.lm_head = Embed(), Scale(), Scale()
        self.layers = nn.LayerList([block() for _ in range(layers)])

    def __call__(self, ids):
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x)
            x = x[0] + x[1] if isinstance(x, tuple) else x
        return self.lm_head(self.norm(x))


def recorder(out, only=None):
    return StepRecorder(lambda step, rank: DumpWriter(out, dumper="test", step=step, rank=rank), only)


def result_names(graph):
    return [str(a).strip('"') for a in graph._mlir_op.attributes["result_names"]]


@contextmanager
def hooked(tmp_path, **options):
    with MaxHooks(recorder(tmp_path), **options) as hooks:
        yield hooks


def test_every_layer_of_a_v2_model_becomes_an_output_under_its_checkpoints_name(tmp_path):
    network = Network()
    with hooked(tmp_path) as hooks:
        network.load_state_dict({})
        names = result_names(network.trace(IDS))
    assert names[0] == "output0"
    taps = ["input_norm", "attn_out", "ffn_inp", "post_attn_norm", "mlp_out"]
    layers = [f"layer_{i:02d}{t}" for i in range(2) for t in [f".{t}" for t in taps] + [""]]
    expected = ["prompt_tokens", "post_embed", *layers, "post_final_norm", "logits"]
    assert [n.removeprefix("parity:0/1:") for n in names[1:]] == expected
    assert hooks.recorder.announced == len(expected)


def test_everything_is_put_back_on_leaving(tmp_path):
    import importlib
    from functools import reduce

    def current():
        owners = (reduce(getattr, filter(None, p.owner.split(".")), importlib.import_module(p.module)) for p in PATCHES)
        return [getattr(o, p.name) for o, p in zip(owners, PATCHES, strict=True)]

    before = current()
    with pytest.raises(RuntimeError, match="inside"), hooked(tmp_path):
        assert all(a is not b for a, b in zip(before, current(), strict=True))
        raise RuntimeError("inside")
    assert current() == before
    assert result_names(Network().trace(IDS)) == ["output0"]


def test_layers_are_selected_at_trace_time_so_that_the_others_cost_nothing(tmp_path):
    with hooked(tmp_path, layers="last", num_layers=3):
        names = result_names(Network(layers=3).trace(IDS))
    assert {n.split(":")[2].split(".")[0] for n in names[1:] if "layer_" in n} == {"layer_02"}


def test_modules_without_a_standard_name_are_tapped_on_request(tmp_path):
    class Odd(Network):
        def __init__(self):
            super().__init__()
            self.peculiar = Scale()

        def __call__(self, ids):
            return self.peculiar(super().__call__(ids))

    with hooked(tmp_path):
        assert not any("peculiar" in n for n in result_names(Odd().trace(IDS)))
    with hooked(tmp_path, everything=True):
        assert "parity:0/1:peculiar" in result_names(Odd().trace(IDS))


def test_a_hidden_and_residual_pair_is_summed_and_both_halves_are_kept(tmp_path):
    with hooked(tmp_path):
        names = result_names(Network(PairBlock).trace(IDS))
    assert [f"parity:0/1:layer_00{part}" in names for part in (".hidden", ".residual", "")] == [True] * 3


def test_a_module_called_twice_keeps_both_calls_apart(tmp_path):
    class Twice(Network):
        def __call__(self, ids):
            return self.norm(super().__call__(ids))

    with hooked(tmp_path):
        names = result_names(Twice().trace(IDS))
    assert "parity:0/1:post_final_norm" in names and "parity:0/1:post_final_norm.call_2" in names


def test_floats_are_cast_in_the_graph_on_request_and_the_logical_dtype_stays(tmp_path):
    class Narrow(Network):
        def __call__(self, ids):
            x = ops.cast(self.embed_tokens(ids), DType.bfloat16)
            return self.layers[0](x)

    for cast, expected in ((None, DType.bfloat16), ("float32", DType.float32)):
        with hooked(tmp_path, cast=cast) as hooks:
            graph = Narrow().trace(IDS)
        at = result_names(graph).index("parity:0/1:layer_00")
        assert graph.output_types[at].dtype == expected
        assert hooks.recorder._known[graph.name]["layer_00"].dtype == "bfloat16"


def test_what_lies_in_a_subgraph_is_said_to_be_lost(tmp_path):
    class Shared(Network):
        def __call__(self, ids):
            x = self.embed_tokens(ids)
            body = self.layers[0].build_subgraph("block", [x])
            return ops.call(body, x)[0]

    with hooked(tmp_path) as hooks:
        names = result_names(Shared().trace(IDS))
        assert "parity:0/1:post_embed" in names and not any("layer_" in n for n in names)
        hooks.recorder.written.append(tmp_path)
        with pytest.warns(DumpWarning, match="inside subgraph block were not dumped.*--no-use-subgraphs"):
            hooks.check()


def test_a_pipeline_in_which_nothing_was_tapped_or_nothing_ran_is_no_success(tmp_path):
    with hooked(tmp_path) as hooks, pytest.raises(DumpError, match="no known layer was traced"):
        hooks.check()
    with hooked(tmp_path) as hooks:
        Network().trace(IDS)
        with pytest.raises(DumpError, match="never executed"):
            hooks.check()


@pytest.mark.parametrize("kind", ["plain list", "ModuleList"])
def test_v3_modules_are_tapped_and_their_subgraphs_inlined(tmp_path, kind):
    from max.experimental import compilation
    from max.experimental.nn import Module, ModuleList

    class Layer(Module):
        def forward(self, x):
            return x * 2.0

    class Net(Module):
        def __init__(self):
            self.layers = [Layer(), Layer()] if kind == "plain list" else ModuleList([Layer(), Layer()])
            self.norm = Layer()

        def forward(self, x):
            for layer in self.layers:
                x = compilation.as_subgraph(layer, name="layer")(x)
            return self.norm(x)

    class Outer(Module):
        def __init__(self):
            self.language_model = Net()

        def forward(self, x):
            return self.language_model(x)

    with hooked(tmp_path):
        names = result_names(Outer().trace(X).graph)
    assert [n.removeprefix("parity:0/1:") for n in names] == ["output0", "layer_00", "layer_01", "post_final_norm"]


def test_logits_of_a_tied_head_are_taken_from_the_models_own_output(tmp_path):
    class TiedEmbed(Embed):
        def __init__(self):
            super().__init__()
            self.weight = np.zeros((8, 8))  # the vocabulary has as many words as the stream has dims here

    class Tied(Network):
        def __init__(self):
            super().__init__()
            self.embed_tokens = TiedEmbed()

        def __call__(self, ids):
            return self.norm(self.layers[0](self.embed_tokens(ids)))

    with hooked(tmp_path):
        assert result_names(Tied().trace(IDS))[-1] == "parity:0/1:logits"


def test_a_transparent_child_of_v3_does_not_pass_for_its_parent(tmp_path):
    from max.experimental.nn import Module

    class Fused(Module):
        name_transparent = True

        def forward(self, x):
            return x * 3.0

    class Attention(Module):
        def __init__(self):
            self.qkv_proj = Fused()

        def forward(self, x):
            return self.qkv_proj(x)

    class Net(Module):
        def __init__(self):
            self.layers = [type("Layer", (Module,), {"forward": lambda self, x: self.self_attn(x)})()]
            self.layers[0].self_attn = Attention()

        def forward(self, x):
            return self.layers[0](x)

    with hooked(tmp_path) as hooks:
        net = Net()
        hooks.name_v3(net)
        paths = [path for _, path in hooks._paths.values()]
    assert paths == ["layers.0", "layers.0.self_attn", "layers.0.self_attn.qkv_proj"]


# ---- taps as prints ------------------------------------------------------------------------------------------------


class Fake:
    """A loaded model and its session: the model writes into the folder that the session was told, as MAX does."""

    def __init__(self, graph, values):
        self.name, self.values = graph.name, values
        self.told = []

    def set_debug_print_options(self, style, output_directory=None):
        self.told.append((style, output_directory))

    def execute(self):
        style, folder = self.told[-1]
        assert style == "BINARY_MAX_CHECKPOINT"
        for label, array in self.values.items():
            raw = np.asarray(array, "<f4")
            key = label.encode()
            meta = 4 + len(key) + 2 + 4 * raw.ndim + 8
            head = MAGIC + struct.pack("<IIQI", 0, 1, meta, len(key)) + key
            head += struct.pack(f"<BB{raw.ndim}IQ", 81, raw.ndim, *raw.shape, 24 + meta)
            (folder / f"{label}.max").write_bytes(head + raw.tobytes())
        return ["logits"]


def test_a_graph_with_prints_keeps_its_outputs_and_its_labels_are_plain_and_its_own(tmp_path):
    printed = []
    for _ in range(2):  # MAX's compile cache knows a graph again only where the labels are the same each time
        with hooked(tmp_path, via="prints", everything=True, scratch=tmp_path / "scratch") as hooks:
            graph = Network(layers=1).trace(IDS)
            taps = hooks.recorder.taps_of(graph.name)
        assert result_names(graph) == ["output0"]
        printed.append([label for t in taps.values() for label in t.labels])
    assert printed[0] == printed[1] and len(set(printed[0])) == len(taps)
    assert all(re.fullmatch(r"[0-9a-f]{8}-\d{5}-[\w.]+", label) for label in printed[0])
    assert str(graph).count("mo.debug.tensor.print") == len(taps)


def printed_steps(tmp_path, labels=None):
    """Run a fake model twice whose layer_00 is printed; return the writer's folder of steps."""
    with hooked(tmp_path / "port", via="prints", scratch=tmp_path / "scratch", layers="0") as hooks:
        graph = Network(layers=1).trace(IDS)
        taps = hooks.recorder.taps_of(graph.name)
        every = {t.labels[0]: np.full((2, 3), i, np.float32) for i, t in enumerate(taps.values())}
        model = Fake(graph, every if labels is None else {})
        hooks.prints.add_session(model)
        assert model.told == [("NONE", None)], "nothing is printed until something tapped runs"
        for step in range(2):
            model.values = {label: x + 10 * step for label, x in model.values.items()}
            assert hooks.execute(model, lambda m: m.execute(), ()) == ["logits"]
            assert model.told[-1] == ("NONE", None)
    return [*taps]


@pytest.mark.filterwarnings("ignore::parity_dump.errors.DumpWarning")
def test_each_execute_reads_its_own_prints_and_leaves_no_file_behind(tmp_path):
    names = printed_steps(tmp_path)
    for step in range(2):
        for i, name in enumerate(names):
            x = np.load(tmp_path / "port" / f"step_{step:04d}" / f"{name}.npy")
            np.testing.assert_array_equal(x, np.full((2, 3), i + 10 * step))
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_value_that_max_did_not_print_is_an_error_and_not_a_smaller_dump(tmp_path):
    import json

    with pytest.raises(DumpError, match=r"MAX printed for prompt_tokens: it did not write .*disk is full"):
        printed_steps(tmp_path, labels=())
    assert list((tmp_path / "scratch").iterdir()) == []
    steps = list((tmp_path / "port").glob("step_*/dump.json"))
    assert all(json.loads(s.read_text())["complete"] is False for s in steps)


def test_another_way_for_taps_is_refused(tmp_path):
    with pytest.raises(DumpError, match="via='files' is not one of outputs, prints"):
        MaxHooks(recorder(tmp_path), via="files")


# ---- results and steps ---------------------------------------------------------------------------------------------


def test_results_are_told_apart_by_name_only():
    own, tapped = split_results(["output0", "parity:1/2:layer_00", "output2"], ["a", "b", "c"])
    assert own == ["a", "c"]
    assert tapped == [Result(1, 2, "layer_00", "b")]
    with pytest.raises(DumpError, match="2 results, but 1 output names"):
        split_results(["output0"], ["a", "b"])


def buffer(values):
    return Buffer.from_numpy(np.asarray(values))


def one(name, values, rank=0, world=1):
    return Result(rank, world, name, buffer(values))


def tokens(n=2):
    return one("prompt_tokens", np.arange(n))


def announced(out, *graphs, only=None):
    r = recorder(out, only)
    for g in graphs:
        r.announce(GraphTaps(g))
    return r


def test_a_step_ends_when_each_graph_has_run_and_a_new_one_begins_when_one_runs_again(tmp_path):
    r = announced(tmp_path, "vision", "decoder")
    r.record("vision", [one("tower_out", np.ones((2, 4), np.float32))])
    assert r.written == []
    r.record("decoder", [tokens(), one("layer_00", np.ones((2, 4), np.float32))])
    assert [p.name for p in r.written] == ["step_0000"], "written at once: a server is killed, not closed"
    r.record("decoder", [tokens(1), one("layer_00", np.ones((1, 4), np.float32))])
    r.record("decoder", [tokens(1), one("layer_00", np.ones((1, 4), np.float32) * 2)])
    r.end_step()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step_0000", "step_0001", "step_0002"]
    assert (tmp_path / "step_0000" / "tower_out.npy").exists() and (tmp_path / "step_0000" / "layer_00.npy").exists()


def test_only_the_steps_asked_for_are_written(tmp_path):
    r = announced(tmp_path, "decoder", only="1")
    for _ in range(3):
        r.record("decoder", [tokens(), one("layer_00", np.zeros((2, 3), np.float32))])
    assert [p.name for p in tmp_path.iterdir()] == ["step_0001"]


def test_logits_of_one_position_are_last_logits(tmp_path):
    r = announced(tmp_path, "decoder")
    r.record("decoder", [tokens(), one("logits", np.arange(5, dtype=np.float32)[None])])
    np.testing.assert_array_equal(np.load(tmp_path / "step_0000" / "last_logits.npy"), np.arange(5))


def test_values_of_each_device_go_to_their_rank(tmp_path):
    r = announced(tmp_path, "decoder")
    values = [one(n, np.full((2, 3), rank, np.float32), rank, 2) for rank in (0, 1) for n in ("layer_00",)]
    with pytest.warns(DumpWarning, match="prompt_tokens was not dumped"):
        r.record("decoder", values)
    for rank in (0, 1):
        x = np.load(tmp_path / "step_0000" / f"rank_{rank:02d}" / "layer_00.npy")
        np.testing.assert_array_equal(x, np.full((2, 3), rank))


def test_a_result_that_cannot_be_written_marks_the_step_incomplete(tmp_path):
    import json

    r = StepRecorder(lambda step, rank: DumpWriter(tmp_path, dumper="test", step=step, rank=rank, max_bytes=300))
    r.announce(GraphTaps("decoder"))
    with pytest.raises(DumpError, match="over the limit"):
        r.record("decoder", [tokens(), one("layer_00", np.zeros((64, 64), np.float32))])
    assert json.loads((tmp_path / "step_0000" / "dump.json").read_text())["complete"] is False


class FakeModel:
    """What the hooks ask a loaded model."""

    name = "decoder"

    class Spec:
        def __init__(self, name):
            self.name = name

    def __init__(self, *names):
        self.output_metadata = [self.Spec(n) for n in names]


def test_a_model_without_taps_passes_through_untouched(tmp_path):
    with hooked(tmp_path) as hooks:
        results = [object()]
        assert hooks.results(FakeModel("output0"), results) is results


def test_model_call_goes_through_execute():
    # The hooks wrap Model.execute alone; were Model.__call__ another road, V3 pipelines would not be seen.
    assert "execute" in Model.__call__.__code__.co_names


# ---- the command ---------------------------------------------------------------------------------------------------


def test_the_command_line_of_max_is_kept_and_subgraphs_are_turned_off():
    assert command(["generate", "--prompt", "x"])[1:] == [
        "-m", "parity_dump.max_main", "generate", "--prompt", "x", "--no-use-subgraphs",
    ]  # fmt: skip
    assert "--no-use-subgraphs" not in command(["generate", "--use-subgraphs"])
    assert command(["list"])[3:] == ["list"]


STAND_IN = """
import multiprocessing, sys
import max._entrypoints.pipelines

def worker(path):
    from max.engine import Model
    with open(path, "w") as f:
        f.write(str(hasattr(Model.execute, "__wrapped__")))

def main():
    process = multiprocessing.get_context("spawn").Process(target=worker, args=(sys.argv[-1],))
    process.start()
    process.join()

max._entrypoints.pipelines.main = main
"""


def test_a_process_that_serve_spawns_has_the_hooks_too(tmp_path):
    """What a hook in the parent alone would miss without an error: here max's main is replaced by one that spawns."""
    import os
    import subprocess

    (tmp_path / "sitecustomize.py").write_text("import stand_in")
    (tmp_path / "stand_in.py").write_text(STAND_IN)
    path = os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]])
    env = {**os.environ, "PYTHONPATH": path, **environment({"out": tmp_path / "port"})}
    line = command(["serve", "--no-use-subgraphs", str(tmp_path / "seen")])
    done = subprocess.run(line, env=env, capture_output=True, text=True)
    assert done.returncode == 1 and "nothing was written" in done.stderr, "the stand-in serves no request"
    assert (tmp_path / "seen").read_text() == "True"


def test_a_server_that_wrote_nothing_is_no_success(tmp_path):
    from parity_dump.max_main import served

    with pytest.raises(DumpError, match=r"nothing was written to .*Was a request sent"):
        served(tmp_path)
    with pytest.warns(DumpWarning), DumpWriter(tmp_path, dumper="t", step=0) as w:
        w.add("layer_00", np.zeros((1, 1), np.float32))
    assert served(tmp_path) == [tmp_path / "step_0000"]


def test_options_travel_in_the_environment_with_an_absolute_folder(tmp_path, monkeypatch):
    import json

    monkeypatch.chdir(tmp_path)
    (value,) = environment({"out": "port", "steps": "0-3"}).values()
    assert json.loads(value) == {"out": str(tmp_path / "port"), "steps": "0-3"}


def test_model_facts_come_from_the_local_config_and_the_command_line(tmp_path):
    (tmp_path / "config.json").write_text('{"num_hidden_layers": 3, "torch_dtype": "bfloat16", "hidden_size": 8}')
    facts = model_facts(["generate", f"--model-path={tmp_path}", "--quantization-encoding", "float32"])
    assert facts == {"id": tmp_path.name, "num_layers": 3, "hidden_size": 8, "dtype": "float32"}
    assert model_facts(["generate", "--model", "org/name"]) == {"id": "org/name"}


