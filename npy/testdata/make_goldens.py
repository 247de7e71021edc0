"""Makes the golden files beside it with NumPy and ml_dtypes.

    python -m venv venv && venv/bin/pip install numpy ml_dtypes
    venv/bin/python make_goldens.py

The Go tests state the expected values themselves (array_golden_test.go); what is
taken from here are NumPy's bytes, and the tables of values that ml_dtypes gives
to every pattern of a 16-bit or 8-bit float (float_test.go).
Made with numpy 2.4.6, ml_dtypes 0.6.0. Running it again gives the same bytes.
"""

import ast
import gzip
import io
import json
import pathlib
import tokenize
import warnings

import ml_dtypes
import numpy as np

HERE = pathlib.Path(__file__).parent
FLOATS = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float8_e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8_e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "float8_e8m0": ml_dtypes.float8_e8m0fnu,
}


def npy(array: np.ndarray, version: tuple[int, int] | None = None, pickle: bool = False) -> bytes:
    """The bytes of array's .npy file."""
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version=version, allow_pickle=pickle)
    return out.getvalue()


def arrays() -> dict[str, bytes]:
    """Files that are read, by name."""
    floats = np.array([[0, 1, -2.5], [96, 0.125, -0.0]])
    files = {}
    for order, word in (("<", "le"), (">", "be")):
        for size in (2, 4, 8):
            files[f"f{size}_{word}"] = npy(floats.astype(f"{order}f{size}"))
            info = np.iinfo(f"i{size}")
            files[f"i{size}_{word}"] = npy(np.array([0, 1, -2, 100, info.min, info.max], f"{order}i{size}"))
            top = np.iinfo(f"u{size}").max
            files[f"u{size}_{word}"] = npy(np.array([0, 1, 200, top - 1, top], f"{order}u{size}"))
    files["i1"] = npy(np.array([0, 1, -2, 100, -128, 127], np.int8))
    files["u1"] = npy(np.array([0, 1, 200, 254, 255], np.uint8))
    files["b1"] = npy(np.array([True, False, True]))
    for name in FLOATS:
        if name not in ("float16", "float8_e8m0"):
            files[name] = npy(floats.astype(FLOATS[name]))
    files["float8_e8m0"] = npy(np.array([[0.125, 1, 2], [64, 2.0**-127, np.nan]]).astype(FLOATS["float8_e8m0"]))
    files["v2_0"] = npy(floats.astype("<f4"), (2, 0))
    files["v3_0"] = npy(floats.astype("<f4"), (3, 0))
    files["scalar"] = npy(np.array(-2.5, np.float32))
    files["empty_1d"] = npy(np.zeros((0,), np.float32))
    files["empty_2d"] = npy(np.zeros((0, 576), np.float16))
    files["fortran_2d"] = npy(np.asfortranarray(np.arange(6, dtype="<f8").reshape(3, 2)))
    files["fortran_3d"] = npy(np.asfortranarray(np.arange(24, dtype="<f4").reshape(2, 3, 4)))
    files["fortran_4d_be"] = npy(np.asfortranarray(np.arange(120, dtype=">i2").reshape(2, 3, 4, 5)))
    files["fortran_bf16"] = npy(np.asfortranarray(np.arange(12).reshape(3, 4).astype(ml_dtypes.bfloat16)))
    return files


def refused() -> dict[str, bytes]:
    """Valid files whose elements are not compared."""
    return {
        "object": npy(np.array([[1, 2], [3]], dtype=object), pickle=True),
        "structured": npy(np.zeros(2, [("a", "<f4"), ("b}", "<i2", (2,))])),
        "complex64": npy(np.zeros(2, np.complex64)),
        "complex128": npy(np.zeros(2, ">c16")),
        "longdouble": npy(np.zeros(2, np.longdouble)),
        "clongdouble": npy(np.zeros(2, np.clongdouble)),
        "unicode": npy(np.array(["tok", "en"])),
        "bytes": npy(np.array([b"tok", b"en"])),
        "datetime": npy(np.zeros(2, "datetime64[ns]")),
        "timedelta": npy(np.zeros(2, "timedelta64[25us]")),
        "void8": npy(np.zeros(2, "V8")),
    }


