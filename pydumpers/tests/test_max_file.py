"""MAX's debug files: the small ones that MAX 26.7 wrote itself, and ones spoilt on purpose."""

import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

from parity_dump.errors import DumpError, DumpExistsError, DumpWarning
from parity_dump.max_file import MAGIC, MaxFileError, collect, convert, place, read
from parity_dump.module_names import execution_order

FILES = Path(__file__).parent.parent / "testdata" / "max-debug"

# Read off a hex dump by hand: 0x43c80000 is 400 in float32, 0x43c8 the same in bfloat16; 400, 402, 404 modulo 256 are
# 144, 146, 148.
WRITTEN = [
    ("layer_00.max", "layer_00", "float32", [[400.0, 402.0, 404.0]]),
    ("f64.max", "f64", "float64", [[400.0, 402.0, 404.0]]),
    ("i32.max", "i32", "int32", [[400, 402, 404]]),
    ("i64.max", "i64", "int64", [[400, 402, 404]]),
    ("u8.max", "u8", "uint8", [[144, 146, 148]]),
    ("bool.max", "bool", "bool", [[True, True, True]]),
    ("scalar.max", "scalar", "float32", 1206.0),
    ("transposed.max", "transposed", "float32", [[400.0], [402.0], [404.0]]),
    ("has.dots-dash(2).max", "has.dots-dash(2)", "float32", [[400.0, 402.0, 404.0]]),
    ("bf16_with_slash.max", "bf16_with_slash", "bfloat16", [[0x43C8, 0x43C9, 0x43CA]]),
    ("model.layers.layers.0-input_0.max", "model.layers.layers.0-input_0", "uint32", 0),
]


@pytest.mark.parametrize(("file", "key", "dtype", "values"), WRITTEN, ids=[w[0] for w in WRITTEN])
def test_a_file_that_max_wrote_reads_back_to_the_bit(file, key, dtype, values):
    tensor = read(FILES / file)
    assert (tensor.key, tensor.dtype) == (key, dtype)
    np.testing.assert_array_equal(tensor.array, np.array(values, tensor.array.dtype), strict=True)


def test_an_empty_tensor_of_rank_5_keeps_its_shape():
    tensor = read(FILES / "rank5_empty.max")
    assert tensor.array.shape == (1, 1, 0, 1, 3)
    assert tensor.dtype == "float32"


def a_file(key=b"layer_00", code=81, dims=(2, 3), data=None, *, version=(0, 1), size=None, offset=None):
    """Return the bytes of a .max file, packed independently of the reader."""
    meta = 4 + len(key) + 2 + 4 * len(dims) + 8
    head = MAGIC + struct.pack("<II", *version) + struct.pack("<Q", meta if size is None else size)
    head += struct.pack("<I", len(key)) + key + bytes([code, len(dims)]) + struct.pack(f"<{len(dims)}I", *dims)
    head += struct.pack("<Q", 24 + meta if offset is None else offset)
    return head + (np.arange(6, dtype="<f4").tobytes() if data is None else data)


@pytest.mark.parametrize(
    ("raw", "offset", "cause"),
    [
        (b"", 0, "magic"),
        (b"\x93NUMPY" + bytes(40), 0, "magic"),
        (MAGIC + bytes(3), 11, "cut off"),
        (a_file(version=(0, 2)), 8, "version 0.2"),
        (a_file(version=(1, 1)), 8, "version 1.1"),
        (MAGIC + struct.pack("<IIQI", 0, 1, 100, 2**32 - 1) + bytes(40), 24, "key of 4294967295 bytes"),
        (a_file(key=b"\xff\xfe"), 28, "UTF-8"),
        (a_file(code=99), 36, "dtype code 99"),
        (MAGIC + struct.pack("<IIQI", 0, 1, 100, 1) + b"k" + bytes([81, 255]) + bytes(9), 30, "rank of 255"),
        (a_file(offset=7), 46, "start at byte 7"),
        (a_file(size=1), 46, "the header ends at 54"),
        (a_file()[:-1], 54, "needs 24 bytes of data, the file has 23"),
        (a_file() + b"x", 54, "needs 24 bytes of data, the file has 25"),
        (a_file(dims=(2**32 - 1, 2**32 - 1)), 54, "the file has 24"),
    ],
    ids=[
        "empty", "an npy file", "header cut", "newer minor", "newer major", "huge key", "key of other bytes",
        "unknown dtype", "huge rank", "offset elsewhere", "wrong metadata size", "data cut", "data too long", "huge dims",
    ],
)  # fmt: skip
def test_a_spoilt_file_is_refused_with_its_offset(tmp_path, raw, offset, cause):
    path = tmp_path / "bad.max"
    path.write_bytes(raw)
    with pytest.raises(MaxFileError, match=cause) as e:
        read(path)
    assert e.value.offset == offset
    assert "bad.max" in str(e.value)


def test_a_file_that_is_not_there_is_an_error_and_not_an_empty_tensor(tmp_path):
    with pytest.raises(MaxFileError, match="No such file"):
        read(tmp_path / "no.max")


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("model.embed_tokens-output", "post_embed"),
        ("model.layers.layers.0-output", "layer_00"),
        ("model.layers.11-output", "layer_11"),
        ("model.layers.layers.0.self_attn-output", "layer_00.attn_out"),
        ("model.layers.layers.3.mlp-output", "layer_03.mlp_out"),
        ("model.layers.layers.3.mlp.down_proj-input_0", "layer_03.mlp_act"),
        ("model.layers.layers.3.self_attn.o_proj-input_0", "layer_03.attn_ctx"),
        ("model.norm-output", "post_final_norm"),
        ("model.norm(2)-output", "post_final_norm.call_2"),
        ("model-output_0", "logits"),
        ("model-input_0", "prompt_tokens"),
        ("layer_07.attn_out", "layer_07.attn_out"),
        ("model.layers.layers.0-input_0", None),
        ("model-input_3", None),
        ("anything else", None),
    ],
)
def test_max_labels_map_to_checkpoints(key, name):
    found = place(key)
    assert (found.name if found else None) == name


