"""Taps in a MAX graph: extra outputs that carry their own names, taken off again when the graph runs.

A MAX model is a compiled graph, so nothing can be hooked while it runs. What can be done: while the graph is built, each
tapped value becomes one more output; the name of the checkpoint becomes the *result name* of that output, which survives
compilation and MAX's compile cache. Whoever executes the model splits the results by those names. Outputs keep dtype and
full precision and print nothing. Where a pipeline's outputs cannot be extended, :mod:`parity_dump.max_prints` is the other
way to the same values.

For a graph written by hand::

    taps = MaxTaps("port/")
    with Graph("net", input_types=...) as graph:
        h = taps.tap("layer_00", block(h))
        taps.output(graph, logits)              # instead of graph.output(logits)
    model = taps.wrap(session.load(graph))
    (logits,) = model.execute(tokens)           # writes port/step_0000/

A whole ``max`` pipeline needs no edit at all: see :mod:`parity_dump.max`.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .core import DumpWriter
from .dtypes import RAW_FLOATS
from .errors import DumpError
from .folder import prepare
from .max_file import MaxTensor
from .names import split_layer
from .selection import Selection
from .taps import pop_sink, push_sink

Array = npt.NDArray[Any]

# A result name is "parity:<rank>/<world>:<checkpoint>"; MAX's own outputs are called output0, output1, ...
_RESULT = re.compile(r"^parity:(\d+)/(\d+):(.+)$", re.DOTALL)

# MAX's enum has its own spelling for one of the 8-bit floats.
_LOGICAL = {"float8_e8m0": "float8_e8m0fnu"}


def logical_name(dtype: Any) -> str:
    """Return the manifest's name of a ``max.dtype.DType``."""
    name = str(getattr(dtype, "name", dtype)).rpartition(".")[2]
    return _LOGICAL.get(name, name)


def buffer_to_numpy(buffer: Any) -> tuple[Array, str]:
    """Return ``(private copy, logical dtype)`` of a ``max.driver.Buffer`` on any device.

    bfloat16 and 8-bit floats, which ``Buffer.to_numpy`` refuses, come as their bits (uint16, uint8).
    """
    from max.driver import CPU
    from max.dtype import DType

    name = logical_name(buffer.dtype)
    host = buffer.to(CPU())
    if name in RAW_FLOATS:
        bits = DType.uint16 if RAW_FLOATS[name].bits == 16 else DType.uint8
        host = host.view(bits, host.shape)
    # Note: the buffer may alias memory that the next execute reuses, so the copy is made here and now.
    return np.array(host.to_numpy(), copy=True), name


class Tap(NamedTuple):
    """One tapped value of a graph: where it is from, and the graph's symbol for it (one for each device).

    ``labels``, one for each symbol, are what it is printed under; there are none where taps are outputs.
    """

    name: str
    source: str | None
    dtype: str
    values: tuple[Any, ...]
    labels: tuple[str, ...] = ()


@dataclass
class GraphTaps:
    """The taps of one graph while it is built, in the order in which they will be executed.

    ``cast`` names a dtype to which floats are cast inside the graph ("float32"), or is None: each keeps its own.
    ``printer(graph, name, values)`` prints each tap where it is placed and returns the labels; without one, taps become
    outputs at the graph's end.
    """

    graph: str
    cast: str | None = None
    printer: Callable[[str, str, Sequence[Any]], tuple[str, ...]] | None = None
    taps: dict[str, Tap] = field(default_factory=dict)
    _ranks: dict[str, int] = field(default_factory=dict)
    _calls: dict[tuple[str, str | None], int] = field(default_factory=dict)

    def add(self, name: str, values: Sequence[Any], *, source: str | None = None, rank: int = 0) -> None:
        """Tap ``values`` (one symbol for each device) as ``name``.

        A second module that claims the name replaces the first only with a lower ``rank``. The same module called again is
        another value: it is kept as ``<name>.call_2``, so that nothing is overwritten silently.
        """
        key = (name, source)
        self._calls[key] = self._calls.get(key, 0) + 1
        if self._calls[key] > 1:
            name = f"{name}.call_{self._calls[key]}"
        elif name in self.taps:
            if rank >= self._ranks[name]:
                return
            del self.taps[name]  # inserted again at its new place in the order
        self._ranks[name] = rank
        # Printed here, not at the graph's end, so that MAX need not hold all of them until then. What a better source
        # replaces later is printed in vain: its file is not read.
        labels = self.printer(self.graph, name, [self._casted(v) for v in values]) if self.printer else ()
        self.taps[name] = Tap(name, source, logical_name(values[0].dtype), tuple(values), labels)

    def emit(self) -> tuple[list[Any], list[str]]:
        """Return the extra outputs and their result names; called once, inside the graph's context. None where printed."""
        values, names = [], []
        for tap in self.taps.values() if self.printer is None else ():
            for i, value in enumerate(tap.values):
                values.append(self._casted(value))
                names.append(f"parity:{i}/{len(tap.values)}:{tap.name}")
        return values, names

    def _casted(self, value: Any) -> Any:
        from max.dtype import DType
        from max.graph import ops

        if self.cast and value.dtype.is_float() and logical_name(value.dtype) != self.cast:
            return ops.cast(value, DType[self.cast])
        return value


