"""Attention in one pass: the attentions of the library and their usual variants, against a formula and the reference."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.dsl.module import loads
from andiron.dsl.semantics.reference import reference
from andiron.runtime.compile import compile

from ..support.cpp.build import skip_unless_run_here
from ..support.rotation import rotated

HEAD = "q: f32[H, Q, D], k: f32[H, T, D], v: f32[H, T, D]"
VARIANTS = {
    "windowed": (HEAD, "where(t <= i and i < t + 5, s0[h, i, t], -inf)"),
    "soft-capped": (HEAD, "30.0 * tanh(s0[h, i, t] / 30.0)"),
    "with a bias": (HEAD + ", b: f32[H, T]", "s0[h, i, t] + b[h, t]"),
    "masked": (HEAD + ", c: bool[H, T]", "where(c[h, t], s0[h, i, t], -inf)"),
}
OP = """
op f[H, Q, T, D]({inputs}) -> (o: f32[H, Q, D], y: f32[H, Q]):
    s0[h, i, t] = (sum(d) q[h, i, d] * k[h, t, d]) * rsqrt(D)
    s[h, i, t] = {score}
    m[h, i] = max(t) s[h, i, t]
    p[h, i, t] = exp(s[h, i, t] - m[h, i])
    l[h, i] = sum(t) p[h, i, t]
    o[h, i, d] = (sum(t) p[h, i, t] * v[h, t, d]) / l[h, i]
    y[h, i] = m[h, i] + log(l[h, i])
"""
CPU = """
    tile h: 1, {more}i: 4 -> core
    keep m, l in register
    keep o in l1
    tile t: 16 online
    keep s in l1
    keep p in l1
    tile i: 1
    compute
"""
GPU = """
    tile h: 1, {more}i: 32 -> block
    keep m, l, o in register
    tile t: 16 online pipeline 2
    move k -> shared
    move v -> shared
    tile i: 1 -> thread
    keep s in register
    keep p in register
    compute
"""
SIZES = ((2, 5, 37, 7), (1, 33, 40, 8), (1, 1, 1, 1), (1, 3, 0, 4))
TARGETS = ("cpu:generic", "cpu:avx2", "cpu:avx512", "emulate:sm_80")


def scheduled(op: str, target: str, more: str = "") -> str:
    lines = (GPU if target.startswith("emulate") else CPU).format(more=more)
    return f"schedule s for {op} where D <= 8:{lines}"


def formula(s: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two passes over scores, in float64: the results, and the logarithms of the sums."""
    with np.errstate(all="ignore"):
        m = s.max(-1, keepdims=True, initial=-np.inf)
        p = np.exp(s - m)
        total = p.sum(-1, keepdims=True)
        return (p[..., None] * v.astype(float)[..., None, :, :]).sum(-2) / total, (m + np.log(total))[..., 0]


