"""Dump a MAX graph that you build yourself: taps become further outputs, and are taken off when it runs.

pip install ./pydumpers max
python examples/max_graph.py --out port/
"""

import argparse

import numpy as np
from max.driver import CPU
from max.dtype import DType
from max.engine import InferenceSession
from max.graph import DeviceRef, Graph, TensorType, ops

from parity_dump import tap
from parity_dump.max import MaxTaps

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--out", default="port")
args = parser.parse_args()

device = DeviceRef.CPU()
weights = np.random.default_rng(0).standard_normal((2, 16, 16), dtype=np.float32) / 4
ids_type = TensorType(DType.int64, ["tokens"], device)

with MaxTaps(args.out, flat=True, model={"num_layers": 2, "dtype": "float32"}) as taps:
    with Graph("toy", input_types=[ids_type]) as graph:
        ids = tap("prompt_tokens", graph.inputs[0].tensor)
        table = ops.constant(np.eye(16, dtype=np.float32), DType.float32, device)
        x = tap("post_embed", ops.gather(table, ids, axis=0))
        for i in range(2):
            mlp = tap(f"layer_{i:02d}.mlp_out", x @ ops.constant(weights[i], DType.float32, device))
            x = tap(f"layer_{i:02d}", x + mlp)
        taps.output(graph, x)
    model = taps.wrap(InferenceSession(devices=[CPU()]).load(graph))
    (result,) = model.execute(np.array([3, 1, 4], np.int64))

print(f"result {result.shape}; dump in {args.out}")