def output_with_taps(graph: Any, outputs: Sequence[Any], taps: GraphTaps, output: Callable[..., None]) -> None:
    """Call ``output`` (``Graph.output``) with the taps behind the graph's own results, and name them."""
    from max import mlir

    extra, names = taps.emit()
    output(graph, *outputs, *extra)
    if not names:
        return
    # Chains, where a graph has them, are outputs behind ours; they keep their names.
    have = [str(a).strip('"') for a in graph._mlir_op.attributes["result_names"]]
    have[len(outputs) : len(outputs) + len(names)] = names
    with mlir.Location.unknown(graph._mlir_op.context):
        graph._mlir_op.attributes["result_names"] = mlir.ArrayAttr.get([mlir.StringAttr.get(n) for n in have])


class Result(NamedTuple):
    """A tapped result of an execute: rank, number of ranks, checkpoint name, values (a driver's buffer, or a file's)."""

    rank: int
    world: int
    name: str
    values: Any

    def to_numpy(self) -> tuple[Array, str]:
        """Return ``(private copy, logical dtype)`` of the values."""
        if isinstance(self.values, MaxTensor):
            return self.values.array, self.values.dtype
        return buffer_to_numpy(self.values)


def split_results(names: Sequence[str], results: Sequence[Any]) -> tuple[list[Any], list[Result]]:
    """Return ``(the model's own results, tapped results)`` by the names of the model's outputs.

    Raises :class:`DumpError` where there are not as many names as results: then no name can be trusted.
    """
    if len(names) != len(results):
        raise DumpError(f"splitting the results of a MAX model: {len(results)} results, but {len(names)} output names")
    own, tapped = [], []
    for name, value in zip(names, results, strict=True):
        m = _RESULT.match(name)
        if m:
            tapped.append(Result(int(m[1]), int(m[2]), m[3], value))
        else:
            own.append(value)
    return own, tapped


MakeWriter = Callable[[int, "dict[str, int] | None"], DumpWriter]


class StepRecorder:
    """Writes one folder for each execute: ``step_0000`` is the prefill, the others are decode steps.

    A pipeline may have several tapped graphs (a vision encoder and a decoder): a step ends when one of them runs again, or
    when all that were announced have run. ``only`` (``"0-3,last"`` without last) selects the steps that are written.
    """

    def __init__(self, make_writer: MakeWriter, only: str | None = None) -> None:
        self._make_writer = make_writer
        self._only = Selection.parse(only, "steps") if only else None
        self._known: dict[str, dict[str, Tap]] = {}
        self._seen: set[str] = set()
        self._writers: dict[int, DumpWriter] = {}
        self._rows: int | None = None
        self._lock = threading.RLock()
        self.step = -1
        self.written: list[Path] = []

    @property
    def announced(self) -> int:
        """How many taps the graphs announced so far have."""
        return sum(len(taps) for taps in self._known.values())

    def taps_of(self, graph: str) -> dict[str, Tap]:
        """Return the taps that were announced of a graph by its name; empty where there are none."""
        return self._known.get(graph, {})

    def announce(self, taps: GraphTaps) -> None:
        """Say that a graph with these taps was built."""
        with self._lock:
            self._known[taps.graph] = dict(taps.taps)

    def record(self, graph: str, results: Iterable[Result]) -> None:
        """Write the tapped results of one execute of ``graph``."""
        with self._lock:
            if self.step < 0 or graph in self._seen:
                self.end_step()
                self.step += 1
                self._seen = set()
            self._seen.add(graph)
            if self._only is not None and not self._only.has(self.step, None):
                return
            try:
                for r in results:
                    self._add(graph, r)
            except BaseException as e:
                self.end_step(e)
                raise
            if self._known.keys() <= self._seen:
                self.end_step()

    def _add(self, graph: str, r: Result) -> None:
        if r.rank not in self._writers:
            rank = {"index": r.rank, "world": r.world} if r.world > 1 else None
            self._writers[r.rank] = self._make_writer(self.step, rank)
        writer = self._writers[r.rank]
        array, dtype = r.to_numpy()
        tap = self.taps_of(graph).get(r.name)
        name = r.name
        if name == "logits" and array.ndim == 2 and array.shape[0] == 1:
            name, array = "last_logits", array[0]  # a pipeline computes the last position's logits only
        if name in writer.names:
            name = f"{graph}.{name}"  # two graphs of one pipeline with the same module names
        writer.add(name, array, dtype=tap.dtype if tap else dtype, source=tap.source if tap else None)

    def end_step(self, error: BaseException | None = None) -> None:
        """Close the folders of the current step; with ``error`` they are marked incomplete."""
        with self._lock:
            writers, self._writers = list(self._writers.values()), {}
            for w in writers:
                w.close(complete=error is None, error=error)
                self.written.append(w.path)


