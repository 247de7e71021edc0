"""The writer: what a folder holds after a run that went well, and after one that did not."""

from __future__ import annotations

import json
import sys
import threading
import warnings

import numpy as np
import pytest

from parity_dump import (
    DiskFullError,
    DumpError,
    DumpExistsError,
    DumpTooLargeError,
    DumpWarning,
    DumpWriter,
    RankInfo,
    npyfile,
    recording,
    register_array_type,
    tap,
    to_numpy,
)


def manifest(folder):
    return json.loads((folder / "dump.json").read_text(encoding="utf-8"))


def tensors(folder):
    return {t["name"]: t for t in manifest(folder)["tensors"]}


def hidden(seed, rows=4, dims=3):
    return np.random.default_rng(seed).standard_normal((rows, dims)).astype(np.float32)


def fill(w, layers=2):
    w.add("prompt_tokens", np.arange(4))
    w.add("post_embed", hidden(0))
    for i in range(layers):
        w.add(f"layer_{i:02d}", hidden(i + 1))


def test_the_manifest_is_written_to_the_letter(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1764410400")
    with DumpWriter(
        tmp_path / "ref", dumper="my.script", framework={"name": "none"}, model={"num_layers": 1, "rms_eps": 1e-5, "x": np.nan},
        prompt={"text": "Grüße"}, rank=RankInfo(tp=(0, 1)),
    ) as w:  # fmt: skip
        w.add("prompt_tokens", np.arange(2))
        w.add("layer_00", np.zeros((2, 1), np.float32), source="h.0", inputs=["post_embed"])
    want = """{
  "schema": "parity.dump/1",
  "complete": true,
  "created": "2025-11-29T10:00:00Z",
  "dumper": {"name": "my.script", "version": "0.1.0"},
  "framework": {"name": "none"},
  "model": {"num_layers": 1, "rms_eps": 1e-05, "x": "NaN"},
  "mode": "prefill",
  "step": 0,
  "rank": {"index": 0, "world": 1, "tp": [0, 1]},
  "prompt": {"text": "Grüße"},
  "tensors": [
    {"name": "prompt_tokens", "file": "prompt_tokens.npy", "order": 0, "axes": ["token"], "dtype": "int64", "calls": 1, "shape": [2]},
    {"name": "layer_00", "file": "layer_00.npy", "order": 1, "source": "h.0", "axes": ["token", "hidden"], "dtype": "float32", "calls": 1, "shape": [2, 1], "inputs": ["post_embed"]}
  ]
}
"""  # noqa: E501
    assert (tmp_path / "ref" / "dump.json").read_text(encoding="utf-8") == want


def test_values_are_on_disk_when_add_returns_whatever_the_buffer_does_later(tmp_path):
    buffer = hidden(1)
    want = buffer.copy()
    with DumpWriter(tmp_path, dumper="t") as w:
        w.add("prompt_tokens", np.arange(4))
        w.add("layer_00", buffer)
        buffer[:] = 0
        assert not (tmp_path / "dump.json").exists(), "the manifest comes last"
    np.testing.assert_array_equal(np.load(tmp_path / "layer_00.npy"), want)


def test_an_exception_passes_through_and_leaves_complete_false(tmp_path):
    with pytest.raises(ZeroDivisionError), DumpWriter(tmp_path, dumper="t") as w:
        fill(w)
        raise ZeroDivisionError("in layer 2")
    m = manifest(tmp_path)
    assert m["complete"] is False and m["error"] == "ZeroDivisionError: in layer 2"
    assert len(m["tensors"]) == 4, "what was written is listed: it can be looked at"


def test_a_closed_dump_can_still_be_marked_as_failed(tmp_path):
    with DumpWriter(tmp_path, dumper="t") as w:
        fill(w)
    assert manifest(tmp_path)["complete"] is True
    w.fail(ValueError("afterwards"))
    m = manifest(tmp_path)
    assert (m["complete"], m["error"], len(m["tensors"])) == (False, "ValueError: afterwards", 4)
    with pytest.raises(DumpError, match="the dump is closed"):
        w.add("layer_02", hidden(9))


def test_layers_that_do_not_exist_are_no_success(tmp_path):
    with pytest.raises(DumpError, match="layers='30-40': the model has 30, counted from 0, and none of them is meant"):
        DumpWriter(tmp_path / "known", dumper="t", model={"num_layers": 30}, layers="30-40")
    warned = pytest.warns(DumpWarning, match="selected no layer that ran")
    with warned, DumpWriter(tmp_path / "unknown", dumper="t", layers="7") as w:
        fill(w)


def test_an_interrupt_leaves_complete_false_too(tmp_path):
    with pytest.raises(KeyboardInterrupt), DumpWriter(tmp_path, dumper="t") as w:
        fill(w)
        raise KeyboardInterrupt
    assert manifest(tmp_path)["complete"] is False


def test_a_dump_without_a_tensor_is_no_success(tmp_path):
    with pytest.raises(DumpError, match="no tensor was added; did the hooks fire"), DumpWriter(tmp_path, dumper="t"):
        pass
    assert manifest(tmp_path)["complete"] is False


def test_a_full_disk_ends_the_dump_and_says_so(tmp_path, monkeypatch):
    real = npyfile.write

    def full(path, array, descr):
        if path.name == "layer_01.npy":
            raise DiskFullError(f"writing {path}: no space left on device")
        return real(path, array, descr)

    monkeypatch.setattr(npyfile, "write", full)
    with pytest.raises(DiskFullError), DumpWriter(tmp_path, dumper="t") as w:
        fill(w)
    m = manifest(tmp_path)
    assert m["complete"] is False and "no space left" in m["error"]
    assert not (tmp_path / "layer_01.npy").exists()


def test_a_disk_too_full_for_the_manifest_leaves_none_and_tells_the_first_error(tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise DiskFullError("no space left on device")

    monkeypatch.setattr(npyfile, "write_atomically", full)
    with pytest.warns(DumpWarning, match="no space"), pytest.raises(DiskFullError), DumpWriter(tmp_path, dumper="t") as w:
        fill(w)
    assert list(tmp_path.iterdir()) == [], "no manifest: the folder itself says that the run did not end"


def test_the_limit_counts_whole_files(tmp_path):
    size = 128 + 4 * 12  # header and values of a [4, 3] float32
    no_ids = pytest.warns(DumpWarning, match="prompt_tokens was not")
    with no_ids, DumpWriter(tmp_path / "a", dumper="t", max_bytes=2 * size) as w:
        w.add("ids", np.arange(6))  # 128 + 8 * 6: as large
        w.add("layer_00", hidden(0))
        assert w.bytes_written == 2 * size == sum(f.stat().st_size for f in (tmp_path / "a").iterdir())
    with (
        pytest.raises(DumpTooLargeError, match=f"would hold {2 * size} bytes, over the limit of {2 * size - 1}"),
        DumpWriter(tmp_path / "b", dumper="t", max_bytes=2 * size - 1) as w,
    ):
        w.add("ids", np.arange(6))
        w.add("layer_00", hidden(0))
    assert manifest(tmp_path / "b")["complete"] is False


@pytest.mark.parametrize(("policy", "kept"), [("first", 1.0), ("last", 3.0)])
def test_a_place_that_fires_again_is_counted_and_loud(tmp_path, policy, kept):
    with (
        pytest.warns(DumpWarning, match=f"layer_00 was produced more than once in this run; the {policy} values"),
        DumpWriter(tmp_path, dumper="t", repeat=policy) as w,
    ):
        w.add("prompt_tokens", np.arange(4))
        for v in (1, 2, 3):
            w.add("layer_00", np.full((4, 3), v, np.float32))
    assert tensors(tmp_path)["layer_00"]["calls"] == 3
    assert np.load(tmp_path / "layer_00.npy")[0, 0] == kept
    assert "more than once" in manifest(tmp_path)["warnings"][0]


def test_a_repeat_can_be_an_error(tmp_path):
    with pytest.raises(DumpError, match="added before in this run"), DumpWriter(tmp_path, dumper="t", repeat="error") as w:
        w.add("layer_00", hidden(0))
        w.add("layer_00", hidden(1))


def test_replacing_values_does_not_count_their_bytes_twice(tmp_path):
    with pytest.warns(DumpWarning), DumpWriter(tmp_path, dumper="t", repeat="last") as w:
        w.add("prompt_tokens", np.arange(4))
        w.add("layer_00", hidden(0))
        w.add("layer_00", hidden(1))
        assert w.bytes_written == sum(f.stat().st_size for f in tmp_path.iterdir())


def test_an_old_dump_is_not_mixed_into(tmp_path):
    with DumpWriter(tmp_path, dumper="t") as w:
        fill(w, layers=3)
    with pytest.raises(DumpExistsError, match="is there already: choose another folder, or pass overwrite=True"):
        DumpWriter(tmp_path, dumper="t")
    with pytest.raises(DumpExistsError):
        DumpWriter(tmp_path, dumper="t", step=1)  # steps below a flat dump
    (tmp_path / "notes.txt").write_text("mine")
    with DumpWriter(tmp_path, dumper="t", overwrite=True) as w:
        fill(w, layers=1)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "dump.json", "layer_00.npy", "notes.txt", "post_embed.npy", "prompt_tokens.npy",
    ], "layers of the old run are gone, other people's files are not"  # fmt: skip


def test_overwriting_clears_steps_and_ranks_below(tmp_path):
    for step in (0, 1):
        with DumpWriter(tmp_path, dumper="t", step=step, rank={"index": 0, "world": 2}) as w:
            fill(w)
    with pytest.raises(DumpExistsError):
        DumpWriter(tmp_path, dumper="t")
    with DumpWriter(tmp_path, dumper="t", overwrite=True) as w:
        fill(w)
    assert list(tmp_path.rglob("dump.json")) == [tmp_path / "dump.json"]


def test_ranks_write_beside_each_other(tmp_path):
    for i in (0, 1):
        shard = {"axis": "hidden", "index": i, "count": 2, "kind": "concat"}
        with DumpWriter(tmp_path, dumper="t", step=3, rank=RankInfo(i, 2, tp=(i, 2))) as w:
            w.add("prompt_tokens", np.arange(4))
            w.add("layer_00", hidden(i), shard=shard)
    folder = tmp_path / "step_0003" / "rank_01"
    assert manifest(folder)["rank"] == {"index": 1, "world": 2, "tp": [1, 2]}
    assert manifest(folder)["step"] == 3
    assert tensors(folder)["layer_00"]["shard"] == shard


def test_layers_are_sampled_by_name(tmp_path):
    with DumpWriter(tmp_path, dumper="t", layers="0,last", model={"num_layers": 4}) as w:
        fill(w, layers=4)
        w.add("layer_01.q", hidden(9))
        w.add("layer_03.q", hidden(9))
    assert list(tensors(tmp_path)) == ["prompt_tokens", "post_embed", "layer_00", "layer_03", "layer_03.q"]
    assert manifest(tmp_path)["layers"] == "0,last"
    with pytest.raises(DumpError, match="to know the last"):
        DumpWriter(tmp_path / "x", dumper="t", layers="last")


def test_rows_are_sampled_alike_on_every_token_axis(tmp_path):
    probs = np.arange(2 * 4 * 4, dtype=np.float32).reshape(2, 4, 4)
    with DumpWriter(tmp_path, dumper="t", tokens="0,last") as w:
        w.add("prompt_tokens", np.array([5, 6, 7, 8]))
        w.add("attention_mask", np.ones(4, np.int64))
        w.add("layer_00.attn_probs", probs)
        w.add("layer_00", hidden(0))
        w.add("last_logits", np.zeros(9, np.float32))
    np.testing.assert_array_equal(np.load(tmp_path / "layer_00.npy"), hidden(0)[[0, 3]])
    np.testing.assert_array_equal(np.load(tmp_path / "layer_00.attn_probs.npy"), probs[:, [0, 3], :])
    assert np.load(tmp_path / "attention_mask.npy").shape == (4,), "a mask lies over keys, which are not sampled"
    assert np.load(tmp_path / "last_logits.npy").shape == (9,)
    assert manifest(tmp_path)["tokens"] == [0, 3]
    assert manifest(tmp_path)["prompt"]["token_ids"] == [5, 6, 7, 8], "the ids stay known in full"


def test_rows_that_do_not_exist_are_an_error_and_decode_steps_keep_their_row(tmp_path):
    with pytest.raises(DumpError, match="selects none of its 4 rows"), DumpWriter(tmp_path / "a", dumper="t", tokens="9") as w:
        w.add("layer_00", hidden(0))
    with DumpWriter(tmp_path / "b", dumper="t", tokens="9", mode="incremental", step=2) as w:
        w.add("prompt_tokens", np.array([3]))
        w.add("layer_00", hidden(0, rows=1))
    assert np.load(w.path / "layer_00.npy").shape == (1, 3)


def test_bfloat16_keeps_its_bits_or_is_widened_by_choice(tmp_path):
    bits = np.array([[0x3F80, 0x4049]], np.uint16)  # 1 and 3.140625
    for storage, descr in (("native", b"'<V2'"), ("float32", b"'<f4'")):
        with DumpWriter(tmp_path / storage, dumper="t", storage=storage, model={"dtype": "bfloat16"}) as w:
            w.add("prompt_tokens", np.arange(1))
            w.add("layer_00", bits, dtype="bfloat16")
        assert descr in (tmp_path / storage / "layer_00.npy").read_bytes()[:64]
        assert tensors(tmp_path / storage)["layer_00"]["dtype"] == "bfloat16"
    assert np.load(tmp_path / "float32" / "layer_00.npy").tolist() == [[1.0, 3.140625]]


def test_odd_names_get_safe_files_and_keep_their_names(tmp_path):
    with DumpWriter(tmp_path, dumper="t") as w:
        w.add("prompt_tokens", np.arange(4))
        w.add("../escape", hidden(0))
        w.add("Q", hidden(0))
        w.add("q", hidden(1))
    assert {n: t["file"] for n, t in tensors(tmp_path).items()} == {
        "prompt_tokens": "prompt_tokens.npy", "../escape": "%2E.%2Fescape.npy", "Q": "Q.npy", "q": "q~2.npy",
    }  # fmt: skip


def test_facts_that_are_known_late_can_be_added_and_placed(tmp_path):
    with DumpWriter(tmp_path, dumper="t") as w:
        fill(w, layers=1)
        w.add("layer_00.q", hidden(5))
        w.annotate("layer_00.q", columns="half_split")
        w.annotate("absent", columns="half_split")
        w.add("layer_00.input_norm", hidden(6), before="layer_00.q")
        assert w.entry("layer_00.q")["columns"] == "half_split"
    got = [(t["name"], t["order"]) for t in manifest(tmp_path)["tensors"]]
    assert got == [
        ("prompt_tokens", 0), ("post_embed", 1), ("layer_00", 2), ("layer_00.input_norm", 3), ("layer_00.q", 4),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"mode": "x"}, "mode 'x'"),
        ({"storage": "x"}, "storage 'x'"),
        ({"repeat": "x"}, "repeat 'x'"),
        ({"layers": "x"}, "layers="),
    ],
)
def test_options_that_cannot_be_are_refused_before_the_folder_is_made(tmp_path, options, why):
    with pytest.raises(DumpError, match=why):
        DumpWriter(tmp_path / "ref", dumper="t", **options)
    assert not (tmp_path / "ref").exists()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"axes": ["token"]}, r"1 axes \('token',\) for an array of shape \(4, 3\)"),
        ({"columns": "odd"}, "columns 'odd'"),
        ({"shard": {"kind": "odd"}}, "shard kind 'odd'"),
        ({"dtype": "bfloat16", "array": np.zeros((4, 3), np.int8)}, "adding layer_00: .*expected its bits"),
    ],
)
def test_a_tensor_that_cannot_be_described_is_refused(tmp_path, options, why):
    array = options.pop("array", hidden(0))
    with pytest.raises(DumpError, match=why), DumpWriter(tmp_path, dumper="t") as w:
        w.add("layer_00", array, **options)
    assert not (tmp_path / "layer_00.npy").exists()


