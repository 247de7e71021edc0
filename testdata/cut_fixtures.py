"""Cut the real dumps that the tests and the demo use.

    python testdata/cut_fixtures.py FULL testdata/fixtures

FULL holds whole dumps of a real model, one folder a case with ref/, port/ and expected.json. Of each the first
TOKENS tokens are kept (a causal model's first tokens do not see the later ones, so the cut dump is what a shorter
prompt would have given; a dump without its mask is cut all the same, since nothing is recomputed), the layers named
in KEEP, all dims, and the sub-taps of the layers where the fault lies.
"""

import json
import re
import sys
from pathlib import Path

import numpy as np

TOKENS = 12
# Cases kept whole: one side has only the last position, or the expected place needs the longer prompt.
WHOLE = {"clean-max", "rope-layout"}
# case: (layers kept, layers whose sub-taps are kept)
KEEP = {
    "attention-scale": (range(5), [0]),
    "buffer-reused": (range(1, 8), []),
    "clean-bf16": (range(7), [0]),
    "clean-identical": (range(3), []),
    "clean-llamacpp": (range(6), [0]),
    "clean-max": (range(4), [0]),
    "clean-sdpa": (range(5), [0]),
    "decode-position": (range(2), [0]),
    "extra-token": (range(2), []),
    "gate-up": (range(15, 30), [20]),
    "index-offset": (range(6), []),
    "layer-weights": (range(9, 14), [11, 12]),
    "mask-dropped": (range(4), [0]),
    "post-final-norm": (range(26, 30), []),
    "rope-layout": (range(4), [0]),
    "rope-theta": (range(6), [0]),
    "split-residual": (range(5), []),
}
LAYER = re.compile(r"layer_(\d+)(?:\.(\w+))?$")


def wanted(name: str, layers: range, taps: list[int]) -> bool:
    """Tell whether a checkpoint is kept. The logits of all positions are not: they are large, and final norm is there."""
    if name == "logits":
        return False
    m = LAYER.match(name)
    if not m:
        return True
    layer, tap = int(m[1]), m[2]
    if tap == "residual":
        return layer in layers
    return layer in (taps if tap else layers)


def cut(a: np.ndarray, name: str, full: int, keep: int) -> np.ndarray:
    """Keep the first tokens of an array; full is the prompt's length, keep how many stay."""
    if name.endswith("attn_probs"):
        return a[:, :keep, :keep] if a.shape[1] == full else a[:, :, :]
    if name in ("last_logits",) or a.ndim == 0 or a.shape[0] != full:
        return a
    return a[:keep]


def cut_run(src: Path, dst: Path, layers: range, taps: list[int], tokens: int) -> None:
    """Cut one folder of .npy files and its manifest."""
    dst.mkdir(parents=True, exist_ok=True)
    full = len(np.load(src / "prompt_tokens.npy"))
    keep = min(full, tokens + (1 if full == 29 else 0))
    kept = set()
    for f in sorted(src.glob("*.npy")):
        if wanted(f.stem, layers, taps):
            np.save(dst / f.name, np.ascontiguousarray(cut(np.load(f), f.stem, full, keep)))
            kept.add(f.name)
    manifest = json.loads((src / "dump.json").read_text())
    manifest["tensors"] = [t for t in manifest["tensors"] if t["file"] in kept]
    # The text no longer is what the ids say.
    manifest["prompt"] = {"text": "", "add_special_tokens": manifest.get("prompt", {}).get("add_special_tokens", True)}
    (dst / "dump.json").write_text(json.dumps(manifest, indent=1) + "\n")


def main(src: Path, dst: Path) -> None:
    """Cut every case."""
    for case, (layers, taps) in KEEP.items():
        for side in ("ref", "port"):
            for manifest in sorted((src / case / side).rglob("dump.json")):
                run = manifest.parent
                step = run.name if run.name.startswith("step_") else ""
                if step > "step_0002":
                    continue
                cut_run(run, dst / case / side / step, layers, taps, 1000 if case in WHOLE else TOKENS)
        expected = json.loads((src / case / "expected.json").read_text())
        steps = len(list((dst / case / "ref").glob("step_*")))
        if steps and "values" in expected:  # one position for each incremental step that is left
            expected["values"]["reference"] = expected["values"]["reference"][: steps - 1]
        (dst / case / "expected.json").write_text(json.dumps(expected, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
