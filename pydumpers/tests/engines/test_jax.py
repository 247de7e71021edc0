"""JAX on the real SmolLM2-135M, in a forward written by hand, and the traps of taps under jit."""

import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine_support import assert_float32_engine, ids_of, manifest, path_of, reference, tensors, validate

from parity_dump import DumpWriter, tap
from parity_dump.errors import DumpError, DumpTooLargeError, DumpWarning
from parity_dump.jax_tap import Dumper, indexed_tap, params_dtype, to_numpy

HEADS, KV_HEADS, HEAD_DIM, LAYERS, THETA, EPS = 9, 3, 64, 30, 100_000.0, 1e-5


# ---- SmolLM2 by hand -----------------------------------------------------------------------------------------------


def rms_norm(x, weight):
    return weight * (x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + EPS))


def rotate(x):
    """Rotate [T, heads, head_dim] by position: halves (i, i + d/2) are pairs."""
    half = HEAD_DIM // 2
    inverse = 1.0 / THETA ** (jnp.arange(half, dtype=jnp.float32) / half)
    angle = jnp.arange(x.shape[0], dtype=jnp.float32)[:, None, None] * inverse
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * jnp.cos(angle) - b * jnp.sin(angle), b * jnp.cos(angle) + a * jnp.sin(angle)], -1)


def layer(x, w, name, dot):
    """One Llama block on [T, hidden]; ``name`` makes a checkpoint's name from a tap's."""
    t = x.shape[0]
    h = tap(name("input_norm"), rms_norm(x, w["input_layernorm"]))
    q, k, v = (tap(name(n), dot(h, w[f"self_attn.{n}_proj"].T)) for n in "qkv")
    q = tap(name("q_rope"), rotate(q.reshape(t, HEADS, HEAD_DIM)))
    k = tap(name("k_rope"), rotate(k.reshape(t, KV_HEADS, HEAD_DIM)))
    k, v = (jnp.repeat(z.reshape(t, KV_HEADS, HEAD_DIM), HEADS // KV_HEADS, 1) for z in (k, v))
    scores = jnp.einsum("qhd,khd->hqk", q, k, precision="highest") * HEAD_DIM**-0.5
    probs = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -jnp.inf), -1)
    probs = tap(name("attn_probs"), probs)
    context = jnp.einsum("hqk,khd->qhd", probs, v, precision="highest").reshape(t, -1)
    context = tap(name("attn_ctx"), context)
    x = tap(name("ffn_inp"), x + tap(name("attn_out"), dot(context, w["self_attn.o_proj"].T)))
    h = tap(name("post_attn_norm"), rms_norm(x, w["post_attention_layernorm"]))
    gate, up = (tap(name(f"mlp_{n}"), dot(h, w[f"mlp.{n}_proj"].T)) for n in ("gate", "up"))
    act = tap(name("mlp_act"), jax.nn.silu(gate) * up)
    return tap(name(None), x + tap(name("mlp_out"), dot(act, w["mlp.down_proj"].T)))


def forward(params, ids):
    """Return the logits of every position; every value of dump-format.md is tapped."""
    dot = lambda a, b: jnp.dot(a, b, precision="highest")  # noqa: E731
    x = tap("post_embed", params["embed"][ids])
    for i, w in enumerate(params["layers"]):
        x = layer(x, w, lambda t, i=i: f"layer_{i:02d}" + (f".{t}" if t else ""), dot)
    x = tap("post_final_norm", rms_norm(x, params["norm"]))
    logits = tap("logits", dot(x, params["embed"].T))
    tap("last_logits", logits[-1])
    return logits


@pytest.fixture(scope="module")
def params():
    from safetensors.numpy import load_file

    w = load_file(path_of("smollm2") / "model.safetensors")
    layers = [
        {k.removeprefix(f"model.layers.{i}.").removesuffix(".weight"): jnp.asarray(v) for k, v in w.items()
         if k.startswith(f"model.layers.{i}.")}
        for i in range(LAYERS)
    ]  # fmt: skip
    return {"embed": jnp.asarray(w["model.embed_tokens.weight"]), "norm": jnp.asarray(w["model.norm.weight"]), "layers": layers}