def test_nothing_can_be_added_to_a_closed_dump(tmp_path):
    with DumpWriter(tmp_path, dumper="t") as w:
        fill(w)
    w.close()
    with pytest.raises(DumpError, match="the dump is closed"):
        w.add("layer_02", hidden(0))


def test_threads_may_add_at_once(tmp_path):
    with DumpWriter(tmp_path, dumper="t", model={"num_layers": 40}) as w:
        w.add("prompt_tokens", np.arange(4))
        threads = [threading.Thread(target=w.add, args=(f"layer_{i:02d}", hidden(i))) for i in range(40)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    for i in range(40):
        np.testing.assert_array_equal(np.load(tmp_path / f"layer_{i:02d}.npy"), hidden(i))


# ---- taps placed by hand


def test_a_tap_is_an_identity_that_works_only_inside_a_dump(tmp_path):
    x = hidden(0)
    assert tap("layer_00", x) is x, "outside a dump it does nothing"
    with DumpWriter(tmp_path, dumper="t") as w:
        tap("prompt_tokens", np.arange(4))
        assert tap("layer_00", x) is x
        with recording() as seen:
            tap("inner", x)
    assert w.names == ["prompt_tokens", "layer_00"]
    array, dtype = seen["inner"]
    x[:] = 9
    assert dtype == "float32" and not (array == 9).any(), "a recording keeps a copy"


def test_a_tap_of_an_unknown_framework_goes_through_its_registered_converter(tmp_path):
    class Strange:
        pass

    Strange.__module__ = "strange_engine.tensors"
    register_array_type("strange_engine", lambda x: (np.array([[0x3F80]], np.uint16), "bfloat16"))
    with DumpWriter(tmp_path, dumper="t") as w:
        w.add("prompt_tokens", np.arange(1))
        tap("layer_00", Strange())
    assert tensors(tmp_path)["layer_00"]["dtype"] == "bfloat16"


def test_to_numpy_copies_and_refuses_what_is_no_array():
    x = hidden(0)
    array, dtype = to_numpy(x)
    x[:] = 0
    assert dtype == "float32" and array.any()
    assert to_numpy([1, 2])[0].tolist() == [1, 2]
    with pytest.raises(DumpError):
        to_numpy({"a": 1})


def test_importing_the_package_imports_no_framework():
    assert not {"torch", "jax", "max", "onnx", "onnxruntime", "llama_cpp"} & set(sys.modules)


def test_a_clean_dump_warns_of_nothing(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with DumpWriter(tmp_path, dumper="t", model={"num_layers": 2, "dtype": "float32"}) as w:
            fill(w)
    assert "warnings" not in manifest(tmp_path)
