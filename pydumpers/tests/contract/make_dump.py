"""Writes the dump that both sides of the contract read: every dtype, with values that are easy to get wrong.

    usage: python make_dump.py FOLDER        (the committed one is testdata/contract/python)

``FOLDER/dump`` is a dump; ``FOLDER/expected.json`` has dtype, shape and values of each tensor, worked out here from the
definition of each format and not by the package. Values are in row order; NaN and Inf are strings.
"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path

import numpy as np

from parity_dump import DumpWriter, RankInfo

INF, NAN = math.inf, math.nan

# dtype -> (bits, the values they stand for). Zero, minus zero, smallest, one and its neighbour, largest, specials.
RAW = {
    "bfloat16": (
        [0x0000, 0x8000, 0x0001, 0x3F80, 0x3F81, 0x7F7F, 0xC049, 0x7F80, 0xFF80, 0x7FC0],
        [0.0, -0.0, 2.0**-133, 1.0, 1 + 2**-7, (2 - 2**-7) * 2.0**127, -3.140625, INF, -INF, NAN],
    ),
    "float8_e4m3fn": (
        [0x00, 0x80, 0x01, 0x38, 0x39, 0x7E, 0xFE, 0x7F],
        [0.0, -0.0, 2.0**-9, 1.0, 1.125, 448.0, -448.0, NAN],
    ),
    "float8_e5m2": (
        [0x00, 0x80, 0x01, 0x3C, 0x3D, 0x7B, 0x7C, 0xFC, 0x7F],
        [0.0, -0.0, 2.0**-16, 1.0, 1.25, 57344.0, INF, -INF, NAN],
    ),
    "float8_e4m3fnuz": ([0x00, 0x01, 0x40, 0x7F, 0xFF, 0x80], [0.0, 2.0**-10, 1.0, 240.0, -240.0, NAN]),
    "float8_e5m2fnuz": ([0x00, 0x01, 0x40, 0x7F, 0x80], [0.0, 2.0**-17, 1.0, 57344.0, NAN]),
    "float8_e8m0fnu": ([0x00, 0x7F, 0x80, 0xFE, 0xFF], [2.0**-127, 1.0, 2.0, 2.0**127, NAN]),
}

NATIVE = {
    "bool": [True, False, True],
    "int8": [-128, 0, 127],
    "int16": [-32768, 0, 32767],
    "int32": [-(2**31), 0, 2**31 - 1],
    "int64": [-(2**53), -1, 2**53],
    "uint8": [0, 1, 255],
    "uint16": [0, 1, 65535],
    "uint32": [0, 1, 2**32 - 1],
    "uint64": [0, 1, 2**53],
    "float16": [0.0, -0.0, 2.0**-24, 1.0, 65504.0, INF, NAN],
    "float32": [0.0, -0.0, 2.0**-149, 1.0, 16777217.0 - 1, INF, -INF, NAN],
    "float64": [0.0, -0.0, 5e-324, 0.1, 1.7976931348623157e308, INF, NAN],
}

RESIDUAL = np.arange(12, dtype=np.float32).reshape(4, 3) / 8


def write(folder: Path) -> None:
    """Write ``folder/dump`` and ``folder/expected.json``."""
    os.environ["SOURCE_DATE_EPOCH"] = "1764410400"
    expected: dict[str, dict] = {}

    def expect(name: str, dtype: str, shape: tuple[int, ...], values: list) -> None:
        expected[name] = {"dtype": dtype, "shape": list(shape), "values": [_plain(v) for v in values]}

    model = {"id": "contract", "class": "ByHand", "num_layers": 2, "hidden_size": 3}
    with DumpWriter(
        folder / "dump", dumper="contract", framework={"name": "numpy", "version": "any", "device": "cpu"}, model=model,
        rank=RankInfo(0, 1, tp=(0, 1)), prompt={"text": "Grüße, 世界", "add_special_tokens": False}, overwrite=True,
    ) as w:  # fmt: skip
        w.add("prompt_tokens", np.array([1, 2, 3, 4]))
        expect("prompt_tokens", "int64", (4,), [1, 2, 3, 4])
        w.add("post_embed", RESIDUAL)
        expect("post_embed", "float32", (4, 3), RESIDUAL.ravel().tolist())
        w.add("layer_00.q", RESIDUAL.reshape(4, 1, 3) + 1, columns="half_split", source="h.0.q")
        expect("layer_00.q", "float32", (4, 1, 3), (RESIDUAL + 1).ravel().tolist())
        w.add("layer_00", (RESIDUAL.T + 2).T, source="h.0", inputs=["post_embed", "layer_00.q"])  # a transposed view
        expect("layer_00", "float32", (4, 3), (RESIDUAL + 2).ravel().tolist())
        shard = {"axis": "hidden", "index": 0, "count": 1, "kind": "replica"}
        w.add("layer_01", (RESIDUAL + 3).astype(">f4"), shard=shard)
        expect("layer_01", "float32", (4, 3), (RESIDUAL + 3).ravel().tolist())
        for dtype, (bits, values) in RAW.items():
            w.add(f"raw_{dtype}", np.array(bits, np.uint16 if dtype == "bfloat16" else np.uint8), dtype=dtype)
            expect(f"raw_{dtype}", dtype, (len(bits),), values)
        for dtype, values in NATIVE.items():
            w.add(f"native_{dtype}", np.array(values, dtype))
            expect(f"native_{dtype}", dtype, (len(values),), values)
        w.add("wide_bfloat16", np.array([1.0, -3.140625], np.float32), dtype="bfloat16")
        expect("wide_bfloat16", "bfloat16", (2,), [1.0, -3.140625])
        w.add("scalar", np.float32(2.5))
        expect("scalar", "float32", (), [2.5])
        w.add("odd/näme", np.array([7], np.int32))
        expect("odd/näme", "int32", (1,), [7])
    text = json.dumps(expected, indent=1, ensure_ascii=False, allow_nan=False)
    (folder / "expected.json").write_text(text + "\n", encoding="utf-8")


def _plain(v: float | int | bool) -> float | int | str:
    if isinstance(v, bool):
        return int(v)
    if isinstance(v, float) and not math.isfinite(v):
        return "NaN" if math.isnan(v) else ("Infinity" if v > 0 else "-Infinity")
    return v


if __name__ == "__main__":
    write(Path(sys.argv[1]))