@pytest.fixture(scope="module")
def prose(params, tmp_path_factory):
    out = tmp_path_factory.mktemp("jax") / "prose"
    ids = jnp.array(ids_of("prose"))
    with Dumper(out, params=params, model={"num_layers": LAYERS}) as d:
        d.add("prompt_tokens", ids)
        jax.jit(forward)(params, ids)
    return out


def test_a_forward_by_hand_agrees_with_hugging_face_to_float32_rounding(prose):
    found = assert_float32_engine(reference("prose"), prose)
    assert len(found) == 16 * LAYERS + 4


def test_parity_trusts_the_dumpers(prose):
    validate(reference("prose"), prose)


def test_taps_are_exact_against_returned_values_and_change_nothing(params, prose):
    """Measured on the whole model: callback, aux output and no tap at all give the same bits."""
    ids = jnp.array(ids_of("prose"))
    plain = jax.jit(lambda p, i: forward(p, i))(params, ids)  # traced without a dumper: no taps in it

    def with_aux(p, i):
        seen, x = {}, p["embed"][i]
        for n, w in enumerate(p["layers"]):
            seen[f"layer_{n:02d}"] = x = layer(x, w, str, lambda a, b: jnp.dot(a, b, precision="highest"))
        return rms_norm(x, p["norm"]) @ p["embed"].T, seen

    _, aux = jax.jit(with_aux)(params, ids)
    got = tensors(prose)
    np.testing.assert_array_equal(got["logits"], np.asarray(plain))
    for name, value in aux.items():
        np.testing.assert_array_equal(got[name], np.asarray(value), name)


# ---- taps, small ---------------------------------------------------------------------------------------------------


def small(w, x):
    for i in range(3):
        x = tap(f"layer_{i:02d}", jnp.tanh(x @ w))
    return x


W = jnp.eye(4) / 2
X = jnp.arange(8.0).reshape(2, 4)


def dumped(out, run, **options):
    with Dumper(out, overwrite=True, **options) as d:
        d.add("prompt_tokens", jnp.arange(2))
        run()
    return tensors(out)


def test_a_tap_outside_a_dumper_does_nothing():
    np.testing.assert_array_equal(jax.jit(small)(W, X), small(W, X))


def test_eager_and_jitted_taps_write_the_same_values_in_execution_order(tmp_path):
    eager = dumped(tmp_path / "eager", lambda: small(W, X))
    jitted = dumped(tmp_path / "jit", lambda: jax.jit(small)(W, X))
    assert list(eager) == list(jitted) == ["prompt_tokens", "layer_00", "layer_01", "layer_02"]
    expected = np.tanh(np.asarray(X) / 2)
    np.testing.assert_allclose(jitted["layer_00"], expected, rtol=1e-6)
    for name in eager:
        np.testing.assert_allclose(eager[name], jitted[name], rtol=1e-6)


def test_a_compiled_function_dumps_to_the_dumper_that_is_open_when_it_runs(tmp_path):
    f = jax.jit(small)
    dumped(tmp_path / "first", lambda: f(W, X))
    second = dumped(tmp_path / "second", lambda: f(W, X + 1), fresh=False)
    np.testing.assert_allclose(second["layer_00"], np.tanh((np.asarray(X) + 1) / 2), rtol=1e-6)


def test_a_function_traced_before_the_dumper_is_traced_again(tmp_path):
    f = jax.jit(small)
    f(W, X)  # jit's cache now holds a trace without taps
    assert "layer_00" in dumped(tmp_path / "fresh", lambda: f(W, X))


def test_with_the_caches_kept_a_dump_without_taps_is_an_error(tmp_path):
    f = jax.jit(lambda w, x: small(w, x))
    f(W, X)
    with pytest.raises(DumpError, match="no tensor was added"), Dumper(tmp_path / "late", fresh=False):
        f(W, X)


