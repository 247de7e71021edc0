"""Our speed beside numpy's, torch's and the machine's own, in one run on the same files.

    python bench/bench.py                              print the tables
    python bench/bench.py --write docs/performance.md  write them as a page, too
    python bench/bench.py --quick                      the float32 files only, few runs

It needs numpy, Go and bin/parity (or PARITY_BIN). The files are made afresh in a
temporary folder, lie in the page cache when they are read, and are removed.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


@dataclass(frozen=True)
class Case:
    """One set of files: count pairs of [rows, cols]."""

    count: int
    rows: int
    cols: int
    dtype: str = "float32"

    @property
    def name(self) -> str:
        """Say it as the tables do."""
        shape = f"[{self.rows}, {self.cols}] {self.dtype}"
        return f"{self.count} x {shape}" if self.count > 1 else shape

    @property
    def elements(self) -> int:
        """Pairs of elements."""
        return self.count * self.rows * self.cols

    @property
    def bytes(self) -> int:
        """Of both sides."""
        return 2 * self.elements * (4 if self.dtype == "float32" else 2)


@dataclass
class Row:
    """One line of a table; seconds is the median, best None where only that is known."""

    program: str
    seconds: float
    rss: int
    note: str
    best: float | None = None


@dataclass
class Table:
    """What was measured on the files of one case."""

    case: Case
    rows: list[Row] = field(default_factory=list)

    def __getitem__(self, program: str) -> Row:
        return next(r for r in self.rows if r.program == program)


MAIN = Case(1, 8192, 4096)
SMALL = Case(30, 16, 2048)
MANY = Case(32, 2048, 4096)
LARGE = 1_000_000_000  # bytes from which on fewer runs do
DTYPES = ("float32", "float16", "bfloat16")

# Program, and what it leaves out or how it is counted.
NUMPY = {
    "listcomp": "list comprehensions, one per token and one per dim",
    "einsum64": "einsum, float64 accumulation",
    "einsum32": "einsum, float32",
    "cosmax": "one cosine and one maximum only",
    "torch": "torch, float32, tokens and dims",
}

# Issue 4: the float32 main case must be this many times as fast as each script.
TARGETS = {"listcomp": 60.0, "einsum64": 12.0, "einsum32": 7.0, "cosmax": 5.0}
CEILING_SHARE, PEAK_RSS, SMALL_SECONDS = 0.70, 16e6, 0.010


class Bench:
    """The programs that are measured, and where their files lie."""

    def __init__(self, parity: Path, folder: Path, runs: int, prefix: list[str]) -> None:
        self.parity, self.folder, self.runs, self.prefix = parity, folder, runs, prefix
        subprocess.run(
            ["go", "build", "-o", f"{folder}/", "./bench/ceiling", "./bench/measure"],
            cwd=ROOT,
            check=True,
            env={**os.environ, "CGO_ENABLED": "0"},
        )

    @contextlib.contextmanager
    def files(self, case: Case) -> Iterator[tuple[Path, Path]]:
        """Make the files of a case; they are in the page cache afterwards."""
        folder = self.folder / "files"
        ref, port = folder / "ref", folder / "port"
        ref.mkdir(parents=True)
        port.mkdir()
        rng = np.random.default_rng(1)
        try:
            for i in range(case.count):
                a = rng.standard_normal((case.rows, case.cols), dtype=np.float32)
                b = a + np.float32(1e-5) * rng.standard_normal(a.shape, dtype=np.float32)
                np.save(ref / f"layer_{i:02d}.npy", narrow(a, case.dtype))
                np.save(port / f"layer_{i:02d}.npy", narrow(b, case.dtype))
            os.sync()  # pages that are still to be written are slower to read
            yield ref, port
        finally:
            shutil.rmtree(folder)

    def measure(self, runs: int, *commands: list[str]) -> list[dict]:
        """Whole processes, in turn, so that what disturbs one disturbs all."""
        args = [*self.prefix, str(self.folder / "measure"), "-n", str(runs)]
        for c in commands:
            args += ["--", *c]
        # Some machines tell OpenBLAS which processor to assume: numpy is to choose.
        env = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
        out = subprocess.run(args, check=True, stdout=subprocess.PIPE, text=True, env=env).stdout
        return json.loads(out)

    def case(self, case: Case, baselines: list[str]) -> Table:
        """Measure parity, the ceiling and the baselines on one set of files."""
        table = Table(case)
        with self.files(case) as (ref, port):
            compare = [str(self.parity), "compare", str(ref), str(port), "--format", "json"]
            if case.dtype == "bfloat16":
                compare += ["--dtype", "bfloat16"]
            runs = self.runs if case.bytes < LARGE else max(3, self.runs // 4)
            ours, ceiling, start = self.measure(
                runs,
                compare,
                [str(self.folder / "ceiling"), str(ref), str(port)],
                [str(self.parity), "version"],
            )
            if ours["status"] not in (0, 1):
                sys.exit(f"bench.py: parity ends with status {ours['status']} on {case.name}")
            for name, r, note in (
                ("parity", ours, "whole process, all outputs"),
                ("ceiling", ceiling, "pread and xor, bench/ceiling"),
                ("start", start, "parity version: what a process costs that compares nothing"),
            ):
                note += f"; best run {r['best']:.4f} s"
                table.rows.append(Row(name, r["median"], r["rss"], note, r["best"]))
            for name in baselines:
                r = self.baseline(name, ref, port, case)
                note = f"{NUMPY[name]}; {r['compute']:.3f} s of it after the files are loaded"
                table.rows.append(Row(name, r["seconds"], r["rss"], note))
        return table

    def baseline(self, name: str, ref: Path, port: Path, case: Case) -> dict:
        """Run one script of baselines.py in a process of its own."""
        out = self.folder / "baseline.json"
        command = [sys.executable, str(HERE / "baselines.py"), name, str(ref), str(port), str(out), "--dtype", case.dtype]
        command += ["--repeat", "3" if case.bytes < LARGE else "1"]
        (process,) = self.measure(1, command)
        return {**json.loads(out.read_text()), "rss": process["rss"]}

    def sparse(self, rows: int, cols: int) -> dict:
        """Measure a pair of files that are holes after their first row: they cost no disk."""
        folder = self.folder / "sparse"
        try:
            for side in ("ref", "port"):
                (folder / side).mkdir(parents=True)
                with (folder / side / "layer_00.npy").open("wb") as f:
                    header = {"descr": "<f4", "fortran_order": False, "shape": (rows, cols)}
                    np.lib.format.write_array_header_1_0(f, header)
                    start = f.tell()
                    f.write(np.random.default_rng(1).standard_normal(cols, dtype=np.float32).tobytes())
                    f.truncate(start + 4 * rows * cols)
            command = [str(self.parity), "compare", str(folder / "ref"), str(folder / "port"), "--format", "json"]
            return self.measure(2 if rows * cols < LARGE else 1, command)[0]
        finally:
            shutil.rmtree(folder)


def narrow(a: np.ndarray, dtype: str) -> np.ndarray:
    """Store a as dtype; bfloat16 as the upper halves, in numpy a 2-byte void."""
    if dtype == "bfloat16":
        return (a.view(np.uint32) >> 16).astype(np.uint16).view("V2")
    return a.astype(dtype, copy=False)


def cpu() -> str:
    """Name the processor and what of it this process may use."""
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    flags = ""
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text()
        flags = ", " + "/".join(f for f in ("avx2", "avx512f") if f" {f} " in text) if " avx2 " in text else ""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}{flags}, {count} CPUs"


def render(table: Table) -> list[str]:
    """One case as a Markdown table."""
    case, ours = table.case, table["parity"]
    lines = [
        f"### {case.name} ({case.bytes / 1e6:,.0f} MB of both sides)",
        "",
        "| program | seconds | GB/s | 10⁹ pairs of elements/s | times parity | peak RSS, MB | |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for r in table.rows:
        rate, elements = case.bytes / r.seconds / 1e9, case.elements / r.seconds / 1e9
        ratio = r.seconds / ours.seconds
        lines.append(
            f"| {r.program} | {r.seconds:.4f} | {rate:.2f} | {elements:.3f} | {ratio:.2f} | {r.rss / 1e6:.1f} | {r.note} |"
        )
    return [*lines, ""]


def targets(tables: list[Table]) -> list[str]:
    """What issue 4 asks for, beside what this run gave."""
    by = {t.case: t for t in tables}
    main = by[MAIN]
    ours = main["parity"]
    rows = []
    for name, want in TARGETS.items():
        ratio = main[name].seconds / ours.seconds
        rows.append((f"`{name}`: at least {want:g} times as fast", f"{ratio:.1f}", ratio >= want))
    share = main["ceiling"].seconds / ours.seconds
    best = main["ceiling"].best / ours.best
    rows.append((f"at least {CEILING_SHARE:.0%} of the ceiling", f"{share:.0%} (best runs {best:.0%})", share >= CEILING_SHARE))
    rows.append((f"peak RSS at most {PEAK_RSS / 1e6:g} MB", f"{ours.rss / 1e6:.1f} MB", ours.rss <= PEAK_RSS))
    for dtype in DTYPES[1:]:
        if (t := by.get(Case(1, MAIN.rows, MAIN.cols, dtype))) is not None:
            ratio = ours.seconds / t["parity"].seconds
            rows.append((f"{dtype}: at least the elements/s of float32", f"{ratio:.2f} times", ratio >= 1))
    small = by[SMALL]["parity"].seconds
    limit = f"{SMALL.name}: whole process under {SMALL_SECONDS * 1e3:g} ms"
    rows.append((limit, f"{small * 1e3:.1f} ms", small < SMALL_SECONDS))
    lines = ["| target | this run | met |", "|---|---|---|"]
    return [*lines, *(f"| {t} | {got} | {'yes' if ok else 'no'} |" for t, got, ok in rows), ""]


def limits(tables: list[Table], kernel_share: float) -> list[str]:
    """Say where the time goes that the ceiling does not need."""
    by = {t.case: t for t in tables}
    main, small = by[MAIN], by[SMALL]
    ours, ceiling, start = (main[n].seconds * 1e3 for n in ("parity", "ceiling", "start"))
    over = ours - ceiling
    arithmetic = ceiling / kernel_share - ceiling
    tiny, begun, read = (small[n].seconds * 1e3 for n in ("parity", "start", "ceiling"))
    return [
        f"- One large pair: {over:.0f} ms more than the ceiling. About {arithmetic:.0f} ms of them are arithmetic beside the",
        f"  copy out of the page cache (the kernel alone reaches {kernel_share:.0%} of the ceiling, see the last section),",
        f"  {start:.0f} ms the start of the process, the rest what one core does with the sums of each token and dim.",
        f"- {SMALL.count} small pairs: {tiny:.0f} ms, {begun:.0f} ms of them the start, {read:.0f} ms what reading takes;",
        "  the stream is read a second time for its increments. The rest is work per checkpoint, not per byte (opening",
        "  files, medians, worst tokens and dims, JSON) and the page faults of a heap that is touched for the first time.",
        "",
    ]


def growth(bench: Bench) -> list[str]:
    """Cost against size, on files that are all hole."""
    lines = [
        "| pair | bytes read | seconds (best) | ns a byte | peak RSS, MB |",
        "|---|---:|---:|---:|---:|",
    ]
    for rows, cols in ((16384, 4096), (131072, 4096), (131072, 32768)):
        r = bench.sparse(rows, cols)
        n = 8 * rows * cols
        per_byte = r["best"] / n * 1e9
        lines.append(f"| [{rows}, {cols}] float32 | {n:,} | {r['best']:.3f} | {per_byte:.3f} | {r['rss'] / 1e6:.1f} |")
        print(lines[-1], flush=True)
    return [*lines, ""]


def kernel_benchmarks(prefix: list[str]) -> tuple[list[str], float]:
    """Run the kernel's own Go benchmarks, compiled beforehand; also return its share of the ceiling."""
    with tempfile.TemporaryDirectory(prefix="parity-bench-") as tmp:
        binary = f"{tmp}/kernel.test"
        subprocess.run(["go", "test", "-c", "-o", binary, "./compare/internal/kernel"], cwd=ROOT, check=True)
        flags = ["-test.run", "^$", "-test.bench", "Pair|Ceiling|Loops", "-test.benchtime", "20x"]
        out = subprocess.run([*prefix, binary, *flags], cwd=tmp, check=True, stdout=subprocess.PIPE, text=True).stdout
        lines = [line for line in out.splitlines() if line.startswith("Benchmark")]
        seconds = {re.sub(r"-\d+$", "", line.split()[0]): float(line.split()[2]) / 1e9 for line in lines}
        two = {t: name for name, t in seconds.items() if name.startswith("BenchmarkPair/f32-f32/") and name.endswith("=2")}
        best, ceiling = min(two), seconds["BenchmarkCeiling/workers=2"]
        profile = where_the_time_goes([*prefix, binary], tmp, two[best])
    share = (
        f"`{two[best]}` takes {best * 1e3:.1f} ms, `BenchmarkCeiling/workers=2` {ceiling * 1e3:.1f} ms: "
        f"{ceiling / best:.0%} of the ceiling."
    )
    command = "go test -run '^$' -bench 'Pair|Ceiling|Loops' -benchtime 20x ./compare/internal/kernel"
    text = [
        f"From the page cache to the sums, without the rest of the program: {share}",
        "",
        "Where that time goes (CPU time of all workers; `Syscall6` is pread, that is the copy out of the page cache):",
        "",
        "```",
        *profile,
        "```",
        "",
        f"`{command}`",
        "",
        "```",
        *lines,
        "```",
        "",
    ]
    return text, ceiling / best


