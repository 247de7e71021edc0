"""The command ``parity-dump hf``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from .errors import DumpError
from .estimate import parse_size
from .selection import Selection
from .token_ids import read_ids

_DESCRIPTION = """\
Run a Hugging Face causal LM on a prompt and dump every layer.

Without -o nothing is dumped: with --sanity that is step 0 of the protocol, a look at the reference's own greedy text."""

_EXAMPLES = """\
examples:
  is the reference itself sane?
    parity-dump hf ./model --prompt "The capital of France is" --sanity
  the trusted run, and the same in bfloat16
    parity-dump hf ./model --prompt "The capital of France is" -o ref/
    parity-dump hf ./model --prompt "The capital of France is" -o port/ --dtype bfloat16 --attn sdpa
  a chat prompt, prefill and four decode steps on the cache
    parity-dump hf ./model --chat --prompt "Name three fish." -o ref/ --decode 4
  the same steps, each over the whole prefix, with the tokens of that run
    parity-dump hf ./model --chat --prompt "Name three fish." -o forced/ --decode 4 --recompute \\
                           --teacher-forced ref/generated.json
  weights from a GGUF file, the first four layers and the last, at most 200 MB
    parity-dump hf ./folder --gguf model.gguf --prompt "Hello" -o ref/ --layers 0-3,last --max-bytes 200M

exit status: 0 dumped (or text shown), 1 the run failed (its folder is marked incomplete), 2 bad usage, 130 interrupted"""


def add_cli(subparsers: Any) -> None:
    """Register ``parity-dump hf``."""
    p = subparsers.add_parser(
        "hf",
        help="run a Hugging Face causal LM and dump each layer",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("model", help="name or folder of the model")
    p.add_argument("-o", "--out", type=Path, help="folder of the dump")
    what = p.add_mutually_exclusive_group(required=True)
    what.add_argument("--prompt", help="text")
    what.add_argument("--prompt-file", type=Path, help="text from a file, as it is")
    what.add_argument("--ids", help="token ids: a dump's prompt_tokens.npy or a JSON list")
    p.add_argument("--chat", action="store_true", help="render the text as a user's message with the model's chat template")
    p.add_argument("--no-special", action="store_true", help="let the tokenizer add no special tokens")
    p.add_argument("--sanity", action="store_true", help="print the greedy text first (step 0 of the protocol)")
    p.add_argument("--sanity-tokens", type=int, default=40, metavar="N", help="length of that text (default: 40)")
    run = p.add_argument_group("the run")
    run.add_argument("--dtype", default="float32", choices=["float32", "float64", "float16", "bfloat16"])
    run.add_argument("--attn", default="eager", help="eager (attention probabilities are dumped), sdpa, ... (default: eager)")
    run.add_argument("--device", default="cpu")
    run.add_argument("--gguf", metavar="FILE", help="load the weights from this GGUF file in the model's folder")
    run.add_argument("--trust-remote-code", action="store_true", help="run Python code that the model's folder brings")
    run.add_argument("--decode", type=int, default=0, metavar="N", help="N decode steps after the prefill, each in its folder")
    run.add_argument("--recompute", action="store_true", help="run each step over the whole prefix instead of on the cache")
    run.add_argument("--teacher-forced", metavar="FILE", help="tokens that follow the prompt (.npy or JSON list)")
    dump = p.add_argument_group("the dump")
    dump.add_argument("--logits", choices=["last", "all"], default="last")
    dump.add_argument("--layers", help="which layers to keep, as in 0-3,last (default: all)")
    dump.add_argument("--tokens", help="which rows to keep, as in 0-15,last (default: all)")
    dump.add_argument("--storage", choices=["native", "float32"], default="native", help="how files hold narrow floats")
    dump.add_argument("--no-sub-taps", dest="sub_taps", action="store_false", help="layer outputs only")
    dump.add_argument("--blocks", metavar="PATH", help="the block list, where the heaviest is not the one meant")
    dump.add_argument("--id", help="the model's name in the manifest (default: the folder's)")
    dump.add_argument("--max-bytes", type=parse_size, metavar="SIZE", help="limit for each step's files: 500M, 2G")
    dump.add_argument("--overwrite", action="store_true", help="replace a dump that is there")
    p.set_defaults(run=run_cli, usage=p.error)


def run_cli(args: argparse.Namespace) -> int:
    """Carry out ``parity-dump hf``."""
    if args.out is None and not args.sanity:
        args.usage("one of -o and --sanity is needed")
    if args.decode < 0:
        args.usage(f"--decode {args.decode}: the number of steps is not negative")
    if args.recompute and not args.decode:
        args.usage("--recompute needs --decode N")
    if args.ids and (args.chat or args.no_special):
        args.usage("--ids are taken as they are: leave --chat and --no-special out")
    for what in ("layers", "tokens"):
        if getattr(args, what):
            Selection.parse(getattr(args, what), what)
    forced = read_ids(args.teacher_forced) if args.teacher_forced else None
    ids = read_ids(args.ids) if args.ids else None
    text = _text(args)

    from . import hf  # Note: torch takes seconds to import; bad usage is told before that.

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    say(f"loading {args.model} ({args.dtype}, {args.attn} attention)")
    model, tokenizer = hf.load(
        args.model, dtype=args.dtype, attn=args.attn, device=args.device, gguf_file=args.gguf,
        trust_remote_code=args.trust_remote_code,
    )  # fmt: skip
    if ids is not None:
        prompt = hf.Prompt(ids, {"ids_from": Path(args.ids).name})
    else:
        prompt = hf.encode(tokenizer, text, chat=args.chat, add_special_tokens=not args.no_special)
    if args.sanity:
        print(f"prompt: {hf.decode_text(tokenizer, prompt.ids)!r}")
        print(f"greedy: {hf.decode_text(tokenizer, hf.greedy(model, prompt.ids, args.sanity_tokens))!r}", flush=True)
    if args.out is None:
        return 0
    tokens = hf.dump(
        model, prompt, args.out, decode=args.decode, recompute=args.recompute, forced=forced, overwrite=args.overwrite, say=say,
        **hf.options_of(vars(args)),
    )  # fmt: skip
    print(f"wrote {args.out}; next token{'s' if len(tokens) > 1 else ''}: {hf.decode_text(tokenizer, tokens)!r} {tokens}")
    return 0


def _text(args: argparse.Namespace) -> str:
    if args.prompt_file is None:
        return str(args.prompt or "")
    try:
        return str(args.prompt_file.read_text(encoding="utf-8"))
    except (OSError, UnicodeError) as e:
        raise DumpError(f"reading the prompt from {args.prompt_file}: {e}") from e
