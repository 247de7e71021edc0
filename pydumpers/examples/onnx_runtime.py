"""Dump an .onnx model in ONNX Runtime, values inside the graph included.

    pip install './pydumpers[onnx]'
    python examples/onnx_runtime.py --model model.onnx --ids ref/prompt_tokens.npy --out port/

Without --model a toy of two layers is made and dumped, to show what comes out. To export a model of your own so that its
values can be told apart:  torch.onnx.export(model, args, dynamo=True).save("model.onnx")
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from parity_dump.onnx import choose, dump
from parity_dump.token_ids import read_ids


def toy(path: Path) -> None:
    """Write a model of an embedding and two layers, whose node names are module paths."""
    rng = np.random.default_rng(0)
    weights = {"table": rng.standard_normal((50, 16)), "w0": rng.standard_normal((16, 16)), "w1": rng.standard_normal((16, 16))}
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["x0"], name="/model/embed_tokens/Gather")]
    for i in range(2):
        nodes.append(helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"m{i}"], name=f"/model/layers.{i}/mlp/MatMul"))
        nodes.append(helper.make_node("Add", [f"x{i}", f"m{i}"], [f"x{i + 1}"], name=f"/model/layers.{i}/Add"))
    nodes.append(helper.make_node("Identity", ["x2"], ["last_hidden_state"], name="/Identity"))
    graph = helper.make_graph(
        nodes,
        "toy",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "tokens"])],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [1, "tokens", 16])],
        [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--model", type=Path)
parser.add_argument("--ids", help="a .npy file or a JSON list")
parser.add_argument("--out", default="port")
args = parser.parse_args()

with tempfile.TemporaryDirectory() as folder:
    model = args.model or Path(folder) / "toy.onnx"
    if args.model is None:
        toy(model)
    for choice in choose(onnx.load(model, load_external_data=False).graph):
        print(f"{choice.checkpoint:24} is value {choice.value:12} of {choice.source}")
    written = dump(model, args.out, ids=read_ids(args.ids) if args.ids else [3, 1, 4, 1, 5])

print(f"{len(written)} checkpoints in {args.out}")