def test_a_plain_writer_would_close_too_early_and_is_refused(tmp_path):
    with pytest.raises(DumpError, match=r"open a parity_dump\.jax_tap\.Dumper"), DumpWriter(tmp_path / "w", dumper="t") as w:
        w.add("prompt_tokens", np.arange(2))
        jax.jit(lambda x: small(W, x))(X)


def test_layers_inside_a_scan_get_their_own_names(tmp_path):
    @jax.jit
    def scanned(x):
        def body(x, i):
            x = indexed_tap("layer_{:02d}", i, x * 2)
            return x, None

        return jax.lax.scan(body, x, jnp.arange(4))[0]

    got = dumped(tmp_path / "scan", lambda: scanned(X))
    for i in range(4):
        np.testing.assert_array_equal(got[f"layer_{i:02d}"], np.asarray(X) * 2 ** (i + 1))


def test_a_plain_tap_inside_a_scan_fires_many_times_and_is_warned_about(tmp_path):
    f = jax.jit(lambda x: jax.lax.scan(lambda x, _: (tap("layer_00", x * 2), None), x, None, 3)[0])
    with pytest.warns(DumpWarning, match="layer_00 was produced more than once"):
        dumped(tmp_path / "scan", lambda: f(X))


def test_bfloat16_keeps_its_bits(tmp_path):
    x = jnp.array([[1.0, -2.5, 3.140625, jnp.inf]], jnp.bfloat16)
    with Dumper(tmp_path / "d") as d:
        d.add("prompt_tokens", jnp.arange(1))
        jax.jit(lambda x: tap("layer_00", x))(x)
    raw = np.load(tmp_path / "d" / "layer_00.npy")
    assert raw.dtype.itemsize == 2
    np.testing.assert_array_equal(raw.view(np.uint16), [[0x3F80, 0xC020, 0x4049, 0x7F80]])
    assert manifest(tmp_path / "d")["tensors"][1]["dtype"] == "bfloat16"


def test_a_numpy_scalar_that_promotes_a_bf16_model_is_warned_about(tmp_path):
    weights = jnp.ones((4, 4), jnp.bfloat16)

    def promoted(w, x):
        return tap("layer_00", (x @ w) / np.sqrt(np.float32(4)))  # a float32 scalar of numpy wins over bfloat16

    with pytest.warns(DumpWarning, match="not bfloat16, the model's dtype"):
        dumped(tmp_path / "d", lambda: jax.jit(promoted)(weights, jnp.ones((2, 4), jnp.bfloat16)), params=weights)


def test_the_dtype_of_params_is_that_of_most_values():
    assert params_dtype({"w": jnp.ones(10, jnp.bfloat16), "scale": jnp.ones(2, jnp.float32), "n": jnp.ones(99, jnp.int32)}) == (
        "bfloat16"
    )
    with pytest.raises(DumpError, match="no float array"):
        params_dtype({"n": jnp.ones(3, jnp.int32)})


def test_an_error_in_a_callback_ends_the_dump_as_incomplete(tmp_path):
    with pytest.raises(DumpTooLargeError):
        dumped(tmp_path / "d", lambda: jax.jit(lambda x: tap("layer_00", x))(jnp.ones((64, 64))), max_bytes=1000)
    import json

    assert json.loads((tmp_path / "d" / "dump.json").read_text())["complete"] is False


def test_a_tracer_has_no_values():
    def read(x):
        with pytest.raises(DumpError, match="no values under jit"):
            to_numpy(x)
        return x

    jax.jit(read)(X)


def test_the_example_runs(tmp_path):
    example = Path(__file__).parents[2] / "examples" / "jax_tap.py"
    subprocess.run([sys.executable, example, "--out", tmp_path / "port"], check=True)
    assert len(manifest(tmp_path / "port")["tensors"]) == 1 + 1 + 2 * 4 + 1
