"""What the engine tests share: where the references are, how close two dumps are, and ``parity validate``.

The figures are worked out here with numpy in float64, independently of the Go program that judges the same dumps.
"""

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

LIMIT_FLOAT32 = 1e-10  # 1-cos that two float32 engines may differ by, docs/metrics.md


PACKAGE = Path(__file__).parents[2]
TOOLS = PACKAGE / "tools" / "engines"

# Processes that a test starts need the package too, not only pytest (which has it from pyproject.toml).
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(PACKAGE / "src"), os.environ.get("PYTHONPATH")]))
os.environ.setdefault("JAX_PLATFORMS", "cpu")


@cache
def references() -> Path:
    """Return the folder of the Hugging Face references, which the torch environment makes where they are missing."""

    def last_line(*command: object) -> str:
        # Not inherited but named: MAX's runtime sets PYTHONEXECUTABLE where os.environ does not see it, and a child that
        # finds it there leaves its environment.
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
        return done.stdout.strip().splitlines()[-1]

    return Path(last_line(last_line("bash", TOOLS / "setup_torch.sh"), TOOLS / "make_refs.py"))


def reference(name: str) -> Path:
    """Return one reference dump: prose, chat or encoder."""
    folder = references() / name
    assert (folder / "dump.json").exists(), f"{folder} is no dump"
    return folder


def path_of(name: str) -> Path:
    """Return a model folder or the folder of the ONNX exports."""
    return Path(json.loads((references() / "paths.json").read_text())[name])


def text_of(name: str) -> str:
    """Return the prompt of a reference."""
    return json.loads((references() / "texts.json").read_text())[name]


def ids_of(name: str) -> list[int]:
    """Return the token ids of a reference."""
    return np.load(reference(name) / "prompt_tokens.npy").tolist()


def manifest(folder: Path) -> dict:
    """Return a dump's manifest; it must be complete."""
    m = json.loads((folder / "dump.json").read_text())
    assert m["complete"] is True
    return m


def tensors(folder: Path) -> dict[str, np.ndarray]:
    """Return a dump's arrays by checkpoint, as the manifest names them."""
    return {t["name"]: np.load(folder / t["file"], allow_pickle=False) for t in manifest(folder)["tensors"]}


class Distance(NamedTuple):
    """How far apart two tensors are: 1-cos of the whole, the median and the worst token's."""

    whole: float
    median: float
    worst: float


def distance(ref: np.ndarray, port: np.ndarray) -> Distance:
    """Return the distances of two tensors of one shape; rows are tokens."""
    a, b = ref.astype(np.float64), port.astype(np.float64)
    assert a.shape == b.shape
    assert np.isfinite(a).all() and np.isfinite(b).all()
    # 1 - a.b/(|a||b|) loses all digits near 0; |a/|a| - b/|b||^2 / 2 is the same number without that.
    whole = np.sum((a / np.linalg.norm(a) - b / np.linalg.norm(b)) ** 2) / 2
    rows_a, rows_b = a.reshape(a.shape[0], -1), b.reshape(b.shape[0], -1)
    if a.ndim == 1:
        rows_a, rows_b = a[None], b[None]
    na, nb = np.linalg.norm(rows_a, axis=1, keepdims=True), np.linalg.norm(rows_b, axis=1, keepdims=True)
    rows = np.sum((rows_a / na - rows_b / nb) ** 2, axis=1) / 2
    return Distance(float(whole), float(np.median(rows)), float(np.max(rows)))


def is_residual(name: str) -> bool:
    """Report whether a checkpoint is on the residual stream, or what is made of it at the end."""
    layer = name.startswith("layer_") and "." not in name
    return layer or name in ("post_embed", "post_final_norm", "logits", "last_logits")


DISCRETE = ("prompt_tokens", "position_ids", "attention_mask")


def distances(ref: Path, port: Path) -> dict[str, Distance]:
    """Return the distances of all checkpoints that both dumps have; the last row stands for a ``[1, D]`` final norm.

    The ids must be identical, and both must have every layer.
    """
    a, b = tensors(ref), tensors(port)
    np.testing.assert_array_equal(a["prompt_tokens"], b["prompt_tokens"])
    assert sorted(n for n in a if is_residual(n)) == sorted(n for n in b if is_residual(n))
    out = {}
    for name in a.keys() & b.keys() - set(DISCRETE):
        x, y = a[name], b[name]
        if name == "post_final_norm" and y.shape[0] == 1:
            x = x[-1:]
        if x.ndim == 3 and y.ndim == 2 and name.endswith("_rope"):
            x = x.reshape(len(x), -1)  # [T, heads, head_dim] and [T, hidden] are the same numbers
        out[name] = distance(x, y)
    return out


def worst(found: dict[str, Distance], residual: bool) -> tuple[float, str]:
    """Return the largest whole-tensor 1-cos among residual checkpoints (or the others), and where it is."""
    return max((d.whole, n) for n, d in found.items() if is_residual(n) == residual)


def assert_float32_engine(ref: Path, port: Path) -> dict[str, Distance]:
    """Assert what two engines that compute in float32 owe each other, and print what was measured."""
    found = distances(ref, port)
    layers = [n for n in found if n.startswith("layer_") and "." not in n]
    assert len(layers) == manifest(ref)["model"]["num_layers"]
    assert found["post_embed"].whole <= 1e-13, "the embedding is a look-up (and a norm): only rounding may differ"
    for name, d in found.items():
        assert max(d.whole, d.median) <= LIMIT_FLOAT32, f"{name}: 1-cos {d.whole:.2e}, median token {d.median:.2e}"
    print(f"\n{port.name}: {len(found)} checkpoints; worst residual {worst(found, True)}, sub-tap {worst(found, False)}")
    return found


def validate(ref: Path, port: Path) -> None:
    """Run ``parity validate``, which must say that the dumpers can be trusted."""
    parity = os.environ.get("PARITY_BIN")
    assert parity, "PARITY_BIN is not set: build the parity command and name it there"
    done = subprocess.run([parity, "validate", ref, port, "--color", "never"], capture_output=True, text=True)
    print(done.stdout)
    assert done.returncode == 0, f"parity validate: exit {done.returncode}\n{done.stdout}{done.stderr}"
    assert "the dumpers can be trusted" in done.stdout
