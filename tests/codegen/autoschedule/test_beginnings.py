"""A beginning of the compiler's own schedule, cut after any line, of blocks too, and `auto`: it is completed, and right."""

from __future__ import annotations

from functools import cache

import andiron
import numpy as np
import pytest

from ...support.library.cases import poisoned
from ...support.rotation import LONG

CONV = """op f[N, C, H, W, O](X: f32[N, C, H, W], F: f32[O, C, 3, 3]) -> (Y: f32[N, O, H, W]):
    Y[n, o, p, q] = relu(sum(c, r, s) X[n, c, p + r - 1, q + s - 1 else {}] * F[o, c, r, s])
"""
MASKED = """op f[H, Q, T, D](q: f16[H, Q, D], k: f16[H, T, D], v: f16[H, T, D]) -> (o: f32[H, Q, D]):
    s[h, i, t] = where(t >= i - 4, (sum(d) f32(q[h, i, d]) * f32(k[h, t, d])) * rsqrt(D), -inf)
    m[h, i] = max(t) s[h, i, t]
    p[h, i, t] = exp(s[h, i, t] - m[h, i])
    l[h, i] = sum(t) p[h, i, t]
    o[h, i, d] = (sum(t) f32(f16(p[h, i, t])) * f32(v[h, t, d])) / l[h, i]
"""
LATENT = MASKED.replace("v: f16[H, T, D])", "v: f16[H, T, D], a: f16[H, Q, R], b: f16[T, R])").replace("T, D](q", "T, D, R](q")
LATENT = LATENT.replace("f32(k[h, t, d]))", "f32(k[h, t, d]) + sum(r) f32(a[h, i, r]) * f32(b[t, r]))")
OPS = {
    "a padded convolution": CONV.format(0),
    "a convolution with other padding": CONV.format(0.5),
    "masked attention": MASKED,
    "latent attention": LATENT,
}


@cache
def own_lines(name: str, device: str) -> tuple[str, tuple[str, ...]]:
    """The head and the lines of the compiler's own schedule."""
    head, *lines = andiron.compile(OPS[name], op="f", target=f"emulate:{device}").schedule.rstrip().split("\n")
    return head.replace("f_auto", "w"), tuple(lines)


def beginning(name: str, device: str, count: int) -> str:
    """The first lines, and an `auto` for what they leave of each block and of the nest."""
    head, lines = own_lines(name, device)
    last = lines[count - 1]
    deep = len(last) - len(last.lstrip()) + (4 if last.endswith(":") else 0) - (4 if "compute" in last else 0)
    return "\n".join([head, *lines[:count], *(f"{' ' * n}auto" for n in range(deep, 0, -4))])


def compiled(name: str, device: str, count: int) -> andiron.Kernel:
    return andiron.compile(f"{OPS[name]}{beginning(name, device, count)}\n", schedule="w", target=f"emulate:{device}")


@pytest.mark.fewest
@pytest.mark.parametrize("device", ["sm_80", "gfx942", "gfx1100"])
@pytest.mark.parametrize("name", OPS)
def test_it_is_completed(name: str, device: str) -> None:
    """Of every fifth length; with `FUZZ=N` of all."""
    count = len(own_lines(name, device)[1])
    for n in range(2, count, 1 if LONG else 5):
        assert beginning(name, device, n).split("\n")[1] in compiled(name, device, n).schedule


@pytest.mark.every_second
@pytest.mark.parametrize("device", ["sm_80", "gfx942", "gfx1100"])
@pytest.mark.parametrize("sizes", [(2, 5, 9, 11, 7), (1, 3, 4, 33, 34), (1, 1, 1, 1, 1), (2, 0, 3, 4, 5), (1, 3, 0, 4, 5)])
@pytest.mark.parametrize("fill", [0, 0.5])
def test_convolutions_are_right(fill: float, sizes: tuple[int, ...], device: str) -> None:
    name = "a convolution with other padding" if fill else "a padded convolution"
    lines = own_lines(name, device)[1]
    kernel = compiled(name, device, next(n for n, x in enumerate(lines, 1) if "move X -> shared" in x))
    n, c, h, w, o = sizes
    rng = np.random.default_rng(0)
    image = rng.standard_normal((n, c, h, w)).astype("f4")
    filters = rng.standard_normal((o, c, 3, 3)).astype("f4")
    out = poisoned((n, o, h, w), np.dtype("f4"))
    kernel(image, filters, out=out)
    around = np.pad(image.astype("f8"), ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=fill)
    windows = (
        np.einsum("nchw,oc->nohw", around[:, :, r : r + h, s : s + w], filters[:, :, r, s]) for r in range(3) for s in range(3)
    )
    np.testing.assert_allclose(out, np.maximum(sum(windows), 0), rtol=1e-4, atol=1e-4)


