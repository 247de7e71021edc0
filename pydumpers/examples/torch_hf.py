"""Dump a Hugging Face causal LM: a reference in float32, and the same model in bfloat16 as a port of it.

    pip install './pydumpers[hf]'
    python examples/torch_hf.py --model path/or/hub-name --prompt "The capital of France is"
    parity validate ref/ port/

Without --model a random Llama of four layers is made, so that nothing has to be fetched.
"""

import argparse

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from parity_dump.torch import Dumper

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--model")
parser.add_argument("--prompt", default="The capital of France is")
parser.add_argument("--ref", default="ref")
parser.add_argument("--port", default="port")
args = parser.parse_args()

if args.model:
    ids = AutoTokenizer.from_pretrained(args.model)(args.prompt, return_tensors="pt")["input_ids"]
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32, attn_implementation="eager").eval()
else:
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 200}
    model = LlamaForCausalLM._from_config(LlamaConfig(**sizes), attn_implementation="eager").eval()
    ids = torch.randint(3, 200, (1, 12))

mask = torch.ones_like(ids)
with torch.no_grad():
    with Dumper(model, args.ref, prompt={"text": args.prompt}) as ref:
        print(f"about {ref.estimate(ids.shape[1])} bytes go to {args.ref}")
        model(input_ids=ids, attention_mask=mask)
    with Dumper(model.to(torch.bfloat16), args.port, prompt={"text": args.prompt}):
        model(input_ids=ids, attention_mask=mask)

print(f"dumped {ids.shape[1]} tokens; now: parity validate {args.ref} {args.port}")