class TappedModel:
    """A loaded MAX model whose tapped results are written and taken off; everything else is the model's own."""

    def __init__(self, model: Any, recorder: StepRecorder, graph: str) -> None:
        self._model, self._recorder, self._graph = model, recorder, graph
        self._names = [spec.name for spec in model.output_metadata]

    def execute(self, *args: Any) -> list[Any]:
        """Run the model, write the step's folder and return the model's own results."""
        own, tapped = split_results(self._names, self._model.execute(*args))
        self._recorder.record(self._graph, tapped)
        return own

    def __call__(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Run the model as :meth:`execute` does, with arguments by name where wanted."""
        own, tapped = split_results(self._names, self._model(*args, **kwargs))
        self._recorder.record(self._graph, tapped)
        return own

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


class MaxTaps:
    """Taps for a ``max.graph`` written by hand; see the module's example.

    ``cast="float32"`` casts floats inside the graph (not needed for bfloat16: its bits are written as they are).
    ``layers``, ``model``, ``prompt``, ``storage``, ``max_bytes`` and ``overwrite`` are :class:`DumpWriter`'s. ``flat=True``
    writes into ``out`` itself and allows one execute only. ``framework`` is filled in.

    As a context manager it also makes :func:`parity_dump.tap` work inside the graph.
    """

    def __init__(
        self,
        out: str | os.PathLike[str],
        *,
        cast: str | None = None,
        flat: bool = False,
        steps: str | None = None,
        mode: str = "prefill",
        overwrite: bool = False,
        layers: str | None = None,
        **writer_options: Any,
    ) -> None:
        self._cast = cast
        self._layers = Selection.parse(layers, "layers") if layers else None
        self._model = dict(writer_options.get("model") or {})
        self._graphs: dict[int, tuple[Any, GraphTaps]] = {}
        self._last: str | None = None
        prepare(Path(out), Path(out), overwrite)

        def make_writer(step: int, rank: dict[str, int] | None) -> DumpWriter:
            if flat and step > 0:
                raise DumpError(f"writing step {step} to {os.fspath(out)}: flat=True holds one execute only")
            return DumpWriter(
                out,
                dumper="parity_dump.max_taps",
                framework=framework_facts(),
                mode=mode if step == 0 else "incremental",
                step=None if flat else step,
                rank=rank,
                layers=layers,
                **writer_options,
            )

        self.recorder = StepRecorder(make_writer, steps)

    def tap(self, name: str, value: Any, *, source: str | None = None) -> Any:
        """Tap a ``TensorValue`` as ``name`` and return it unchanged."""
        from max.graph import Graph

        index, _ = split_layer(name)
        if index is None or self._layers is None or self._layers.has(index, self._model.get("num_layers")):
            graph = Graph.current
            # The graph is kept beside its taps: an id alone could be reused.
            _, taps = self._graphs.setdefault(id(graph), (graph, GraphTaps(graph.name, self._cast)))
            taps.add(name, graph_values(value), source=source)
        return value

    def add(self, name: str, array: Any, *, dtype: str | None = None, **_: Any) -> None:
        """Refuse a value that is no graph symbol: :func:`parity_dump.tap` was called outside the graph."""
        raise DumpError(f"tapping {name}: MaxTaps takes symbols of a graph being built, not a {type(array).__name__}")

    def output(self, graph: Any, *outputs: Any) -> None:
        """Finish ``graph`` as ``graph.output(*outputs)`` does, with the taps as further outputs.

        Raises :class:`DumpError` where nothing was tapped in this graph.
        """
        _, taps = self._graphs.pop(id(graph), (graph, GraphTaps(graph.name)))
        if not taps.taps:
            raise DumpError(f"finishing graph {graph.name}: nothing was tapped in it")
        output_with_taps(graph, outputs, taps, type(graph).output)
        self.recorder.announce(taps)
        self._last = taps.graph

    def wrap(self, model: Any, graph: str | None = None) -> TappedModel:
        """Return ``model`` (of the last graph finished, or of the one named) so that each execute writes a folder."""
        name = graph or self._last
        if name is None:
            raise DumpError("wrapping a MAX model: finish its graph with MaxTaps.output first")
        return TappedModel(model, self.recorder, name)

    def __enter__(self) -> MaxTaps:
        push_sink(self)
        return self

    def __exit__(self, kind: object, error: BaseException | None, tb: object) -> None:
        pop_sink(self)
        self.recorder.end_step(error)


def graph_values(value: Any) -> list[Any]:
    """Return the graph symbols of a value: one of a ``TensorValue``, one for each shard of a V3 ``Tensor``."""
    from max.graph import TensorValue

    if isinstance(value, TensorValue):
        return [value]
    shards = getattr(value, "graph_values", None)
    found = [s for s in shards or () if isinstance(s, TensorValue)]
    if not found:
        raise DumpError(f"tapping a {type(value).__name__}: it is no tensor of the graph being built")
    return found


def framework_facts() -> dict[str, Any]:
    """Return the manifest's ``framework``: MAX, its version, and the kind of device that sessions use by default."""
    from importlib.metadata import version

    from max.driver import accelerator_count

    device = "gpu" if accelerator_count() else "cpu"
    return {"name": "max", "version": version("max"), "device": device}
