"""The contract with the Go side: the committed dump is what this package writes, and its manifests obey the schema.

``testdata/contract/python`` is read by the Go tests too, which check every value against its ``expected.json``.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from parity_dump import DumpWriter, RankInfo

ROOT = Path(__file__).resolve().parents[2]
COMMITTED = ROOT / "testdata" / "contract" / "python"
SCHEMA = json.loads((ROOT / "docs" / "schemas" / "parity.dump-1.schema.json").read_text())


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    path = Path(__file__).parent / "contract" / "make_dump.py"
    spec = importlib.util.spec_from_file_location("make_dump", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    out = tmp_path_factory.mktemp("contract")
    with pytest.MonkeyPatch.context() as m:
        m.setenv("SOURCE_DATE_EPOCH", "0")
        module.write(out)
    return out


def test_the_committed_dump_is_what_the_package_writes_byte_for_byte(fresh):
    """After a wanted change of the format: python tests/contract/make_dump.py ../testdata/contract/python."""
    names = sorted(p.relative_to(COMMITTED).as_posix() for p in COMMITTED.rglob("*") if p.is_file())
    assert names == sorted(p.relative_to(fresh).as_posix() for p in fresh.rglob("*") if p.is_file())
    for name in names:
        assert (COMMITTED / name).read_bytes() == (fresh / name).read_bytes(), name


def test_numpy_reads_every_file_of_it_without_pickle():
    manifest = json.loads((COMMITTED / "dump" / "dump.json").read_text(encoding="utf-8"))
    expected = json.loads((COMMITTED / "expected.json").read_text(encoding="utf-8"))
    assert [t["name"] for t in manifest["tensors"]] == list(expected)
    for t in manifest["tensors"]:
        array = np.load(COMMITTED / "dump" / t["file"], allow_pickle=False)
        want = expected[t["name"]]
        assert list(array.shape) == want["shape"] and t["dtype"] == want["dtype"]
        if array.dtype.kind != "V":
            values = [float(v) if isinstance(v, str) else v for v in want["values"]]
            np.testing.assert_array_equal(array.astype(np.float64).ravel(), np.array(values, np.float64))


@pytest.mark.parametrize("path", [COMMITTED / "dump" / "dump.json"], ids=["contract"])
def test_the_committed_manifest_obeys_the_schema(path):
    jsonschema.validate(json.loads(path.read_text(encoding="utf-8")), SCHEMA)


def test_manifests_with_everything_in_them_obey_the_schema(tmp_path):
    with pytest.warns(UserWarning), DumpWriter(
        tmp_path, dumper="t", step=3, rank=RankInfo(1, 2, tp=(1, 2), rng="ab"), layers="0,last", tokens="0",
        model={"num_layers": 3, "rope_scaling": {"type": "yarn"}}, mode="teacher_forced", repeat="last",
    ) as w:  # fmt: skip
        w.add("prompt_tokens", np.arange(3))
        for _ in range(2):
            w.add("layer_00", np.ones((3, 2), np.float32), shard={"axis": "hidden", "index": 1, "count": 2, "kind": "concat"})
    jsonschema.validate(json.loads((w.path / "dump.json").read_text()), SCHEMA)


def test_manifests_of_runs_that_failed_obey_the_schema(tmp_path):
    with pytest.raises(RuntimeError), DumpWriter(tmp_path, dumper="t") as w:
        w.add("prompt_tokens", np.arange(3))
        raise RuntimeError("no")
    jsonschema.validate(json.loads((tmp_path / "dump.json").read_text()), SCHEMA)
