"""Logical dtypes: what is kept, what is widened, what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from parity_dump import DumpError
from parity_dump.dtypes import RAW_FLOATS, file_form, is_float, normalize, widen

RAW = sorted(RAW_FLOATS)


def same(got, want):
    """Assert equality to the bit, except that a NaN may be any NaN."""
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got)[~np.isnan(got)], np.signbit(want)[~np.isnan(want)])


@pytest.mark.parametrize("name", [n for n in RAW if n != "bfloat16"])
def test_every_8_bit_code_is_widened_to_the_value_that_ml_dtypes_reads(name):
    with np.load(Path(__file__).parent / "data" / "small_floats.npz") as golden:
        same(widen(np.arange(256, dtype=np.uint8), name), golden[name])


def test_every_bfloat16_is_widened_to_sign_times_mantissa_times_power():
    bits = np.arange(1 << 16)
    sign, exponent, mantissa = np.where(bits >> 15, -1.0, 1.0), bits >> 7 & 0xFF, bits & 0x7F
    want = np.where(exponent == 0, sign * np.ldexp(mantissa, -133), sign * np.ldexp(128.0 + mantissa, exponent - 134))
    want = np.where(exponent == 0xFF, np.where(mantissa == 0, sign * np.inf, np.nan), want).astype(np.float32)
    same(widen(bits.astype(np.uint16), "bfloat16"), want)


@pytest.mark.parametrize(
    ("name", "code", "value"),
    [
        ("bfloat16", 0x3F81, 1 + 2**-7),
        ("bfloat16", 0x0001, 2.0**-133),
        ("float8_e4m3fn", 0x7E, 448.0),
        ("float8_e4m3fn", 0x01, 2.0**-9),
        ("float8_e5m2", 0x7C, np.inf),
        ("float8_e4m3fnuz", 0x7F, 240.0),
        ("float8_e8m0fnu", 0x00, 2.0**-127),
    ],
)
def test_values_worked_out_by_hand(name, code, value):
    width = np.uint16 if name == "bfloat16" else np.uint8
    assert widen(np.array([code], width), name)[0] == value


def test_widening_something_else_is_refused():
    with pytest.raises(DumpError, match="'float16' is not one of"):
        widen(np.zeros(1, np.uint16), "float16")


def test_native_storage_keeps_the_bits_and_float32_storage_the_values():
    bits = np.array([0x3F80, 0xC000], np.uint16)
    data, descr = file_form(bits, "bfloat16", "native")
    assert descr == "<V2" and data is bits
    data, descr = file_form(bits, "bfloat16", "float32")
    assert descr == "<f4" and data.tolist() == [1.0, -2.0]
    data, descr = file_form(np.array([1.5], np.float16), "float16", "float32")
    assert descr == "<f4" and data.tolist() == [1.5]
    for keep in (np.array([1.5], np.float64), np.array([7], np.int8), np.array([True])):
        data, descr = file_form(keep, keep.dtype.name, "float32")
        assert data is keep and descr == keep.dtype.str, "float32 storage narrows nothing and leaves integers alone"


def test_an_array_may_be_wider_than_its_logical_dtype():
    array, dtype = normalize(np.array([1.0], np.float32), "bfloat16")
    assert (array.dtype, dtype) == (np.dtype("float32"), "bfloat16")
    array, dtype = normalize(np.array([1.0], np.float32), "q4_1")
    assert dtype == "q4_1"


def test_big_endian_values_are_turned_around():
    array, dtype = normalize(np.array([1.0, 2.0], ">f4"), None)
    assert (array.dtype.str, dtype, array.tolist()) == ("<f4", "float32", [1.0, 2.0])


@pytest.mark.parametrize(
    ("array", "dtype", "why"),
    [
        (np.array([object()]), None, "pickle"),
        (np.array(["text"]), None, "only bool, integers and real floats"),
        (np.array([1j]), None, "split complex"),
        (np.zeros(2, [("a", "f4")]), None, "only bool"),
        (np.zeros(2, "V2"), None, "pass dtype="),
        (np.zeros(2, np.uint8), "bfloat16", "expected its bits as uint16"),
        (np.zeros(2, np.int16), "bfloat16", "expected its bits as uint16"),
        (np.zeros(2, np.uint16), "float8_e5m2", "expected its bits as uint8"),
    ],
)
def test_what_cannot_be_dumped_is_refused_with_a_remedy(array, dtype, why):
    with pytest.raises(DumpError, match=why):
        normalize(array, dtype)


def test_floats_are_told_from_the_rest():
    assert all(is_float(n) for n in [*RAW, "float16", "float32", "float64", "tf32"])
    assert not any(is_float(n) for n in ["int64", "bool", "q4_1", "uint8"])
