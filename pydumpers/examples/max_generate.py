"""Dump a whole MAX pipeline, unedited: what `parity-dump max` does, as a script.

    pip install ./pydumpers 'max[serve]'
    python examples/max_generate.py --model path/or/hub-name --prompt "The capital of France is" --out port/

The first run compiles the model once more, since the taps are outputs of its graph; MAX keeps the result. The folders are
port/step_0000 (the prefill), port/step_0001, ...: compare the first with a Hugging Face dump of the same chat prompt:
    parity-dump hf path/or/hub-name --chat --prompt "The capital of France is" -o ref/
    parity compare ref/ port/step_0000/
"""

import argparse
import os
import subprocess

from parity_dump.max import command, environment

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--model", required=True)
parser.add_argument("--prompt", default="The capital of France is")
parser.add_argument("--out", default="port")
parser.add_argument("--new-tokens", type=int, default=1)
args, more = parser.parse_known_args()

line = command([
    "generate", "--model-path", args.model, "--prompt", args.prompt, "--max-new-tokens", str(args.new_tokens), *more
])  # fmt: skip
raise SystemExit(subprocess.run(line, env={**os.environ, **environment({"out": args.out})}).returncode)
