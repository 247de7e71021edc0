"""JAX: ``tap`` that works under ``jit``, and the dumper that waits for it.

::

    from parity_dump import tap
    from parity_dump.jax_tap import Dumper

    @jax.jit
    def forward(params, ids):
        x = tap("post_embed", params["embed"][ids])
        ...

    with Dumper("port/", params=params) as d:
        d.add("prompt_tokens", ids)
        forward(params, ids)

Under a trace a tap becomes ``jax.debug.callback(..., ordered=True)``. Values taken so were measured to be the same bits as
values returned as further outputs (aux), and the model's own result the same bits as without taps; a callback needs no
change of the function's signature, works inside ``scan`` (:func:`indexed_tap`) and writes each value as it comes.

What goes wrong elsewhere and is loud here: callbacks run behind the caller's back, so a plain ``DumpWriter`` would close
before they have run (refused); a function that was traced outside a dumper has no taps in it, and jit's cache, which goes
by the function and its shapes, keeps it that way, so a Dumper clears the caches; a numpy scalar promotes a bf16 model to
float32 (a warning, from the dtype of ``params``). What only you can know: a Python global is baked into a trace; changing it
afterwards changes nothing, so pass what varies as an argument.
"""

from __future__ import annotations

import os
from collections import Counter
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from .core import DumpWriter
from .dtypes import RAW_FLOATS, normalize
from .errors import DumpError
from .taps import active, tap

T = TypeVar("T")


def to_numpy(x: Any) -> tuple[npt.NDArray[Any], str]:
    """Return ``(private copy, logical dtype)`` of a JAX array; bfloat16 as uint16 bits, 8-bit floats as uint8.

    Raises :class:`DumpError` for a tracer, which has no values, and for typed PRNG keys.
    """
    import jax

    if isinstance(x, jax.core.Tracer):
        raise DumpError(f"reading a JAX tracer {x.aval}: it has no values under jit; use tap inside a jax_tap.Dumper")
    if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    name = str(x.dtype)
    array = np.array(x, copy=True)
    if name in RAW_FLOATS:
        return array.view(np.uint16 if array.dtype.itemsize == 2 else np.uint8), name
    return normalize(array, None)


class Dumper(DumpWriter):
    """A :class:`~parity_dump.DumpWriter` that waits for JAX's callbacks before it closes.

    ``params``, any pytree of arrays, tells the model's dtype: that of most of its values. ``ordered=False`` lets callbacks
    come in any order, which a function that runs on several devices needs. ``fresh=False`` keeps JAX's compilation caches,
    so that the next of many dumpers does not compile again: what was traced without a dumper then stays without taps. The
    other arguments are DumpWriter's.
    """

    def __init__(
        self,
        out: str | os.PathLike[str],
        *,
        params: Any = None,
        ordered: bool = True,
        fresh: bool = True,
        dumper: str = "parity_dump.jax_tap",
        **options: Any,
    ) -> None:
        model = dict(options.pop("model", None) or {})
        if params is not None and "dtype" not in model:
            model["dtype"] = params_dtype(params)
        options.setdefault("framework", framework_facts())
        super().__init__(out, dumper=dumper, model=model, **options)
        self.ordered, self._fresh = ordered, fresh
        self._failed: BaseException | None = None

    def receive(self, name: str, array: Any) -> None:
        """Take a value from a callback; the first error is kept and raised when the block ends."""
        try:
            values, dtype = to_numpy(array) if not isinstance(array, np.ndarray) else normalize(np.array(array), None)
            self.add(name, values, dtype=dtype)
        except BaseException as e:
            self._failed = self._failed or e

    def __enter__(self) -> Dumper:
        import jax

        if self._fresh:
            jax.clear_caches()
        super().__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        import jax

        try:
            jax.effects_barrier()
        except Exception as e:  # a callback's own error is the better one
            self._failed = self._failed or e
        if error is None and self._failed is not None:
            super().__exit__(type(self._failed), self._failed, None)
            raise self._failed
        super().__exit__(kind, error, tb)


def params_dtype(params: Any) -> str:
    """Return the float dtype that most values of a pytree have. Raises :class:`DumpError` where it holds no float."""
    import jax
    import jax.numpy as jnp

    sizes: Counter[str] = Counter()
    for leaf in jax.tree_util.tree_leaves(params):
        if hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating):
            sizes[str(leaf.dtype)] += int(leaf.size)
    if not sizes:
        raise DumpError("finding the dtype of params: it holds no float array")
    return sizes.most_common(1)[0][0]


def framework_facts() -> dict[str, Any]:
    """Return the manifest's ``framework``: JAX, its version, the default device, the precision of products if set."""
    import jax

    facts = {"name": "jax", "version": jax.__version__, "device": jax.default_backend()}
    precision = jax.config.jax_default_matmul_precision
    if precision is not None:
        facts["matmul_precision"] = str(precision)
    return facts


def traced_tap(name: str, x: Any) -> Any:
    """Place :func:`parity_dump.tap` in a trace, or return NotImplemented for an array that has values.

    The value goes to the Dumper that is open when the compiled function *runs*: jit traces once and runs many times.
    Raises :class:`DumpError` where a sink is open that would not wait for the callback.
    """
    import jax

    if not isinstance(x, jax.core.Tracer):
        return NotImplemented
    jax.debug.callback(lambda value: _deliver(name, value), x, ordered=_open_dumper(name).ordered)
    return x


def indexed_tap(template: str, index: Any, x: T) -> T:
    """Tap inside ``lax.scan`` or ``fori_loop``: ``indexed_tap("layer_{:02d}.attn_out", i, x)``; returns ``x``.

    ``index`` is the loop's own counter; the name is made when the value comes. Without an open sink it does nothing.
    """
    import jax

    if active() is None:
        return x
    if not isinstance(x, jax.core.Tracer):
        return tap(template.format(int(index)), x)
    ordered = _open_dumper(template).ordered
    jax.debug.callback(lambda i, value: _deliver(template.format(int(i)), value), index, x, ordered=ordered)
    return x


def _open_dumper(name: str) -> Dumper:
    sink = active()
    if not isinstance(sink, Dumper):
        raise DumpError(
            f"tapping {name} under jit: a {type(sink).__name__} closes before JAX has run its callbacks; open a "
            "parity_dump.jax_tap.Dumper"
        )
    return sink


def _deliver(name: str, value: Any) -> None:
    # Note: outside a Dumper a traced tap is silent, like any other tap: the function may run long after the dump.
    sink = active()
    if isinstance(sink, Dumper):
        sink.receive(name, value)
