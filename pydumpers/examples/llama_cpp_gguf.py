"""Dump a GGUF model in llama.cpp: the prefill of a prompt, or with --decode each greedy step after it.

    pip install './pydumpers[llama-cpp]'
    python examples/llama_cpp_gguf.py model.gguf --prompt "The capital of France is" --out port/

Compare with a Hugging Face dump of the same prompt:  parity compare ref/ port/
"""

import argparse

from parity_dump.llama_cpp import LlamaCpp

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("gguf")
parser.add_argument("--prompt", default="The capital of France is")
parser.add_argument("--out", default="port")
parser.add_argument("--decode", type=int, default=0)
args = parser.parse_args()

with LlamaCpp(args.gguf, n_ctx=512) as model:
    ids = model.tokenize(args.prompt)
    generated = model.run(args.out, ids=ids, decode=args.decode)

print(f"{len(ids)} tokens dumped to {args.out}; the model goes on with ids {generated}")
