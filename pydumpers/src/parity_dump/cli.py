"""The command ``parity-dump``: one sub-command for each engine, imported only when it is asked for."""

from __future__ import annotations

import argparse
import importlib
import sys
import warnings
from collections.abc import Sequence
from typing import TextIO

from .errors import DumpError, DumpWarning
from .version import VERSION

# Sub-command -> module with add_cli(subparsers), the extra that brings its engine, one line of help.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "hf": ("hf_cli", "hf", "run a Hugging Face causal LM and dump each layer"),
    "llama-cpp": ("llama_cpp", "llama-cpp", "run a GGUF model in llama.cpp and dump each layer"),
    "onnx": ("onnx", "onnx", "run an .onnx model in ONNX Runtime and dump each layer"),
    "max": ("max", "max", "run a max pipeline (generate, serve, encode) and dump each layer"),
    "max-debug": ("max_file", "max", "turn a folder of MAX's own debug files (.max) into a dump"),
}

_EPILOG = """\
Each command has its own --help with examples. JAX, vLLM, SGLang and hand-written models are dumped from Python.

exit status: 0 dumped, 1 the run failed (its folder is marked incomplete), 2 bad usage, 130 interrupted"""


def parser(command: str | None = None) -> argparse.ArgumentParser:
    """Return the parser; only ``command``'s module is imported, the others are listed."""
    p = argparse.ArgumentParser(
        prog="parity-dump",
        description="Write a dump of a model's layers that `parity` can compare.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("--version", action="version", version=f"parity-dump {VERSION}")
    subparsers = p.add_subparsers(metavar="COMMAND", required=True)
    for name, (module, _, text) in COMMANDS.items():
        if name == command:
            importlib.import_module(f"{__package__}.{module}").add_cli(subparsers)
        else:
            subparsers.add_parser(name, help=text, add_help=False)
    return p


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``parity-dump`` with ``argv`` (default: the process's arguments) and return the exit status."""
    args = list(sys.argv[1:] if argv is None else argv)
    command = next((a for a in args if not a.startswith("-")), None)
    try:
        parsed = parser(command).parse_args(args)
        with warnings.catch_warnings():
            warnings.showwarning = _show
            return int(parsed.run(parsed))
    except DumpError as e:
        print(f"parity-dump: {e}", file=sys.stderr)
        return 1
    except ImportError as e:
        extra = COMMANDS[command][1] if command in COMMANDS else "dev"
        print(f"parity-dump: {e} (pip install 'parity-dump[{extra}]')", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("parity-dump: interrupted; the dump is incomplete", file=sys.stderr)
        return 130


def _show(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning: ours as one plain line, others with where they are from."""
    if issubclass(category, DumpWarning):
        print(f"parity-dump: warning: {message}", file=sys.stderr)
    else:
        print(f"{filename}:{lineno}: {category.__name__}: {message}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
