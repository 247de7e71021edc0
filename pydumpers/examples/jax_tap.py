"""Dump a JAX model under jit: taps placed by hand, and a dumper that waits for them.

pip install './pydumpers[jax]'
python examples/jax_tap.py --out port/
"""

import argparse

import jax
import jax.numpy as jnp

from parity_dump import tap
from parity_dump.jax_tap import Dumper

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--out", default="port")
args = parser.parse_args()

LAYERS, HIDDEN, VOCAB = 4, 32, 100
keys = iter(jax.random.split(jax.random.key(0), 2 * LAYERS + 1))
params = {
    "embed": jax.random.normal(next(keys), (VOCAB, HIDDEN)),
    "layers": [{"up": jax.random.normal(next(keys), (HIDDEN, HIDDEN)) / 6,
                "down": jax.random.normal(next(keys), (HIDDEN, HIDDEN)) / 6} for _ in range(LAYERS)],
}  # fmt: skip


@jax.jit
def forward(params: dict, ids: jax.Array) -> jax.Array:
    """Return the logits of a small residual network."""
    x = tap("post_embed", params["embed"][ids])
    for i, layer in enumerate(params["layers"]):
        up = tap(f"layer_{i:02d}.mlp_up", x @ layer["up"])
        x = tap(f"layer_{i:02d}", x + jax.nn.silu(up) @ layer["down"])
    logits: jax.Array = x @ params["embed"].T
    tap("last_logits", logits[-1])
    return logits


ids = jnp.array([5, 17, 42, 8])
# The function must be traced inside the block: a trace made without a dumper has no taps, and jit keeps it.
with Dumper(args.out, params=params, model={"num_layers": LAYERS}) as dumper:
    dumper.add("prompt_tokens", ids)
    forward(params, ids)

print(f"{len(dumper.names)} checkpoints in {args.out}: {', '.join(dumper.names)}")
