"""The key of the cached references: it changes with every module that a dump goes through."""

from __future__ import annotations

import importlib.util
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "tools" / "engines" / "make_refs.py"


def load_script():
    spec = importlib.util.spec_from_file_location("make_refs", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_module_on_the_way_of_a_torch_dump_is_in_the_key():
    found = {f.stem for f in load_script().modules_behind("torch")}
    writing = {"core", "arrays", "dtypes", "npyfile", "manifest", "folder", "names", "taps", "checks", "selection", "ranks"}
    hooks = {"torch", "torch_taps", "torch_structure", "torch_rope", "torch_rows", "torch_io", "torch_facts", "torch_ranks"}
    assert writing | hooks <= found
    assert not found & {"llama_cpp", "onnx", "max", "max_taps", "jax_tap", "cli", "hf"}, "other engines make no new ones"


def test_imports_are_followed_through_each_other_and_inside_functions(tmp_path):
    (tmp_path / "a.py").write_text("from __future__ import annotations\nimport json\nfrom .b import x\n")
    (tmp_path / "b.py").write_text("def f():\n    from . import c, NAME\n    from .a import y\n")
    (tmp_path / "c.py").write_text("")
    (tmp_path / "d.py").write_text("from .a import z\n")
    assert [f.name for f in load_script().modules_behind("a", tmp_path)] == ["a.py", "b.py", "c.py"]