def test_execution_order_counts_layers_as_numbers():
    names = ["layer_100", "layer_09.mlp_out", "last_logits", "layer_09", "other", "prompt_tokens", "post_final_norm",
             "layer_09.input_norm", "post_embed", "layer_11"]  # fmt: skip
    assert sorted(names, key=execution_order) == [
        "prompt_tokens", "post_embed", "layer_09.input_norm", "layer_09.mlp_out", "layer_09", "layer_11", "layer_100",
        "post_final_norm", "last_logits", "other",
    ]  # fmt: skip


def write(folder, key, array, code=81):
    dims = array.shape
    (folder / f"{key}.max").write_bytes(a_file(key.encode(), code, dims, array.tobytes()))


def a_run(folder, rows=4):
    """Write the files of a model of two layers as MAX names them; return the layers' outputs."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(rows)
    layers = [rng.standard_normal((rows, 8)).astype("<f4") for _ in range(2)]
    write(folder, "model-input_0", np.arange(rows, dtype="<i8"), 141)
    write(folder, "model.embed_tokens-output", rng.standard_normal((rows, 8)).astype("<f4"))
    for i, x in enumerate(layers):
        write(folder, f"model.layers.layers.{i}.self_attn-output", x * 2)
        write(folder, f"model.layers.layers.{i}.self_attn.o_proj-output", x * 3)
        write(folder, f"model.layers.layers.{i}-output", x)
    write(folder, "model.norm-output", layers[1][-1:] / 2)
    write(folder, "model-output_0", np.arange(16, dtype="<f4").reshape(1, 16))
    return layers


def test_a_folder_becomes_a_dump_with_the_values_to_the_bit(tmp_path):
    layers = a_run(tmp_path / "max")
    assert convert(tmp_path / "max", tmp_path / "port") == [tmp_path / "port"]
    np.testing.assert_array_equal(np.load(tmp_path / "port" / "layer_01.npy"), layers[1])
    np.testing.assert_array_equal(np.load(tmp_path / "port" / "layer_00.attn_out.npy"), layers[0] * 2)
    np.testing.assert_array_equal(np.load(tmp_path / "port" / "prompt_tokens.npy"), [0, 1, 2, 3])
    np.testing.assert_array_equal(np.load(tmp_path / "port" / "last_logits.npy"), np.arange(16.0))


def test_sub_folders_become_steps_in_the_order_of_their_numbers(tmp_path):
    for name, rows in (("10", 3), ("2", 5)):
        a_run(tmp_path / "max" / name, rows)
    assert [p.name for p in convert(tmp_path / "max", tmp_path / "port")] == ["step_0000", "step_0001"]
    assert np.load(tmp_path / "port" / "step_0000" / "layer_00.npy").shape == (5, 8)
    assert np.load(tmp_path / "port" / "step_0001" / "layer_00.npy").shape == (3, 8)


def test_a_split_residual_stream_is_summed_and_both_halves_are_kept(tmp_path):
    hidden, residual = np.full((2, 3), 1.5, "<f4"), np.full((2, 3), 40.0, "<f4")
    write(tmp_path, "layers.0-output_0", hidden)
    write(tmp_path, "layers.0-output_1", residual)
    found = collect(tmp_path)
    np.testing.assert_array_equal(found["layer_00"].tensor.array, np.full((2, 3), 41.5, "f4"))
    np.testing.assert_array_equal(found["layer_00.residual"].tensor.array, residual)
    np.testing.assert_array_equal(found["layer_00.hidden"].tensor.array, hidden)


def test_files_of_a_decode_step_are_said_to_be_that(tmp_path):
    a_run(tmp_path / "max", rows=1)
    with pytest.warns(DumpWarning, match="one token only"):
        convert(tmp_path / "max", tmp_path / "port")


def test_the_files_that_max_wrote_convert_with_everything(tmp_path):
    with pytest.warns(DumpWarning, match="hold no value"), pytest.warns(DumpWarning, match="prompt_tokens was not dumped"):
        convert(FILES, tmp_path / "port", everything=True)
    assert len(list((tmp_path / "port").glob("*.npy"))) == len(list(FILES.glob("*.max")))


def test_a_folder_without_files_or_with_unknown_labels_is_no_success(tmp_path):
    with pytest.raises(DumpError, match=r"no \.max file"):
        convert(tmp_path, tmp_path / "port")
    (tmp_path / "odd").mkdir()
    shutil.copy(FILES / "i32.max", tmp_path / "odd")
    with pytest.raises(DumpError, match="no label is known"):
        convert(tmp_path / "odd", tmp_path / "port")
    with pytest.raises(DumpError, match="not a folder"):
        convert(tmp_path / "nowhere", tmp_path / "port")


def test_files_on_two_levels_are_ambiguous(tmp_path):
    a_run(tmp_path)
    a_run(tmp_path / "1")
    with pytest.raises(DumpError, match="name one"):
        convert(tmp_path, tmp_path / "port")


def test_a_dump_that_is_there_is_replaced_only_on_request(tmp_path):
    a_run(tmp_path / "max")
    convert(tmp_path / "max", tmp_path / "port")
    with pytest.raises(DumpExistsError):
        convert(tmp_path / "max", tmp_path / "port")
    convert(tmp_path / "max", tmp_path / "port", overwrite=True)
