"""Names, selections, ranks and sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity_dump import DumpError, DumpTooLargeError, RankInfo, rank_dir, step_dir
from parity_dump.errors import DiskFullError
from parity_dump.estimate import check_room, estimate_bytes, human
from parity_dump.names import default_axes, file_name, layer_name, split_layer
from parity_dump.ranks import check_shard
from parity_dump.selection import Selection


def test_layers_have_two_digits_at_least_and_split_again():
    assert [layer_name(0), layer_name(7, "attn_out"), layer_name(123)] == ["layer_00", "layer_07.attn_out", "layer_123"]
    assert [split_layer(n) for n in ("layer_07", "layer_07.attn_out", "post_embed", "xlayer_07")] == [
        (7, None), (7, "attn_out"), (None, None), (None, None),
    ]  # fmt: skip
    with pytest.raises(DumpError, match="counts from 0"):
        layer_name(-1)


def test_standard_names_have_axes_by_their_dimensions():
    assert default_axes("layer_00", 2) == ("token", "hidden")
    assert default_axes("layer_00.q", 2) == ("token", "hidden")
    assert default_axes("layer_00.q", 3) == ("token", "head", "head_dim")
    assert default_axes("layer_00.attn_probs", 3) == ("head", "token", "key")
    assert default_axes("layer_00", 3) is None
    assert default_axes("something", 2) is None


def test_file_names_are_safe_and_distinct_on_a_file_system_without_case():
    taken: set[str] = set()
    got = [file_name(n, taken) for n in ("layer_00", "a/b", "Ä", ".hidden", "Q", "q", "q")]
    assert got == ["layer_00.npy", "a%2Fb.npy", "%C3%84.npy", "%2Ehidden.npy", "Q.npy", "q~2.npy", "q~3.npy"]
    for bad in ("", "a\0b", "a\nb", "x" * 201):
        with pytest.raises(DumpError, match="adding checkpoint"):
            file_name(bad, taken)


@pytest.mark.parametrize(
    ("text", "count", "want"),
    [
        ("0", 5, [0]),
        ("0-2,last", 6, [0, 1, 2, 5]),
        ("last", 3, [2]),
        ("3-last", 6, [3, 4, 5]),
        ("0-last:2", 6, [0, 2, 4]),
        ("4, 1", 6, [1, 4]),
        ("7", 3, []),
        ("1-9", 3, [1, 2]),
    ],
)
def test_a_selection_lists_indices(text, count, want):
    s = Selection.parse(text, "layers")
    assert s.indices(count) == want
    assert [i for i in range(count) if s.has(i, count)] == want


@pytest.mark.parametrize("text", ["", "a", "3-1", "1,,2", "-1", "last-3", "0-4:0"])
def test_a_selection_that_selects_nothing_or_cannot_be_read_is_refused(text):
    with pytest.raises(DumpError, match="parsing layers="):
        Selection.parse(text, "layers")


def test_last_needs_the_number_of_layers():
    assert Selection.parse("0-3:2", "layers").has(2, None)
    assert not Selection.parse("0-3:2", "layers").has(3, None)
    with pytest.raises(DumpError, match="needs the number of layers"):
        Selection.parse("0,last", "layers").has(7, None)


def test_steps_and_ranks_nest():
    assert step_dir("ref", None) == Path("ref")
    assert step_dir("ref", 12) == Path("ref/step_0012")
    assert rank_dir(step_dir("ref", 12), RankInfo(3, 8)) == Path("ref/step_0012/rank_03")
    assert rank_dir("ref", RankInfo()) == Path("ref"), "a run of one process has no rank folder"
    with pytest.raises(DumpError, match="steps count from 0"):
        step_dir("ref", -1)


def test_a_rank_goes_to_json_and_back():
    rank = RankInfo(3, 8, tp=(1, 2), sp=(1, 4), rng="ab")
    assert rank.to_json() == {"index": 3, "world": 8, "tp": [1, 2], "sp": [1, 4], "rng": "ab"}
    assert RankInfo.of(rank.to_json()) == rank
    assert RankInfo.of(None) is None


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"index": 2, "world": 2}, r"must be in \[0, 2\)"),
        ({"index": 0, "world": 2, "tp": [2, 2]}, "tp coordinate"),
        ({"index": 0, "world": 1, "zz": 1}, "unknown key 'zz'"),
    ],
)
def test_a_rank_that_cannot_be_is_refused(bad, why):
    with pytest.raises(DumpError, match=why):
        RankInfo.of(bad)


@pytest.mark.parametrize(
    "bad",
    [
        {"axis": "hidden", "index": 0, "count": 2, "kind": "split"},
        {"axis": "hidden", "index": 2, "count": 2, "kind": "concat"},
        {"index": 0, "count": 2, "kind": "concat"},
        {"kind": "sum"},
    ],
)
def test_a_shard_that_cannot_be_is_refused(bad):
    with pytest.raises(DumpError, match="adding layer_00"):
        check_shard("layer_00", bad)


def test_the_estimate_counts_values_worked_out_by_hand():
    model = {"num_layers": 2, "hidden_size": 8, "num_heads": 2, "num_kv_heads": 1, "head_dim": 4, "intermediate_size": 16,
             "vocab_size": 10, "dtype": "float32"}  # fmt: skip
    # 3 tokens: embed and final norm 2*3*8; a layer 3*8; taps 3*(5*8 + 3*8 + 3*4 + 3*16); logits 10.
    assert estimate_bytes(model, 3, sub_taps=False) == 4 * (48 + 2 * 24 + 10)
    assert estimate_bytes(model, 3) == 4 * (48 + 2 * (24 + 3 * 124) + 10)
    assert estimate_bytes(model, 3, probs=True) == 4 * (48 + 2 * (24 + 3 * 124 + 2 * 9) + 10)
    assert estimate_bytes(model, 3, sub_taps=False, logits="all") == 4 * (48 + 2 * 24 + 10 + 30)
    half = {**model, "dtype": "bfloat16"}
    assert estimate_bytes(half, 3, sub_taps=False) == 2 * (48 + 2 * 24 + 10)
    assert estimate_bytes(half, 3, sub_taps=False, storage="float32") == 4 * (48 + 2 * 24 + 10)


def test_a_dump_that_will_not_fit_is_refused_before_it_starts(tmp_path, monkeypatch):
    check_room(tmp_path / "new", 100, 100)
    with pytest.raises(DumpTooLargeError, match=r"about 101 bytes, over the limit of 100 bytes"):
        check_room(tmp_path / "new", 101, 100)
    monkeypatch.setattr("shutil.disk_usage", lambda p: type("U", (), {"free": 5000})())
    with pytest.raises(DiskFullError, match=r"about 1\.0 MB, and 5\.0 kB are free"):
        check_room(tmp_path / "new", 1_000_000, None)
    assert [human(n) for n in (0, 999, 1500, 2_000_000_000)] == ["0 bytes", "999 bytes", "1.5 kB", "2.0 GB"]
