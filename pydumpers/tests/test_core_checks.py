"""The doubts that a finished dump has about itself: one for each known mistake of capturing."""

from __future__ import annotations

import numpy as np
import pytest

from parity_dump import DumpWarning, DumpWriter


def hidden(seed, rows=4):
    return np.random.default_rng(seed).standard_normal((rows, 3)).astype(np.float32)


BASE = {"prompt_tokens": np.arange(4), "post_embed": hidden(0), "layer_00": hidden(1), "layer_01": hidden(2),
        "layer_02": hidden(3), "post_final_norm": hidden(4)}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "model", "doubt"),
    [
        ({"prompt_tokens": None}, {}, "prompt_tokens was not dumped"),
        ({"layer_01": None}, {}, r"no output of layer 1 was dumped \(2 layers were\)"),
        ({}, {"num_layers": 5}, "no output of layer 3, 4 was dumped"),
        ({}, {"num_layers": 2}, "layer 2 was dumped, but the model has 2 layers"),
        ({"layer_01": hidden(1)}, {}, "layer_00 and layer_01 are identical to the bit: a view of a buffer"),
        ({"layer_00": hidden(0)}, {}, r"layer_00 is identical to post_embed: .*\(index off by one\)"),
        ({"layer_02": hidden(4)}, {}, "layer_02 is identical to post_final_norm: the last entry is after the final norm"),
        ({"layer_01": hidden(2, rows=5)}, {}, r"prompt_tokens has 4 rows, but 1 checkpoints have others: layer_01 \[5, 3\]"),
        ({"layer_01": hidden(2).astype(np.float64)}, {"dtype": "float32"}, r"1 of 5 float tensors are not float32.*1 float64"),
        ({"extra": np.zeros((0, 3), np.float32)}, {}, "1 checkpoints hold no value: extra"),
    ],
    ids=["no ids", "gap", "too few", "too many", "reused buffer", "index offset", "after norm", "rows", "promoted", "empty"],
)
def test_each_mistake_is_named(tmp_path, change, model, doubt):
    with pytest.warns(DumpWarning, match=doubt), DumpWriter(tmp_path, dumper="t", model=model) as w:
        for name, array in {**BASE, **change}.items():
            if array is not None:
                w.add(name, array)
    assert len(w.warnings) == 1, "one mistake, one doubt"


def test_sub_taps_may_have_another_dtype_while_they_are_few(tmp_path):
    """Router logits and softmax are often float32 in a 16-bit model; that alone is no promotion."""
    with DumpWriter(tmp_path, dumper="t", model={"dtype": "float16"}) as w:
        for name, array in BASE.items():
            w.add(name, array if array.dtype.kind == "i" else array.astype(np.float16))
        w.add("layer_00.router_logits", hidden(9))
    assert w.warnings == []


def test_constant_layers_of_a_shard_by_tokens_are_not_missed_rows(tmp_path):
    with DumpWriter(tmp_path, dumper="t", rank={"index": 0, "world": 2, "sp": [0, 2]}) as w:
        w.add("prompt_tokens", np.arange(4))
        w.add("layer_00", hidden(1, rows=2), shard={"axis": "token", "index": 0, "count": 2, "kind": "concat"})
    assert w.warnings == []