HALVES = """op f[N, C, H, W, O](X: f16[N, C, H, W], F: f16[O, C, 3, 3]) -> (Y: f32[N, O, H, W]):
    Y[n, o, p, q] = sum(c, r, s) f32(X[n, c, p + r - 1, q + s - 1 else 0]) * f32(F[o, c, r, s])
"""


@pytest.mark.every_second
@pytest.mark.parametrize("warp", [(32, 32), (64, 16), (16, 32)])
@pytest.mark.parametrize("sizes", [(2, 7, 5, 9, 33), (1, 1, 1, 1, 1), (1, 0, 3, 2, 4), (0, 3, 3, 2, 4)])
def test_registers_that_are_short_by_the_model(warp: tuple[int, int], sizes: tuple[int, ...]) -> None:
    """512 threads have 128 registers each; with those for addresses and loads in flight, the model wants more."""
    lines = f"""    fuse n, p, q as npq
    fuse c, r, s as crs
    tile npq: 256, o: 64 -> block
    keep Y in register
    tile crs: 64 pipeline 2
    move X -> shared swizzle
    move F -> shared swizzle
    tile npq: {warp[0]}, o: {warp[1]} -> warp
    auto
"""
    kernel = andiron.compile(f"{HALVES}schedule w for f:\n{lines}", op="f", schedule="w", target="emulate:sm_90a")
    assert "compute with mma" in kernel.schedule
    n, c, h, w, o = sizes
    rng = np.random.default_rng(0)
    image, filters = rng.standard_normal((n, c, h, w)).astype("f2"), rng.standard_normal((o, c, 3, 3)).astype("f2")
    out = poisoned((n, o, h, w), np.dtype("f4"))
    kernel(image, filters, out=out)
    around = np.pad(image.astype("f8"), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = [
        np.einsum("nchw,oc->nohw", around[:, :, r : r + h, s : s + w], filters[:, :, r, s].astype("f8"))
        for r in range(3)
        for s in range(3)
    ]
    np.testing.assert_allclose(out, sum(windows), rtol=1e-3, atol=1e-3)


BLOCKS = ("", "        tile d: 16 unroll\n", "        tile d: 16 unroll\n        move q -> register with ldmatrix\n")


@pytest.mark.every_second
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("rest", ["    auto\n", ""])
@pytest.mark.parametrize("sizes", [(2, 33, 70, 16), (1, 17, 9, 40), (1, 20, 1, 8)])
def test_the_rest_of_a_block_is_right(block: str, rest: str, sizes: tuple[int, ...]) -> None:
    """Of the line that keeps the scores, in a pass that is open below it, or not at all."""
    head, lines = own_lines("masked attention", "sm_80")
    first = next(n for n, x in enumerate(lines) if x.startswith("    keep s"))
    below = [x for x in lines[first + 1 :] if not x.startswith(" " * 8)] if not rest else []
    text = "\n".join([head, *lines[: first + 1]]) + f"\n{block}        auto\n{rest}" + "".join(f"{x}\n" for x in below)
    target = "emulate:sm_80"
    kernel = andiron.compile(MASKED + text, op="f", schedule="w", target=target)
    assert "compute with mma" in kernel.schedule.partition("keep s")[2].partition("\n    keep")[0]
    h, n, t, d = sizes
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((h, x, d)).astype("f2") for x in (n, t, t))
    out = poisoned((h, n, d), np.dtype("f4"))
    kernel(q, k, v, out=out)
    s = np.einsum("hid,htd->hit", q.astype("f8"), k.astype("f8")) / np.sqrt(d)
    s = np.where(np.arange(t) >= np.arange(n)[:, None] - 4, s, -np.inf)
    with np.errstate(invalid="ignore"):
        p = np.exp(s - s.max(-1, keepdims=True))
        want = np.einsum("hit,htd->hid", p / p.sum(-1, keepdims=True), v.astype("f8"))
    np.testing.assert_allclose(out, want, rtol=2e-2, atol=2e-3)
