"""The process that runs ``max`` with the hooks installed: ``python -m parity_dump.max_main generate ...``.

Started by ``parity-dump max``, which puts its options into the environment. A process that MAX spawns (the worker of
``max serve``) imports this module again, as ``__mp_main__``, before it does anything else: so the hooks are there too.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from .core import DumpWriter
from .errors import DumpError
from .max import OPTIONS_VARIABLE, model_facts
from .max_hooks import MaxHooks
from .max_taps import StepRecorder, framework_facts


def hooks_from_environment(argv: list[str]) -> MaxHooks:
    """Return hooks as the options in the environment ask for; ``argv`` are max's own arguments."""
    text = os.environ.get(OPTIONS_VARIABLE)
    if not text:
        raise DumpError(f"starting parity_dump.max_main: {OPTIONS_VARIABLE} is not set; run `parity-dump max -o OUT -- ...`")
    o: dict[str, Any] = json.loads(text)
    model = model_facts(argv)
    serving = "serve" in argv[:1]

    def make_writer(step: int, rank: dict[str, int] | None) -> DumpWriter:
        return DumpWriter(
            o["out"],
            dumper="parity_dump.max",
            framework=framework_facts(),
            model=model,
            mode="serve" if serving else ("prefill" if step == 0 else "incremental"),
            step=step,
            rank=rank,
            layers=o.get("layers"),
            tokens=o.get("tokens"),
            storage=o.get("storage") or "native",
            max_bytes=o.get("max_bytes"),
        )

    return MaxHooks(
        StepRecorder(make_writer, o.get("steps")),
        cast=o.get("cast"),
        layers=o.get("layers"),
        num_layers=model.get("num_layers"),
        everything=bool(o.get("everything")),
        via=o.get("via") or "outputs",
        scratch=o["out"],  # on the file system that was chosen for large files
    )


def run_max(argv: list[str]) -> int:
    """Run ``max`` with ``argv`` and return its exit status; errors of the dump are told on stderr, with status 1."""
    try:
        from max._entrypoints.pipelines import main
    except ImportError as e:  # graphs alone need less than pipelines do
        print(f"parity-dump max: {e}: pipelines need more than max alone (pip install 'max[serve]')", file=sys.stderr)
        return 1

    sys.argv = ["max", *argv]
    status = 0
    try:
        with hooks_from_environment(argv) as hooks:
            try:
                main()
            except SystemExit as e:
                status = e.code if isinstance(e.code, int) else int(e.code is not None)
        if argv[0] == "serve":
            written = served(json.loads(os.environ[OPTIONS_VARIABLE])["out"])
        else:
            if status == 0:
                hooks.check()
            written = hooks.recorder.written
    except DumpError as e:
        print(f"parity-dump max: {e}", file=sys.stderr)
        return 1
    for path in written:
        print(f"parity-dump max: wrote {path}", file=sys.stderr)
    return status


def served(out: str | os.PathLike[str]) -> list[Path]:
    """Return the folders that a server's workers have written below ``out``; raises :class:`DumpError` where there is none.

    The model ran in another process, so the hooks of this one have seen nothing: the folder tells.
    """
    written = sorted(p.parent for p in Path(out).rglob("dump.json"))
    if not written:
        raise DumpError(
            f"dumping a MAX server: nothing was written to {os.fspath(out)}. Was a request sent? If so, no known layer was "
            "traced in the worker (--everything taps all of them), or the worker died: see its log"
        )
    return written


if __name__ == "__main__":
    sys.exit(run_max(sys.argv[1:]))
elif __name__ == "__mp_main__":
    # A spawned worker: nobody leaves this context, and no step needs it, since each is closed by its execute.
    hooks_from_environment(sys.argv[1:]).__enter__()
