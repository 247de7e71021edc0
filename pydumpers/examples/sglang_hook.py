"""Dump a model inside SGLang's scheduler processes. Needs SGLang and a GPU; not run by this project (see parity_dump.sglang).

pip install './pydumpers[torch]' sglang
PARITY_OUT=port/ python examples/sglang_hook.py hub-name
"""

import os
import sys

from parity_dump import sglang as parity

# Outside the main guard: the processes that SGLang spawns import this file, and it is they that load the model.
parity.patch(os.environ.get("PARITY_OUT", "port"), overwrite=True)

if __name__ == "__main__":
    import sglang

    engine = sglang.Engine(model_path=sys.argv[1], disable_cuda_graph=True, disable_radix_cache=True)
    print(engine.generate("The capital of France is", {"max_new_tokens": 2, "temperature": 0}))
    engine.shutdown()
