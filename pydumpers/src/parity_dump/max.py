"""MAX: dump any ``max`` pipeline unedited, or a graph written by hand.

``parity-dump max -o port/ -- generate --model-path M --prompt P`` runs ``max generate`` with every layer tapped: V2 and V3
modules (:mod:`parity_dump.max_hooks`), one folder ``step_NNNN`` for each execute of the model. For a ``max.graph`` of your
own use :class:`MaxTaps`; MAX's own ``.max`` debug files are read by :mod:`parity_dump.max_file`.

``max serve`` runs the model in a spawned process, where hooks installed by the parent do nothing, without an error. So the
command starts ``python -m parity_dump.max_main``: Python's spawn imports the parent's main module again in the child, and
that module installs the hooks there as well.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from .errors import DumpError
from .estimate import parse_size
from .folder import prepare
from .max_taps import MaxTaps, TappedModel, buffer_to_numpy, graph_values
from .taps import active

__all__ = ["MaxTaps", "TappedModel", "add_cli", "command", "environment", "to_numpy", "traced_tap"]

# How the command hands its options to the process that runs the pipeline, and that process to those it spawns.
OPTIONS_VARIABLE = "PARITY_DUMP_MAX"


def to_numpy(x: Any) -> tuple[npt.NDArray[Any], str]:
    """Return ``(private copy, logical dtype)`` of a ``max.driver.Buffer`` or a realized ``max.experimental`` tensor.

    bfloat16 comes as uint16 bits, 8-bit floats as uint8. Raises :class:`DumpError` for a symbol of a graph.
    """
    from max.driver import Buffer

    if isinstance(x, Buffer):
        return buffer_to_numpy(x)
    storage = getattr(x, "driver_tensor", None)
    if isinstance(storage, Buffer):
        return buffer_to_numpy(storage)
    raise DumpError(f"reading a MAX {type(x).__name__}: it is a symbol of a graph and has no values yet (use MaxTaps)")


def traced_tap(name: str, x: Any) -> Any:
    """Place :func:`parity_dump.tap` in the graph being built, where a :class:`MaxTaps` is open."""
    from max.driver import Buffer

    sink = active()
    if isinstance(x, Buffer):
        return NotImplemented
    if isinstance(sink, MaxTaps):
        return sink.tap(name, x)
    try:
        graph_values(x)
    except DumpError:
        return NotImplemented
    raise DumpError(f"tapping {name} in a MAX graph: open a MaxTaps (`with MaxTaps(out) as taps:`) instead of a DumpWriter")


# ---- the command -----------------------------------------------------------------------------------------------------

_HELP = """Run a `max` command with every layer of its model dumped.

    parity-dump max -o port/ -- generate --model-path M --prompt P --max-new-tokens 1

One folder for each execute of the model: step_0000 is the prefill. The pipeline computes the final norm and the logits of
the last position only. The model is compiled once more, since its graph has more outputs; MAX's cache keeps the result.
`--use-subgraphs` is turned off. A warm-up, or graph capture, would be recorded as steps: leave them off.

    parity-dump max -o port/ -- serve --model-path M --port 8000 ...

The server's worker dumps: send one request, read the folder, stop the server (Ctrl-C). Steps count executes over requests, a
second request with the same beginning is cut short by prefix caching. Telemetry is off unless MAX_SERVE_DISABLE_TELEMETRY says
otherwise."""

_VIA = "how taps leave the graph: as further outputs, or as ops.print files (same values; twice the time to compile)"


def add_cli(subparsers: Any) -> None:
    """Register ``parity-dump max``."""
    p = subparsers.add_parser(
        "max",
        help="run a max pipeline (generate, serve, encode) and dump each layer",
        description=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("-o", "--out", required=True, help="folder of the dump")
    p.add_argument("--overwrite", action="store_true", help="replace a dump that is there")
    p.add_argument("--steps", help="which executes to write, as in 0-3,7 (default: all)")
    p.add_argument("--layers", help="which layers to tap, as in 0-3,last (default: all)")
    p.add_argument("--tokens", help="which rows to keep, as in 0-15,last (default: all)")
    p.add_argument("--via", choices=["outputs", "prints"], default="outputs", help=_VIA)
    p.add_argument("--cast", choices=["float32"], help="cast floats inside the graph")
    p.add_argument("--storage", choices=["native", "float32"], default="native", help="how files hold narrow floats")
    p.add_argument("--max-bytes", type=parse_size, metavar="SIZE", help="limit for each step's files: 500M, 2G")
    p.add_argument("--everything", action="store_true", help="also tap modules that no standard name is known for")
    p.add_argument("max_args", nargs=argparse.REMAINDER, metavar="-- MAX ARGUMENTS", help="arguments of `max`, unedited")
    p.set_defaults(run=run_cli)


def run_cli(args: argparse.Namespace) -> int:
    """Replace this process by one that runs ``max`` with the hooks installed; returns only on bad arguments."""
    argv = [a for i, a in enumerate(args.max_args) if not (i == 0 and a == "--")]
    if not argv:
        raise DumpError("running max: give its arguments behind --, as in `parity-dump max -o port/ -- generate ...`")
    if importlib.util.find_spec("max") is None:
        raise ModuleNotFoundError("No module named 'max'")
    # Cleared here, once: a worker that starts later must not remove what another has written.
    prepare(Path(args.out), Path(args.out), args.overwrite)
    options = {k: getattr(args, k) for k in _OPTIONS}
    os.environ.update(environment(options))
    os.environ.setdefault("MAX_SERVE_DISABLE_TELEMETRY", "1")  # a run with taps says nothing about MAX's speed
    line = command(argv)
    sys.stdout.flush()
    os.execv(line[0], line)


_OPTIONS = ("out", "steps", "layers", "tokens", "via", "cast", "storage", "max_bytes", "everything")


def command(argv: Sequence[str]) -> list[str]:
    """Return the command line that runs ``max`` with hooks; subgraphs are turned off unless ``argv`` says otherwise."""
    argv = list(argv)
    takes_a_model = argv[0] in ("generate", "serve", "encode")
    if takes_a_model and not any(a.startswith(("--use-subgraphs", "--no-use-subgraphs")) for a in argv):
        argv.append("--no-use-subgraphs")
    return [sys.executable, "-m", "parity_dump.max_main", *argv]


def environment(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment variables that carry ``options`` (out, steps, layers, tokens, cast, ...)."""
    out = str(Path(options["out"]).resolve())
    return {OPTIONS_VARIABLE: json.dumps({**options, "out": out})}


def _argument(argv: Sequence[str], *flags: str) -> str | None:
    """Return the value of the first of ``flags`` on a command line: ``--flag value`` or ``--flag=value``."""
    for i, a in enumerate(argv):
        name, eq, value = a.partition("=")
        if name in flags:
            return value if eq else (argv[i + 1] if i + 1 < len(argv) else None)
    return None


def model_facts(argv: Sequence[str]) -> dict[str, Any]:
    """Return the manifest's ``model`` from ``--model-path`` where it is a local folder with a config.json, else its name."""
    path = _argument(argv, "--model-path", "--model")
    if path is None:
        return {}
    config = Path(path) / "config.json"
    if not config.is_file():
        return {"id": path}
    from .hf_config import facts

    encoding = _argument(argv, "--quantization-encoding")
    found = {"id": Path(path).name, **facts(json.loads(config.read_text()))}
    if encoding:
        found["dtype"] = encoding
    return found
