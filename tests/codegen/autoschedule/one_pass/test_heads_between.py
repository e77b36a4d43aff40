"""Attentions of tensors [tokens, heads, features], whose heads lie between queries and features: one pass as well."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.dsl.module import loads
from andiron.runtime.compile import compile

TEXT = """
op tokens[H, Q, T, D](q: f16[Q, H, D], k: f16[T, H, D], v: f16[T, H, D]) -> (o: f16[Q, H, D]):
    s[i, h, t] = (sum(d) f32(q[i, h, d]) * f32(k[t, h, d])) * rsqrt(D)
    m[i, h] = max(t) s[i, h, t]
    p[i, h, t] = exp(s[i, h, t] - m[i, h])
    l[i, h] = sum(t) p[i, h, t]
    o[i, h, d] = f16((sum(t) f32(f16(p[i, h, t])) * f32(v[t, h, d])) / l[i, h])
op causal[B, H, Q, T, D](q: f32[B, Q, H, D], k: f32[B, T, H, D], v: f32[B, T, H, D]) -> (o: f32[B, Q, H, D]):
    s[b, i, h, t] where t <= i + T - Q = (sum(d) q[b, i, h, d] * k[b, t, h, d]) * rsqrt(D)
    m[b, i, h] = max(t where t <= i + T - Q) s[b, i, h, t]
    p[b, i, h, t] where t <= i + T - Q = exp(s[b, i, h, t] - m[b, i, h])
    l[b, i, h] = sum(t where t <= i + T - Q) p[b, i, h, t]
    o[b, i, h, d] = (sum(t where t <= i + T - Q) p[b, i, h, t] * v[b, t, h, d]) / l[b, i, h]
op latent[H, Q, T, D, R](q: f32[Q, H, D], k: f32[T, H, D], qr: f32[Q, H, R], kr: f32[T, R], v: f32[T, H, D]) -> (
    o: f32[Q, H, D]
):
    s[i, h, t] = (sum(d) q[i, h, d] * k[t, h, d] + sum(r) qr[i, h, r] * kr[t, r]) * rsqrt(D)
    m[i, h] = max(t) s[i, h, t]
    p[i, h, t] = exp(s[i, h, t] - m[i, h])
    l[i, h] = sum(t) p[i, h, t]
    o[i, h, d] = (sum(t) p[i, h, t] * v[t, h, d]) / l[i, h]
"""
TARGETS = ("emulate:sm_80", "emulate:gfx942", "emulate:gfx1100", "cpu")


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool = False, more: np.ndarray | None = None) -> np.ndarray:
    """In f64; `more`: what is added to the scores."""
    q, k, v = (x.astype("f8") for x in (q, k, v))
    s = np.einsum("...ihd,...thd->...hit", q, k) + (0 if more is None else more)
    s /= np.sqrt(q.shape[-1])
    rows, keys = s.shape[-2:]
    if causal:
        s = np.where(np.arange(keys) <= np.arange(rows)[:, None] + keys - rows, s, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("...hit,...thd->...ihd", e / e.sum(-1, keepdims=True), v)


def values(*shape: int, dtype: str = "f4") -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("target", ["cuda:sm_75", "cuda:sm_80", "cuda:sm_90a", "hip:gfx942", "hip:gfx1100"])
def test_no_scores_in_memory(target: str) -> None:
    kernel = compile(loads(TEXT), op="tokens", target=target, H=16, Q=1024, T=1024, D=64)
    assert len(kernel.variants[0].program.launches) <= 2


@pytest.mark.fewest
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sizes", [(3, 5, 37, 16), (2, 33, 70, 24), (1, 1, 1, 1), (5, 1, 65, 8), (2, 0, 3, 8)])
def test_right(target: str, sizes: tuple[int, int, int, int]) -> None:
    h, rows, keys, d = sizes
    q, k, v = values(rows, h, d, dtype="f2"), values(keys, h, d, dtype="f2"), values(keys, h, d, dtype="f2")
    for known in ({}, {"H": h, "Q": rows, "T": keys, "D": d}):
        out = np.full((rows, h, d), np.nan, "f2")
        compile(loads(TEXT), op="tokens", target=target, **known)(q, k, v, out=out)
        np.testing.assert_allclose(out, attention(q, k, v), atol=4e-3)


@pytest.mark.fewest
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sizes", [(2, 3, 17, 37, 16), (1, 2, 40, 40, 8), (3, 1, 1, 1, 4)])
def test_causal(target: str, sizes: tuple[int, int, int, int, int]) -> None:
    b, h, rows, keys, d = sizes
    q, k, v = values(b, rows, h, d), values(b, keys, h, d), values(b, keys, h, d)
    for known in ({}, {"H": h, "Q": rows, "T": keys, "D": d}):
        out = np.full((b, rows, h, d), np.nan, "f4")
        compile(loads(TEXT), op="causal", target=target, **known)(q, k, v, out=out)
        np.testing.assert_allclose(out, attention(q, k, v, causal=True), atol=2e-5)


@pytest.mark.fewest
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sizes", [(4, 3, 5, 16), (17, 2, 9, 8)])
def test_open_sizes_of_scores_of_two_products(target: str, sizes: tuple[int, int, int, int]) -> None:
    h, rows, keys, d = sizes
    q, k, v = values(rows, h, d), values(keys, h, d), values(keys, h, d)
    qr, kr = values(rows, h, 30), values(keys, 30)
    out = np.full((rows, h, d), np.nan, "f4")
    compile(loads(TEXT), op="latent", target=target, R=30)(q, k, qr, kr, v, out=out)
    more = np.einsum("ihr,tr->hit", qr.astype("f8"), kr.astype("f8"))
    np.testing.assert_allclose(out, attention(q, k, v, more=more), atol=2e-5)


@pytest.mark.parametrize("device", ["sm_80", "gfx1100"])
def test_rows_with_keys_of_their_own_are_not_tried_by_lanes(device: str) -> None:
    """Of one query the heads are the rows: lanes would share no key. A pass for a few of them staged the keys of all."""
    text = """op one[H, T, D](q: f32[H, D], k: f32[H, T, D], v: f32[H, T, D]) -> (o: f32[H, D]):
    s[h, t] = sum(d) q[h, d] * k[h, t, d]
    m[h] = max(t) s[h, t]
    p[h, t] = exp(s[h, t] - m[h])
    l[h] = sum(t) p[h, t]
    o[h, d] = (sum(t) p[h, t] * v[h, t, d]) / l[h]
"""
    target = f"{'cuda' if device.startswith('sm') else 'hip'}:{device}"
    assert len(compile(loads(text), op="one", target=target).variants) == 1