def where_the_time_goes(binary: list[str], folder: str, benchmark: str) -> list[str]:
    """Profile one benchmark of the kernel, the making of its files left out."""
    flags = ["-test.run", "^$", "-test.bench", benchmark.removeprefix("Benchmark"), "-test.benchtime", "100x"]
    subprocess.run([*binary, *flags, "-test.cpuprofile", "cpu.out"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    command = ["go", "tool", "pprof", "-top", "-nodecount", "10", "-focus", "runAll", "-relative_percentages", "cpu.out"]
    out = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    lines = out.splitlines()
    first = next(i for i, line in enumerate(lines) if line.split()[:2] == ["flat", "flat%"])
    return [line.replace("github.com/layerparity/parity/compare/internal/", "") for line in lines[first:]]


PAGE = """# Speed

Written by `python bench/bench.py --write docs/performance.md` on {date}; nothing here is typed in by hand.

- Machine: {cpu}; Linux {linux}; load average {load} at the start{prefix}. The machine is shared: compare the rows
  of one table, not the tables of two days.
- Versions: {parity}; numpy {numpy}{torch}.
- `parity` and `ceiling` are timed as whole processes, from start to exit, in turn, {runs} times each (a quarter of it from
  1 GB on); the table has the
  median, and the best beside it. `ceiling` (bench/ceiling) reads both sides by pread and folds them with exclusive or, in
  as many goroutines as there are CPUs. Peak RSS is the kernel's figure for the whole life of the process, taken by a small
  parent (bench/measure).
- The other programs are the functions of that name in bench/baselines.py, timed inside their process: no start, no
  imports; reading the files with `np.load` counts, as it does for parity, and is given apart.
- All files lie in the page cache.

## Targets

{targets}
## What limits it

{limits}
## Tables

{tables}
## Growth

Cost against size, on pairs of files that are holes after the first row (the system fills them with zeros as they
are read, which is most of the cost; the last pair is larger than the page cache). Memory grows with the number of
tokens and dims that are reported on, not with the bytes.

{growth}
## The kernel alone

{kernel}"""


def main() -> None:
    """Run everything that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page")
    parser.add_argument("--prefix", default="", metavar="COMMAND", help="what is measured runs under this, as 'chrt -r 20'")
    parser.add_argument("--quick", action="store_true", help="float32 only, few runs, no growth")
    args = parser.parse_args()
    parity = Path(os.environ.get("PARITY_BIN", ROOT / "bin" / "parity"))
    if not parity.exists():
        sys.exit(f"bench.py: {parity} is missing; run: make build")
    runs = 5 if args.quick else 21
    has_torch = importlib.util.find_spec("torch") is not None
    scripts = [n for n in NUMPY if n != "torch" or has_torch]
    load = f"{os.getloadavg()[0]:.1f}"
    with tempfile.TemporaryDirectory(prefix="parity-bench-") as tmp:
        bench = Bench(parity, Path(tmp), runs, args.prefix.split())
        tables = []
        for shape in (MAIN, SMALL, MANY):
            for dtype in DTYPES[: 1 if args.quick else None]:
                case = Case(shape.count, shape.rows, shape.cols, dtype)
                table = bench.case(case, scripts)
                tables.append(table)
                print("\n".join(render(table)), flush=True)
        print("\n".join(targets(tables)), flush=True)
        if args.quick:
            return
        grown = growth(bench)
    if args.write is None:
        return
    kernel, share = kernel_benchmarks(args.prefix.split())
    version = subprocess.run([parity, "version"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip().splitlines()[0]
    args.write.write_text(
        PAGE.format(
            date=datetime.date.today().isoformat(),
            cpu=cpu(),
            linux=platform.release().split("-")[0],
            load=load,
            prefix=f", everything measured under `{args.prefix}`" if args.prefix else "",
            parity=version,
            numpy=np.__version__,
            torch=torch_version() if has_torch else "; torch was not installed",
            runs=runs,
            targets="\n".join(targets(tables)),
            tables="\n".join(line for t in tables for line in render(t)),
            growth="\n".join(grown),
            limits="\n".join(limits(tables, share)),
            kernel="\n".join(kernel),
        )
    )


def torch_version() -> str:
    """Name torch's version, without loading it here."""
    from importlib.metadata import version

    return f", torch {version('torch')}"


if __name__ == "__main__":
    main()
