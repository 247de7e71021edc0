"""The contract the other way round: numpy reads every value of the dump that the Go side writes."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

COMMITTED = Path(__file__).resolve().parents[2] / "testdata" / "contract" / "go"
MANIFEST = json.loads((COMMITTED / "dump.json").read_text())
EXPECTED = json.loads((COMMITTED / "expected.json").read_text())
# What numpy itself cannot name: the manifest does.
VIEWS = {
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}


def test_the_manifest_lists_every_file_and_is_complete():
    assert MANIFEST["schema"] == "parity.dump/1"
    assert MANIFEST["complete"] is True
    assert sorted(t["file"] for t in MANIFEST["tensors"]) == sorted(p.name for p in COMMITTED.glob("*.npy"))
    assert len(MANIFEST["tensors"]) == len(EXPECTED) == 15


@pytest.mark.parametrize("tensor", MANIFEST["tensors"], ids=lambda t: t["name"])
def test_numpy_reads_the_values_that_go_wrote(tensor):
    array = np.load(COMMITTED / tensor["file"], allow_pickle=False)
    if tensor["dtype"] in VIEWS:
        array = array.view(VIEWS[tensor["dtype"]])
    want = EXPECTED[tensor["name"]]
    assert array.dtype.name == tensor["dtype"] == want["dtype"]
    assert list(array.shape) == want["shape"]
    assert array.astype(np.float64).ravel().tolist() == want["values"]
