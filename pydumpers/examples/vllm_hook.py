"""Dump a model inside vLLM's workers. Needs vLLM and a GPU; not run by this project (see parity_dump.vllm).

pip install './pydumpers[torch]' vllm
VLLM_ALLOW_INSECURE_SERIALIZATION=1 python examples/vllm_hook.py --model hub-name --out port/
"""

import argparse
from functools import partial

from parity_dump.vllm import install, uninstall

if __name__ == "__main__":
    from vllm import LLM, SamplingParams

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--prompt", default="The capital of France is")
    parser.add_argument("--tensor-parallel-size", type=int, default=1)
    parser.add_argument("--out", default="port")
    args = parser.parse_args()

    # CUDA graphs replay kernels without running Python, so no hook would fire; a cached prefix would not be computed.
    llm = LLM(
        args.model, enforce_eager=True, enable_prefix_caching=False, tensor_parallel_size=args.tensor_parallel_size
    )
    print(llm.apply_model(partial(install, out=args.out, overwrite=True)))
    print(llm.generate(args.prompt, SamplingParams(max_tokens=2, temperature=0)))
    print("forwards dumped:", llm.apply_model(uninstall))
