"""Intermediates with ranges of their own, read past their rims, by default schedules: two convolutions, a stencil of a stencil,
a separable convolution, two layers. Sizes are odd, 1 and 0. Results are written into poisoned memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import bind_params
from andiron.runtime.check_results import check
from andiron.runtime.compile import compile

from ..support.library.cases import poisoned

Array = np.ndarray


def taps(
    x: Array, rows: int, columns: int, pad: int, shape: tuple[int, int], stride: int = 1
) -> Iterator[tuple[int, int, Array]]:
    """For each tap of a window over the last two axes: what each point of `shape` sees there; zeros outside."""
    far = [(0, 0)] * (x.ndim - 2) + [(pad, n * stride + k) for n, k in zip(shape, (rows, columns), strict=True)]
    padded = np.pad(x, far)
    for r, s in np.ndindex(rows, columns):
        seen = padded[..., r::stride, s::stride]
        yield r, s, seen[..., : shape[0], : shape[1]]


def conv(x: Array, f: Array, pad: int, shape: tuple[int, int], stride: int = 1) -> Array:
    out = np.zeros((x.shape[0], f.shape[0], *shape))
    for r, s, seen in taps(x, f.shape[2], f.shape[3], pad, shape, stride):
        out += np.einsum("nchw,oc->nohw", seen, f[:, :, r, s])
    return out


def smooth(x: Array) -> Array:
    out = 4 * x
    for r, s, seen in taps(x, 3, 3, 1, x.shape[-2:]):
        out = out + seen * ((r == 1) != (s == 1))
    return out / 8


def two_convs(x: Array, f: Array, g: Array) -> Array:
    h, w = x.shape[2:]
    wide = conv(x, f, 1, (h, w)).astype(np.float16).astype(float)
    return conv(wide, g, 1, (h, w))


def strided(x: Array, f: Array, g: Array) -> Array:
    """The one between is larger than what it is made of, the next one half of it."""
    h, w = x.shape[2:]
    wide = conv(x, f, 2, (h + 2, w + 2))
    return conv(wide, g, 1, ((h + 1) // 2, (w + 1) // 2), 2)


def separable(x: Array, f: Array, g: Array) -> Array:
    d = np.zeros(x.shape)
    for r, s, seen in taps(x, 3, 3, 1, x.shape[2:]):
        d += seen * f[None, :, r, s, None, None]
    return np.einsum("oc,nchw->nohw", g, np.maximum(d, 0))


def layers(x: Array, v: Array, w: Array) -> Array:
    h = np.maximum(x @ v, 0)
    shifted = np.concatenate([h[:, 1:], np.ones((len(h), 1))], axis=1) if h.shape[1] else h
    return shifted @ w


@dataclass(frozen=True)
class Chain:
    text: str
    formula: Callable[..., Array]
    sizes: tuple[tuple[int, ...], ...]


IMAGES = (
    (2, 3, 5, 7, 4, 5),
    (1, 17, 9, 6, 8, 3),
    (1, 1, 1, 1, 1, 1),
    (2, 3, 0, 4, 2, 2),
    (2, 0, 3, 4, 2, 2),
    (2, 3, 3, 4, 0, 2),
)
CHAINS = {
    "two convolutions": Chain(
        """op f[N, C, H, W, O, P](X: f16[N, C, H, W], F: f16[O, C, 3, 3], G: f16[P, O, 3, 3]) -> (Y: f32[N, P, H, W]):
    D[n, o, h: H, w: W] = f16(sum(c, r, s) f32(X[n, c, h + r - 1, w + s - 1 else 0]) * f32(F[o, c, r, s]))
    Y[n, p, h, w] = sum(o, r, s) f32(D[n, o, h + r - 1, w + s - 1 else 0]) * f32(G[p, o, r, s])
""", two_convs, IMAGES),
    "two convolutions of other sizes": Chain(
        """op f[N, C, H, W, O, P, R](X: f32[N, C, H, W], F: f32[O, C, 3, R], G: f32[P, O, R, 3], stride: int = 2)
        -> (Y: f32[N, P, H2, W2]) where H2 = (H + 1) / 2, W2 = (W + 1) / 2:
    D[n, o, p: H + 2, q: W + 2] = sum(c, r, s) X[n, c, p + r - 2, q + s - 2 else 0] * F[o, c, r, s]
    Y[n, o, p, q] = sum(c, r, s) D[n, c, p*stride + r - 1, q*stride + s - 1 else 0] * G[o, c, r, s]
""", strided, tuple((*s, r) for s, r in zip(IMAGES, (3, 2, 1, 3, 1, 2), strict=True))),
    "a stencil of a stencil": Chain(
        """op f[H, W](X: f32[H, W]) -> (Y: f32[H, W]):
    B[i: H, j: W] = (X[i - 1, j else 0] + X[i + 1, j else 0] + X[i, j - 1 else 0] + X[i, j + 1 else 0] + 4.0*X[i, j]) / 8.0
    Y[i, j] = (B[i - 1, j else 0] + B[i + 1, j else 0] + B[i, j - 1 else 0] + B[i, j + 1 else 0] + 4.0*B[i, j]) / 8.0
""", lambda x: smooth(smooth(x)), ((37, 65), (5, 7), (1, 1), (2, 1), (0, 5), (5, 0))),
    "a separable convolution": Chain(
        """op f[N, C, H, W, O](X: f32[N, C, H, W], F: f32[C, 3, 3], G: f32[O, C]) -> (Y: f32[N, O, H, W]):
    D[n, c, p: H, q: W] = relu(sum(r, s) X[n, c, p + r - 1, q + s - 1 else 0] * F[c, r, s])
    Y[n, o, p, q] = sum(c) G[o, c] * D[n, c, p, q]
""", separable, tuple(s[:5] for s in IMAGES)),
    "two layers": Chain(
        """op f[M, K, F, N](X: f32[M, K], V: f32[K, F], W: f32[F, N]) -> (Y: f32[M, N]):
    D[m, f: F] = relu(sum(k) X[m, k] * V[k, f])
    Y[m, n] = sum(f) D[m, f + 1 else 1] * W[f, n]
""", layers, ((3, 5, 7, 2), (33, 17, 65, 20), (1, 1, 1, 1), (0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 0, 5), (2, 3, 4, 0))),
}  # fmt: skip


@pytest.mark.every_second
@pytest.mark.parametrize("target", ["cpu", "emulate:sm_80", "emulate:gfx942"])
@pytest.mark.parametrize("name", CHAINS)
def test_right(name: str, target: str) -> None:
    chain = CHAINS[name]
    module = loads(chain.text)
    op = bind_params(module.ops["f"])
    kernel = compile(module, target=target)
    for extents in chain.sizes:
        sizes = dict(zip([d.name for d in op.dims], extents, strict=True))
        rng, known = np.random.default_rng(5), op.all_sizes(sizes)
        arrays = [rng.normal(size=tuple(e.evaluate(known) for e in t.shape)).astype(t.dtype.numpy) for t in op.inputs]
        out = poisoned(tuple(e.evaluate(known) for e in op.outputs[0].shape), op.outputs[0].dtype.numpy)
        kernel(*arrays, out=out)
        assert check(op, arrays, [out]).ok, sizes
        expected = chain.formula(*(a.astype(float) for a in arrays))
        np.testing.assert_allclose(out, expected, rtol=3e-3, atol=3e-3, err_msg=str(sizes))  # D may be the neighbour in f16