HEADERS = """
{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}
{'shape': (2, 3), 'descr': '<f4', 'fortran_order': False}
{"fortran_order": True, "shape": (2, 3), "descr": "<f4"}
{'descr':'<f4','fortran_order':False,'shape':(2,3)}
  {  'descr'  :  '<f4' , 'fortran_order' : False , 'shape' : ( 2 , 3 , ) , }
{'descr': u'<f4', u'fortran_order': False, 'shape': (2L, 3L), }
{'descr': '<f4', 'fortran_order': False, 'shape': (6,)}
{'descr': '<f4', 'fortran_order': False, 'shape': (6)}
{'descr': '<f4', 'fortran_order': False, 'shape': 6}
{'descr': '<f4', 'fortran_order': False, 'shape': ()}
{'descr': '<f4', 'fortran_order': False, 'shape': [2, 3]}
{'descr': '=f4', 'fortran_order': False, 'shape': (2, 3)}
{'descr': 'f4', 'fortran_order': False, 'shape': (2, 3)}
{'descr': '|f4', 'fortran_order': False, 'shape': (2, 3)}
{'descr': 'float32', 'fortran_order': False, 'shape': (2, 3)}
{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}
{'descr': '<f4', 'fortran_order': 'False', 'shape': (2, 3)}
{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'more': 1}
{'descr': '<f4', 'fortran_order': False}
{'descr': '<f4', 'shape': (2, 3)}
{'fortran_order': False, 'shape': (2, 3)}
{}

{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} x
{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)
{'descr': '<f4' 'fortran_order': False, 'shape': (2, 3)}
{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}
{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3.0)}
{'descr': '<f4', 'fortran_order': False, 'shape': (2, '3')}
{'descr': '<f4, 'fortran_order': False, 'shape': (2, 3)}
{'descr': '<f4", 'fortran_order': False, 'shape': (2, 3)}
{'descr': None, 'fortran_order': False, 'shape': (2, 3)}
{'descr': 4, 'fortran_order': False, 'shape': (2, 3)}
{'descr': '', 'fortran_order': False, 'shape': (2, 3)}
{'descr': '<q9', 'fortran_order': False, 'shape': (2, 3)}
{descr: '<f4', 'fortran_order': False, 'shape': (2, 3)}
{1: '<f4', 'fortran_order': False, 'shape': (2, 3)}
{,}
{'descr': '<f4', 'fortran_order': False, 'shape': (,)}
{'descr': '<f4', 'fortran_order': false, 'shape': (2, 3)}
{'descr': '<f4', 'fortran_order': False, 'shape': (True, 3)}
__import__('os').getcwd()
('descr', '<f4')
"""


def headers() -> list[dict]:
    """Header texts, and whether NumPy takes a file of them: null, or the array it reads."""
    warnings.filterwarnings("ignore", message=".*Python 2")
    out = []
    for text in HEADERS.split("\n")[1:-1]:
        body = text.encode() + b"\n"
        file = b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body + np.arange(6, dtype="<f4").tobytes()
        try:
            array = np.load(io.BytesIO(file))
            read = {"shape": list(array.shape), "values": array.ravel().tolist()}
        except (ValueError, TypeError, SyntaxError, tokenize.TokenError):
            read = None
        out.append({"text": text, "numpy": read})
    return out


def zipped(array: np.ndarray) -> bytes:
    """Compress without a time stamp, so that the bytes repeat."""
    return gzip.compress(npy(array), 9, mtime=0)


def tables() -> dict[str, bytes]:
    """The value of every bit pattern, as float32 (exact for all of these types)."""
    out = {}
    for name, dtype in FLOATS.items():
        bits = 8 * np.dtype(dtype).itemsize
        codes = np.arange(2**bits, dtype=f"u{bits // 8}")
        with np.errstate(all="ignore"):
            out[f"{name}_values"] = zipped(codes.view(dtype).astype(np.float32))
    return out


def rounding() -> dict[str, bytes]:
    """Random float64s over all magnitudes, and the patterns that they become.

    float64 goes to bfloat16 by way of float32 in ml_dtypes, which rounds twice;
    the inputs are float32s, where both ways agree.
    """
    rng = np.random.default_rng(20261129)
    exponents = rng.uniform(-45, 39, 1500)
    near = rng.uniform(-9, 6, 1500)
    values = np.concatenate([10.0**exponents, 10.0**near]) * rng.choice([-1, 1], 3000)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519, 65520, 65536, 448, 464, 480, 57344, 61440, 240, 248, 1e39]
    with np.errstate(all="ignore"):
        values = np.concatenate([special, values]).astype(np.float32)
        out = {"rounding_inputs": zipped(values)}
        for name, dtype in FLOATS.items():
            codes = values.astype(dtype)
            out[f"rounding_{name}"] = zipped(codes.view(f"u{np.dtype(dtype).itemsize}"))
    return out


def seeds(files: dict[str, bytes], texts: list[dict]) -> dict[str, bytes]:
    """The fuzzer's first inputs, in the form that go test keeps them."""
    inputs = {name: data for name, data in files.items() if len(data) < 700}
    for i, h in enumerate(texts):
        body = h["text"].encode() + b"\n"
        inputs[f"header_{i:02}"] = (
            b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body + np.arange(6, dtype="<f4").tobytes()
        )
    return {name: b"go test fuzz v1\n[]byte(" + quoted(data) + b")\n" for name, data in inputs.items()}


def quoted(data: bytes) -> bytes:
    """Data as a Go string literal."""
    plain = {ord(c): c for c in map(chr, range(32, 127)) if c not in '"\\'}
    text = '"' + "".join(plain.get(b, f"\\x{b:02x}") for b in data) + '"'
    assert ast.literal_eval("b" + text) == data
    return text.encode()


def main() -> None:
    """Write all golden files."""
    read, not_read, texts = arrays(), refused(), headers()
    for folder, suffix, files in (
        (HERE / "arrays", ".npy", read),
        (HERE / "refused", ".npy", not_read),
        (HERE / "tables", ".npy.gz", tables() | rounding()),
        (HERE / "fuzz" / "FuzzHeader", "", seeds(read | not_read, texts)),
    ):
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (folder / (name + suffix)).write_bytes(data)
    (HERE / "headers.json").write_text(json.dumps(texts, indent=1) + "\n")


if __name__ == "__main__":
    main()
