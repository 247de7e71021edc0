"""Hooks that dump any ``max`` pipeline unedited: every named layer is tapped while MAX traces the model.

What is wrapped (:data:`PATCHES` is the table), all of it public API of MAX 26:

* V2 modules (``max.nn``): ``load_state_dict`` and ``trace`` tell the names of the layers, a layer hook sees each call;
* V3 modules (``max.experimental.nn``): ``compilation.stage`` tells the names, ``Module.__call__`` is seen;
* ``Graph.output`` appends the taps, ``Model.execute`` takes them off and writes the folder of the step;
* with ``via="prints"`` each tap is printed where it is placed, ``InferenceSession`` tells where MAX's debug options are
  set, and ``Model.execute`` reads the files that MAX has written (:mod:`parity_dump.max_prints`).

A value inside a subgraph cannot be an output of the graph: V3 subgraphs are inlined, and V2 pipelines are run with
``--no-use-subgraphs``; if one is met all the same, a warning names what is missing.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .errors import DumpError, DumpWarning
from .max_prints import Prints
from .max_taps import GraphTaps, StepRecorder, output_with_taps, split_results
from .module_names import input_of, output_of
from .names import split_layer
from .selection import Selection

VIAS = ("outputs", "prints")


class Patch(NamedTuple):
    """An attribute to replace while the hooks are installed: ``owner.name = wrap(hooks, original)``."""

    module: str
    owner: str
    name: str
    wrap: Callable[[MaxHooks, Callable[..., Any]], Callable[..., Any]]


class MaxHooks:
    """Taps the layers of every MAX model that is traced while installed, and writes a folder for each execute.

    As a context manager: everything is put back on leaving. ``everything`` also taps modules that stand for no standard
    checkpoint, under their own path. ``cast="float32"`` casts inside the graph. ``layers`` selects layers at trace time, so
    that the others cost nothing; ``num_layers`` is needed for ``last``. ``via`` is ``outputs``, or ``prints`` for a model
    whose outputs cannot be extended; ``scratch`` is the folder in which MAX then writes its files, removed after each
    execute.
    """

    def __init__(
        self,
        recorder: StepRecorder,
        *,
        cast: str | None = None,
        layers: str | None = None,
        num_layers: int | None = None,
        everything: bool = False,
        via: str = "outputs",
        scratch: str | os.PathLike[str] | None = None,
    ) -> None:
        if via not in VIAS:
            raise DumpError(f"hooking MAX: via={via!r} is not one of {', '.join(VIAS)}")
        self.recorder = recorder
        self.prints = Prints(scratch) if via == "prints" else None
        self._cast, self._everything, self._num_layers = cast, everything, num_layers
        self._layers = Selection.parse(layers, "layers") if layers else None
        if self._layers and num_layers:
            self._layers.require(num_layers, "layers")  # now, not after minutes of compiling
        self._paths: dict[int, tuple[Any, str]] = {}  # id -> (the layer itself, so that the id stays its own; path)
        self._graphs: dict[int, tuple[Any, GraphTaps]] = {}
        self._subgraphs: dict[int, Any] = {}
        self._lost: dict[str, int] = {}
        self._result_names: dict[Any, list[str]] = {}
        self._vocab: int | None = None
        self._undo: list[tuple[Any, str, Any]] = []

    # ---- installing ------------------------------------------------------------------------------------------------

    def __enter__(self) -> MaxHooks:
        from importlib import import_module

        from max.nn.layer import layer as v2

        try:
            for p in PATCHES:
                owner: Any = import_module(p.module)
                for part in filter(None, p.owner.split(".")):
                    owner = getattr(owner, part)
                original = getattr(owner, p.name)
                setattr(owner, p.name, functools.wraps(original)(p.wrap(self, original)))
                self._undo.append((owner, p.name, original))
            v2.add_layer_hook(self._on_v2_call)
        except BaseException:
            self._restore()
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, tb: object) -> None:
        self._restore()
        self.recorder.end_step(error)

    def _restore(self) -> None:
        from max.nn.layer import layer as v2

        if self._on_v2_call in v2._LAYER_HOOKS:
            v2._LAYER_HOOKS.remove(self._on_v2_call)
        while self._undo:
            owner, name, original = self._undo.pop()
            setattr(owner, name, original)

    # ---- names -----------------------------------------------------------------------------------------------------

    def name_v2(self, root: Any) -> None:
        """Remember the path of every layer below ``root``; of two roots the outer one wins."""
        for path, layer in _walk_v2(root):
            self._name(layer, path)

    def name_v3(self, root: Any) -> None:
        """Remember the path of every V3 module below ``root``, if it is one (a function can be staged too)."""
        for path, module in _walk_v3(root):
            self._name(module, path)

    def _name(self, layer: Any, path: str) -> None:
        known = self._paths.get(id(layer))
        if known is None or known[0] is not layer or len(path) > len(known[1]):
            self._paths[id(layer)] = (layer, path)

    # ---- tracing ---------------------------------------------------------------------------------------------------

    def _on_v2_call(self, layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: Any) -> None:
        # Note: a hook that returns anything but None would replace the layer's outputs.
        self.on_call(layer, args, outputs)

    def on_call(self, layer: Any, args: tuple[Any, ...], outputs: Any) -> None:
        """Tap the first input and the output of a layer that was just traced, where they stand for a checkpoint."""
        known = self._paths.get(id(layer))
        if known is None or known[0] is not layer:
            return
        path = known[1]
        before, after = input_of(path), output_of(path)
        # A fused norm takes (hidden, residual): neither alone is the residual stream that ffn_inp stands for.
        if before is not None and args and not (before.name.endswith(".ffn_inp") and len(_tensors(args)) != 1):
            self._tap(before.name, _tensors(args[0]), f"{path} (input)", before.rank)
        tensors = _tensors(outputs)
        if after is not None and after.name == "post_embed":
            self._vocab = _rows(getattr(layer, "weight", None))
        if after is not None:
            self._tap_output(after.name, after.rank, tensors, path)
        elif self._everything and tensors:
            self._tap(path, tensors[:1], path, 0)

    def _tap_output(self, name: str, rank: int, tensors: list[Any], path: str) -> None:
        """Tap a layer's output; of a (hidden, residual) pair the sum, which is the residual stream, and both halves."""
        index, tap = split_layer(name)
        devices = [str(t.device) for t in tensors]
        if len(tensors) > 1 and len(set(devices)) == len(tensors):
            self._tap(name, tensors, path, rank)  # one value for each device
        elif index is not None and tap is None and len(tensors) == 2 and _alike(*tensors):
            hidden, residual = tensors
            self._tap(f"{name}.hidden", [hidden], f"{path}[0]", rank)
            self._tap(f"{name}.residual", [residual], f"{path}[1]", rank)
            self._tap(name, [hidden + residual], f"{path}[0] + [1]", rank)
        elif tensors:
            self._tap(name, tensors[:1], path, rank)

    def _tap(self, name: str, tensors: list[Any], source: str, rank: int) -> None:
        from max.graph import Graph

        if not tensors or not self._wanted(name):
            return
        graph = Graph.current
        if id(graph) in self._subgraphs:
            self._lost[graph.name] = self._lost.get(graph.name, 0) + 1
            return
        printer = self.prints.emit if self.prints else None
        _, taps = self._graphs.setdefault(id(graph), (graph, GraphTaps(graph.name, self._cast, printer)))
        taps.add(name, tensors, source=source, rank=rank)

    def _wanted(self, name: str) -> bool:
        index, _ = split_layer(name)
        return index is None or self._layers is None or self._layers.has(index, self._num_layers)

    def finish(self, graph: Any, outputs: tuple[Any, ...], output: Callable[..., None]) -> None:
        """End a graph: its outputs, then its taps."""
        known = self._graphs.pop(id(graph), None)
        if known is None or known[0] is not graph or id(graph) in self._subgraphs:
            output(graph, *outputs)
            return
        first = _tensors(outputs[0]) if outputs else []
        if "logits" not in known[1].taps and first and self._vocab and first[0].shape[-1] == self._vocab:
            # A tied head is no module's call in V3: the model multiplies by the embedding's weight itself.
            known[1].add("logits", first[:1], source="output 0")
        output_with_taps(graph, outputs, known[1], output)
        self.recorder.announce(known[1])

    # ---- running ---------------------------------------------------------------------------------------------------

    def execute(self, model: Any, execute: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Run ``execute(model, *args)``, write what was tapped, and return the model's own results."""
        name = str(getattr(model, "name", "model"))
        taps = self.recorder.taps_of(name) if self.prints else None
        if self.prints is None or not taps:
            return self.results(model, execute(model, *args))
        with self.prints.capture() as folder:
            results = execute(model, *args)
            self.recorder.record(name, self.prints.read(folder, taps.values(), results))
        return results

    def results(self, model: Any, results: list[Any]) -> list[Any]:
        """Take the taps off the results of an execute and write them; a model without taps passes through."""
        names = self._result_names.get(model)
        if names is None:
            names = self._result_names[model] = [spec.name for spec in model.output_metadata]
        if not any(n.startswith("parity:") for n in names):
            return results
        own, tapped = split_results(names, results)
        self.recorder.record(str(getattr(model, "name", "model")), tapped)
        return own

    def check(self) -> None:
        """Say what was missed: raises :class:`DumpError` if nothing was tapped or nothing ran, warns of lost subgraphs."""
        for graph, n in self._lost.items():
            warnings.warn(
                f"{n} values inside subgraph {graph} were not dumped, since a subgraph's values cannot be outputs: pass "
                "--no-use-subgraphs to max",
                DumpWarning,
                stacklevel=2,
            )
        if not self.recorder.announced:
            raise DumpError(
                "dumping a MAX pipeline: no known layer was traced. Was the model compiled in another process (serve), or do "
                "its modules have unusual names (--everything taps them all)?"
            )
        if not self.recorder.written:
            raise DumpError("dumping a MAX pipeline: the tapped graph was never executed, so there is no dump")


# ---- the wrapped functions -----------------------------------------------------------------------------------------


def _load_state_dict(hooks: MaxHooks, original: Callable[..., Any]) -> Callable[..., Any]:
    def load_state_dict(self: Any, *args: Any, **kwargs: Any) -> Any:
        hooks.name_v2(self)
        return original(self, *args, **kwargs)

    return load_state_dict


def _trace(hooks: MaxHooks, original: Callable[..., Any]) -> Callable[..., Any]:
    def trace(self: Any, *args: Any, **kwargs: Any) -> Any:
        hooks.name_v2(self)
        return original(self, *args, **kwargs)

    return trace


def _stage(hooks: MaxHooks, original: Callable[..., Any]) -> Callable[..., Any]:
    def stage(fn: Any, **kwargs: Any) -> Any:
        hooks.name_v3(fn)
        return original(fn, **{**kwargs, "allow_subgraphs": False})

    return stage


def _call_v3(hooks: MaxHooks, original: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        outputs = original(self, *args, **kwargs)
        hooks.on_call(self, args, outputs)
        return outputs

    return call


def _add_subgraph(hooks: MaxHooks, original: Callable[..., Any]) -> Callable[..., Any]:
    def add_subgraph(self: Any, *args: Any, **kwargs: Any) -> Any:
        graph = original(self, *args, **kwargs)
        hooks._subgraphs[id(graph)] = graph
        return graph

    return add_subgraph


def _output(hooks: MaxHooks, original: Callable[..., Any]) -> Callable[..., Any]:
    def output(self: Any, *outputs: Any) -> None:
        hooks.finish(self, outputs, original)

    return output


def _execute(hooks: MaxHooks, original: Callable[..., Any]) -> Callable[..., Any]:
    def execute(self: Any, *args: Any) -> Any:
        return hooks.execute(self, original, args)

    return execute


def _init_session(hooks: MaxHooks, original: Callable[..., Any]) -> Callable[..., Any]:
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if hooks.prints:
            hooks.prints.add_session(self)

    return init


# Model.__call__ needs no row: it calls Model.execute.
PATCHES: tuple[Patch, ...] = (
    Patch("max.nn.layer", "Module", "load_state_dict", _load_state_dict),
    Patch("max.nn.layer", "Module", "trace", _trace),
    Patch("max.experimental.compilation", "", "stage", _stage),
    Patch("max.experimental.nn", "Module", "__call__", _call_v3),
    Patch("max.graph", "Graph", "add_subgraph", _add_subgraph),
    Patch("max.graph", "Graph", "output", _output),
    Patch("max.engine", "Model", "execute", _execute),
    Patch("max.engine", "InferenceSession", "__init__", _init_session),
)


def _walk_v2(layer: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield ``(path, layer)`` for a V2 module and everything below it, the root under an empty path."""
    if path:
        yield path, layer
    for name, child in layer.sublayers.items():
        yield from _walk_v2(child, f"{path}.{name}" if path else name)


def _walk_v3(value: Any, base: str = "") -> Iterator[tuple[str, Any]]:
    """Yield ``(path, module)`` for everything below a V3 module: in its attributes, and in lists and dicts among them.

    The name of a transparent child is left out of its descendants' paths, as MAX does; the child itself has it.
    """
    from max.experimental.nn import Module

    children: dict[str, Any] = {}
    if isinstance(value, Module):
        children.update(vars(value))
    if isinstance(value, dict):
        children.update({str(k): v for k, v in value.items()})
    elif isinstance(value, (list, tuple)):  # a ModuleList is a Module and a list
        children.update({str(i): v for i, v in enumerate(value)})
    for name, child in children.items():
        path = f"{base}.{name}" if base else name
        if isinstance(child, Module):
            yield path, child
            yield from _walk_v3(child, base if child.name_transparent else path)
        elif isinstance(child, (dict, list, tuple)):
            yield from _walk_v3(child, path)


def _tensors(value: Any) -> list[Any]:
    """Return the graph's tensor symbols in a value: a tensor, a V3 tensor's shards, or a list or tuple of these."""
    from max.graph import TensorValue

    if isinstance(value, TensorValue):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in _tensors(v)]
    shards = getattr(value, "graph_values", None)
    return [s for s in shards or () if isinstance(s, TensorValue)]


def _rows(weight: Any) -> int | None:
    """Return how many rows an embedding's weight has: the size of the vocabulary; None where it has no weight."""
    try:
        return int(weight.shape[0])
    except (AttributeError, IndexError, TypeError, ValueError):
        return None


def _alike(a: Any, b: Any) -> bool:
    return bool(list(a.shape) == list(b.shape) and a.dtype == b.dtype and a.device == b.device)