def scores(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    return (q.astype(float) @ k.astype(float).swapaxes(-1, -2)) / np.sqrt(float(q.shape[-1]))


def agrees(text: str, op: str, arrays, got, want, rtol: float = 1e-4) -> None:
    exact = reference(loads(text).ops[op], exact=True)(*arrays)
    exact = exact if isinstance(exact, list | tuple) and isinstance(exact[0], tuple) else (exact,)
    for result, expected, (value, bound) in zip(got, want, exact, strict=True):
        np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
        np.testing.assert_array_equal(np.isnan(result), np.isnan(value))
        some = np.isfinite(value)
        np.testing.assert_array_equal(some, np.isfinite(result))
        assert (np.abs(result.astype(float)[some] - value[some]) <= bound[some]).all()
        np.testing.assert_allclose(result[some], expected[some], rtol=rtol, atol=rtol / 10)


@pytest.mark.parametrize(
    ("name", "target"), rotated(("attention", "attention_f32", "causal_attention", "grouped_attention"), TARGETS)
)
def test_the_library(name: str, target: str) -> None:
    if target.startswith("cpu"):
        skip_unless_run_here(target)
    text = "import std.ops.attention\n" + scheduled(name, target, "g: 1, " if name == "grouped_attention" else "")
    kernel = compile(text, op=name, schedule="s", target=target)
    for h, n, t, d in SIZES:
        library_agrees(kernel, text, name, h, min(n, t) if name.startswith("causal") else n, t, d)


def library_inputs(name: str, h: int, n: int, t: int, d: int) -> list[np.ndarray]:
    rng = np.random.default_rng(t)
    shapes = [(h, 2, n, d) if name == "grouped_attention" else (h, n, d), (h, t, d), (h, t, d)]
    dtype = np.float16 if name in ("attention", "causal_attention_f16") else np.float32
    return [rng.standard_normal(s).astype(dtype) for s in shapes]


def library_agrees(kernel, text: str, name: str, h: int, n: int, t: int, d: int) -> None:
    """For so many heads, queries, keys and features."""
    group = name == "grouped_attention"
    q, k, v = library_inputs(name, h, n, t, d)
    half = q.dtype == np.float16
    s = scores(q, k[:, None] if group else k)
    if name.startswith("causal"):
        s = np.where(np.arange(t) <= np.arange(n)[:, None] + t - n, s, -np.inf)
    want = formula(s, v[:, None] if group else v)[:1]
    result = kernel(q, k, v, out=np.full(q.shape, np.nan, q.dtype))
    agrees(text, name, (q, k, v), (result,), want, 1e-2 if half else 1e-4)


@pytest.mark.parametrize(
    "name", ["attention", "attention_f32", "causal_attention", "causal_attention_f16", "grouped_attention"]
)
def test_defaults_for_open_sizes(name: str) -> None:
    """One kernel for all sizes: one pass for many rows and keys, launches apart for others, and for one row; with three threads
    the same bits as with one."""
    text = "import std.ops.attention\n"
    one, three = (compile(text, op=name, target="cpu", threads=n) for n in (1, 3))
    for h, n, t, d in (
        *SIZES,
        (2, 131, 1030, 64),
        (1, 129, 517, 3),
        (1, 128, 1024, 128),
        (1, 1, 300, 64),
        (3, 1, 65, 66),
        (1, 1, 9, 130),
    ):
        if name.startswith("causal") and n > t:
            continue
        library_agrees(three, text, name, h, n, t, d)
        arrays = library_inputs(name, h, n, t, d)
        np.testing.assert_array_equal(one(*arrays), three(*arrays))


@pytest.mark.parametrize(("name", "target"), rotated(VARIANTS, TARGETS[::-1]))
def test_variants(name: str, target: str) -> None:
    """With the logarithm of the sum as a second result; some rows of `masked` see no key at all."""
    if target.startswith("cpu"):
        skip_unless_run_here(target)
    inputs, score = VARIANTS[name]
    text = OP.format(inputs=inputs, score=score) + scheduled("f", target)
    kernel = compile(text, op="f", schedule="s", target=target)
    for h, n, t, d in SIZES:
        rng = np.random.default_rng(t)
        q, k, v = (rng.standard_normal(s).astype(np.float32) for s in [(h, n, d), (h, t, d), (h, t, d)])
        bias, seen = rng.standard_normal((h, t)).astype(np.float32), rng.random((h, t)) < 0.6
        seen[:1] = False
        i, j, s = np.arange(n)[:, None], np.arange(t), scores(q, k)
        more: tuple[np.ndarray, ...] = ()
        if name == "windowed":
            s = np.where((j <= i) & (i < j + 5), s, -np.inf)
        elif name == "soft-capped":
            s = 30 * np.tanh(s / 30)
        else:
            more = (bias,) if name == "with a bias" else (seen,)
            s = s + bias[:, None] if name == "with a bias" else np.where(seen[:, None], s, -np.inf)
        arrays = (q, k, v, *more)
        agrees(text, "f", arrays, kernel(*arrays), formula(s, v))
