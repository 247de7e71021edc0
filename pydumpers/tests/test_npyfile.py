"""What lands on disk, byte for byte."""

from __future__ import annotations

import errno
import io

import numpy as np
import pytest

from parity_dump import DiskFullError, DumpError, npyfile


def bytes_of_numpy(array: np.ndarray) -> bytes:
    buf = io.BytesIO()
    np.save(buf, array)
    return buf.getvalue()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=np.float32).reshape(3, 4),
        np.arange(6, dtype=np.int64),
        np.array(True),
        np.array(2.5, np.float64),
        np.zeros((0, 4), np.float16),
        np.arange(24, dtype=np.uint8).reshape(2, 3, 4),
    ],
    ids=["2-d", "1-d", "bool scalar", "float scalar", "no rows", "3-d"],
)
def test_ordinary_arrays_are_written_as_numpy_writes_them(tmp_path, array):
    size = npyfile.write(tmp_path / "x.npy", array, array.dtype.str)
    assert (tmp_path / "x.npy").read_bytes() == bytes_of_numpy(array)
    assert size == (tmp_path / "x.npy").stat().st_size == npyfile.file_size(array.dtype.str, array.shape, array.itemsize)


def test_a_strided_view_is_written_in_row_order(tmp_path):
    base = np.arange(24, dtype=np.int32).reshape(4, 6)
    npyfile.write(tmp_path / "x.npy", base.T[::2], "<i4")
    assert np.load(tmp_path / "x.npy").tolist() == [[0, 6, 12, 18], [2, 8, 14, 20], [4, 10, 16, 22]]


def test_bfloat16_bits_get_the_two_byte_void_header_that_ml_dtypes_users_have(tmp_path):
    bits = np.array([[0x3F80, 0x4000]], np.uint16)  # 1.0 and 2.0
    npyfile.write(tmp_path / "x.npy", bits, "<V2")
    # Worked out by hand: magic, version 1.0, header length 118, padded dict, then the bits, low byte first.
    text = b"{'descr': '<V2', 'fortran_order': False, 'shape': (1, 2), }"
    want = b"\x93NUMPY\x01\x00\x76\x00" + text + b" " * (128 - 10 - len(text) - 1) + b"\n" + b"\x80\x3f\x00\x40"
    assert (tmp_path / "x.npy").read_bytes() == want
    back = np.load(tmp_path / "x.npy")
    assert back.dtype == np.dtype("V2") and back.view(np.uint16).tolist() == bits.tolist()


def test_an_array_larger_than_a_chunk_is_written_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(npyfile, "_CHUNK", 7)
    array = np.arange(100, dtype=np.float32)
    npyfile.write(tmp_path / "x.npy", array, "<f4")
    assert (tmp_path / "x.npy").read_bytes() == bytes_of_numpy(array)


class FullFile(io.FileIO):
    """A file on a disk with room for 100 bytes."""

    def write(self, data):
        if self.tell() + len(data) > 100:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


def full_disk(monkeypatch):
    monkeypatch.setattr(npyfile, "open", lambda path, mode: FullFile(path, mode), raising=False)


def test_a_full_disk_is_told_as_such_and_leaves_no_part_behind(tmp_path, monkeypatch):
    full_disk(monkeypatch)
    with pytest.raises(DiskFullError, match=r"writing .*x\.npy: no space left on device .*layers="):
        npyfile.write(tmp_path / "x.npy", np.zeros(1000, np.float32), "<f4")
    assert list(tmp_path.iterdir()) == []


def test_other_trouble_of_the_file_system_names_the_file(tmp_path):
    with pytest.raises(DumpError, match=r"writing .*missing/x\.npy: No such file or directory"):
        npyfile.write(tmp_path / "missing" / "x.npy", np.zeros(1, np.float32), "<f4")


def test_an_interrupted_write_keeps_the_old_file(tmp_path):
    npyfile.write(tmp_path / "x.npy", np.ones(3, np.float32), "<f4")

    def body(f):
        f.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        npyfile.write_atomically(tmp_path / "x.npy", body)
    assert np.load(tmp_path / "x.npy").tolist() == [1, 1, 1]
    assert [p.name for p in tmp_path.iterdir()] == ["x.npy"]
