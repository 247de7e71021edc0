"""Logical dtypes: what a model computed in, and how a file holds it.

numpy has no bfloat16 and no 8-bit floats. Such values travel as their bits (uint16, uint8) beside the logical name, and
are written as voids of the same width (``<V2``, ``|V1``), which is what ``ml_dtypes`` writes too; the manifest names them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import DumpError

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class RawFloat:
    """A float format that numpy lacks: width, fields and special values.

    ``bits`` is the whole width; ``exponent`` and ``mantissa`` the widths of the fields; ``bias`` the exponent bias.
    ``specials`` is ``ieee`` (top exponent: Inf and NaN), ``fn`` (no Inf; NaN is all ones), ``fnuz`` (no Inf, no -0; NaN is
    0x80) or ``e8m0`` (a bare power of two; NaN is 0xff). Source: the OCP 8-bit floating point specification and the
    ml_dtypes documentation.
    """

    name: str
    bits: int
    exponent: int
    mantissa: int
    bias: int
    specials: str
    descr: str


RAW_FLOATS: dict[str, RawFloat] = {
    f.name: f
    for f in (
        RawFloat("bfloat16", 16, 8, 7, 127, "ieee", "<V2"),
        RawFloat("float8_e4m3fn", 8, 4, 3, 7, "fn", "|V1"),
        RawFloat("float8_e4m3fnuz", 8, 4, 3, 8, "fnuz", "|V1"),
        RawFloat("float8_e5m2", 8, 5, 2, 15, "ieee", "|V1"),
        RawFloat("float8_e5m2fnuz", 8, 5, 2, 16, "fnuz", "|V1"),
        RawFloat("float8_e8m0fnu", 8, 8, 0, 127, "e8m0", "|V1"),
    )
}

# Names that hold ordinary numpy values of another dtype: how the products were rounded, not how the result is stored.
STORED_AS = {"tf32": "float32"}

_NUMPY_NAMES = frozenset(
    ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
)


@cache
def _eight_bit_table(name: str) -> Array:
    """Return the 256 float32 values of an 8-bit float format, by code."""
    f = RAW_FLOATS[name]
    out = np.zeros(256, np.float64)
    for code in range(256):
        if f.specials == "e8m0":
            out[code] = np.nan if code == 0xFF else 2.0 ** (code - f.bias)
            continue
        sign = -1.0 if code & 0x80 else 1.0
        exp = (code >> f.mantissa) & ((1 << f.exponent) - 1)
        man = code & ((1 << f.mantissa) - 1)
        top = (1 << f.exponent) - 1
        if (f.specials == "fnuz" and code == 0x80) or (f.specials == "fn" and code & 0x7F == 0x7F):
            out[code] = np.nan
        elif f.specials == "ieee" and exp == top:
            out[code] = np.nan if man else sign * np.inf
        elif exp == 0:
            out[code] = sign * man * 2.0 ** (1 - f.bias - f.mantissa)
        else:
            out[code] = sign * (1 + man / (1 << f.mantissa)) * 2.0 ** (exp - f.bias)
    # Note: e8m0 spans 2^-127 to 2^127; the smallest is a float32 subnormal, exactly represented.
    return out.astype(np.float32)


def widen(bits: Array, dtype: str) -> Array:
    """Return the float32 values of raw bits: exact, since float32 holds every value of these formats.

    ``bits`` is uint16 for ``bfloat16`` and uint8 for the 8-bit floats, any shape. NaN stays NaN (bfloat16 keeps its
    payload), Inf stays Inf. Raises :class:`DumpError` for a dtype that is not a raw float.
    """
    if dtype == "bfloat16":
        return np.asarray((bits.astype(np.uint32) << np.uint32(16)).view(np.float32))
    if dtype in RAW_FLOATS:
        return np.asarray(_eight_bit_table(dtype)[bits], np.float32)
    raise DumpError(f"widening to float32: {dtype!r} is not one of {', '.join(RAW_FLOATS)}")


def normalize(array: Array, dtype: str | None) -> tuple[Array, str]:
    """Return ``(array, logical dtype)`` in the form that a file can hold.

    The array comes back little-endian; raw floats come back as uint16/uint8 bits. Arrays of ``ml_dtypes`` are recognised
    by their dtype's name. A name that this package does not know (``q4_1``, ``int4``) is kept as a label when the values
    are ordinary numpy ones. Raises :class:`DumpError` for object, string, complex and structured arrays, and where
    ``dtype`` names a raw float but the array has another width.
    """
    a = np.asarray(array)
    have = a.dtype.name
    if have in RAW_FLOATS:  # an ml_dtypes array
        a = a.view(np.uint16 if a.dtype.itemsize == 2 else np.uint8)
        dtype = dtype or have
    if a.dtype.kind == "V" and a.dtype.names is None and a.dtype.itemsize in (1, 2):
        if dtype not in RAW_FLOATS:
            raise DumpError(f"adding an array of {a.dtype.itemsize}-byte voids: pass dtype= (bfloat16, float8_e4m3fn, ...)")
        a = a.view(np.uint16 if a.dtype.itemsize == 2 else np.uint8)
    if dtype in RAW_FLOATS:
        want = RAW_FLOATS[dtype].bits // 8
        if a.dtype.name == "float32" or a.dtype.name == "float64":
            return _little(a), dtype  # already widened by the engine: the file is wider than the logical dtype
        if a.dtype.kind != "u" or a.dtype.itemsize != want:
            raise DumpError(f"adding {dtype}: expected its bits as uint{want * 8} (or widened float32), got {a.dtype.name}")
        return _little(a), dtype
    if a.dtype.name not in _NUMPY_NAMES:
        raise DumpError(
            f"adding an array of dtype {a.dtype}: only bool, integers and real floats can be dumped "
            "(split complex values into .real and .imag; object arrays would need pickle)"
        )
    return _little(a), dtype or a.dtype.name


def _little(a: Array) -> Array:
    if a.dtype.byteorder == ">" or (a.dtype.byteorder == "=" and np.little_endian is False):
        return a.astype(a.dtype.newbyteorder("<"))
    return a


def file_form(array: Array, dtype: str, storage: str) -> tuple[Array, str]:
    """Return ``(array, descr)`` as written: ``storage`` is ``native`` or ``float32``.

    ``native`` keeps the bits: ``<V2`` for bfloat16, ``|V1`` for 8-bit floats, numpy's own descr otherwise. ``float32``
    widens every float narrower than 32 bits, exactly; float32, float64, integers and bool are left as they are.
    """
    raw = RAW_FLOATS.get(dtype)
    if raw is not None and array.dtype.kind == "u":
        if storage == "float32":
            return widen(array, dtype), "<f4"
        return array, raw.descr
    if storage == "float32" and array.dtype.name == "float16":
        return array.astype(np.float32), "<f4"
    return array, array.dtype.str


def is_float(dtype: str) -> bool:
    """Report whether a logical dtype is a floating-point one (unknown names, as of quantised types, are not)."""
    return dtype in RAW_FLOATS or dtype in STORED_AS or dtype in ("float16", "float32", "float64")
