"""The same figures in numpy and torch, each as people write it.

Run as a script for one of them: it writes its seconds as JSON, the median of
several runs in one process, imports not counted.

    python baselines.py listcomp REF PORT OUT [--dtype bfloat16] [--repeat 3]

Every function takes two float arrays [T, D] and returns its figures; the last
column of docs/performance.md says which figures a script leaves out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np


def listcomp(a: np.ndarray, b: np.ndarray) -> tuple:
    """Per token and per dim by list comprehension: cosine, relative L2, maximum."""

    def cos(x: np.ndarray, y: np.ndarray) -> float:
        return float(np.dot(x, y) / (np.linalg.norm(x) * np.linalg.norm(y)))

    def rel(x: np.ndarray, y: np.ndarray) -> float:
        return float(np.linalg.norm(x - y) / np.linalg.norm(x))

    a, b = single(a), single(b)
    tokens = [(cos(x, y), rel(x, y), np.abs(x - y).max()) for x, y in zip(a, b, strict=True)]
    dims = [(cos(x, y), rel(x, y), np.abs(x - y).max()) for x, y in zip(a.T, b.T, strict=True)]
    return cos(a.ravel(), b.ravel()), rel(a, b), np.abs(a - b).max(), tokens, dims


def einsum64(a: np.ndarray, b: np.ndarray) -> tuple:
    """Vectorised, accumulated in float64: all sums of the whole, of tokens and of dims."""
    return sums(a, b, np.float64)


def einsum32(a: np.ndarray, b: np.ndarray) -> tuple:
    """Vectorised in float32: right to some six digits of the cosine."""
    return sums(single(a), single(b), np.float32)


def sums(a: np.ndarray, b: np.ndarray, dtype: type) -> tuple:
    """All sums of two arrays, accumulated in dtype."""
    d = a.astype(dtype, copy=False) - b
    e = np.abs(d)
    out = []
    for axes in ("ij,ij->i", "ij,ij->j"):
        out += [np.einsum(axes, x, y, dtype=dtype) for x, y in ((a, b), (a, a), (b, b), (d, d))]
    tokens = out[:4]
    whole = [x.sum() for x in tokens]
    return whole, out, e.sum(1), e.max(0), e.max(1), e.argmax()


def cosmax(a: np.ndarray, b: np.ndarray) -> tuple:
    """Only one cosine and the largest difference of the whole tensor."""
    a, b = single(a), single(b)
    x, y = a.ravel(), b.ravel()
    return np.dot(x, y) / (np.linalg.norm(x) * np.linalg.norm(y)), np.abs(a - b).max()


def torch_cpu(a: np.ndarray, b: np.ndarray) -> tuple:
    """Torch on the CPU: cosine, relative L2 and maximum of tokens and dims, float32."""
    import torch

    x, y = torch.from_numpy(single(a)), torch.from_numpy(single(b))
    d = x - y
    out = []
    for dim in (1, 0):
        out += [torch.nn.functional.cosine_similarity(x, y, dim=dim), d.norm(dim=dim) / x.norm(dim=dim), d.abs().amax(dim=dim)]
    return tuple(out)


def single(a: np.ndarray) -> np.ndarray:
    """float16 overflows in its own sums; people widen it first."""
    return a.astype(np.float32, copy=False)


BASELINES: dict[str, Callable[[np.ndarray, np.ndarray], tuple]] = {
    "listcomp": listcomp,
    "einsum64": einsum64,
    "einsum32": einsum32,
    "cosmax": cosmax,
    "torch": torch_cpu,
}


def load(path: Path, dtype: str) -> np.ndarray:
    """Read one array; bfloat16, which numpy lacks, is widened to float32."""
    a = np.load(path)
    if dtype == "bfloat16":
        return (a.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return a


def main() -> None:
    """Time one function and print its seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=BASELINES)
    parser.add_argument("ref", type=Path)
    parser.add_argument("port", type=Path)
    parser.add_argument("out", type=Path, help="file to write")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    run = BASELINES[args.name]
    if args.name == "torch":
        import torch  # noqa: F401  # not counted
    pairs = [(p, args.port / p.name) for p in sorted(args.ref.glob("*.npy"))]
    if not pairs:
        sys.exit(f"baselines.py: no .npy files in {args.ref}")
    total, computing = [], []
    for _ in range(args.repeat):
        start, inner = time.perf_counter(), 0.0
        for ref, port in pairs:
            a, b = load(ref, args.dtype), load(port, args.dtype)
            loaded = time.perf_counter()
            run(a, b)
            inner += time.perf_counter() - loaded
        total.append(time.perf_counter() - start)
        computing.append(inner)
    seconds = {"seconds": statistics.median(total), "compute": statistics.median(computing)}
    args.out.write_text(json.dumps(seconds))


if __name__ == "__main__":
    main()
