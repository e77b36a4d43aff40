"""Random windows whose results a product combines, as depthwise convolutions and poolings before a pointwise one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

# of results of windows at each `stride`-th pixel: with `stride` - 1, and `stride`
RESIZED = "P = (H + {0}) / {1}, Q = (W + {0}) / {1}"
ACTIVATIONS = ("{}", "max({}, 0.0)", "{} + v[c]", "silu({} + v[c])", "sigmoid({})")


def window_product(seed: int, dtypes: Sequence[str] = ("f16", "f16", "bf16", "f32")) -> str:
    """The op, whose sizes are N, H, W, C and O; P and Q follow."""
    rng = Random(seed)
    dtype, stride = rng.choice(dtypes), rng.choice((1, 1, 2))
    h, w = rng.choice(((3, 3), (3, 3), (2, 3), (1, 5), (1, 1)))
    up, left = rng.randint(0, h - 1), rng.randint(0, w - 1)
    last = rng.random() < 0.6  # channels last
    image, read = image_read(stride, up, left, last)
    weights = rng.choice(("F[r, s, c]", "F[r, s, c]", "F[c, r, s]"))
    shape = {"F[r, s, c]": f"{h}, {w}, C", "F[c, r, s]": f"C, {h}, {w}"}[weights]
    pooled = rng.random() < 0.2
    window = f"r: {h}, s: {w}"
    terms = f"max({window}) {read}" if pooled else f"sum({window}) {read} * f32({weights})"
    made = rng.choice(ACTIVATIONS).format(f"({terms})")
    stored = dtype == "f32" or rng.random() < 0.7  # D has the type that the product multiplies
    pixel = "n, p, q, c" if last else "n, c, p, q"
    factor = f"D[{pixel}]" if stored else f"{dtype}(D[{pixel}])"
    g = rng.choice(("c, o", "o, c"))
    out = "n, p, q, o" if last else "n, o, p, q"
    return (
        f"op f[N, H, W, C, O](I: {dtype}[{image}], F: {dtype}[{shape}], G: {dtype}[{g.upper()}], v: f32[C])"
        f" -> (Y: {dtype}[{out.upper()}]) where {RESIZED.format(stride - 1, stride)}:\n"
        f"    D[{pixel.replace('p', 'p: P').replace('q', 'q: Q')}] = {f'{dtype}({made})' if stored else made}\n"
        f"    Y[{out}] = {dtype}(sum(c) f32({factor}) * f32(G[{g}]))\n"
    )


def image_read(stride: int, up: int, left: int, last: bool) -> tuple[str, str]:
    """The axes of an image, and how a window reads it, zero outside. `last`: channels are."""
    times = f"{stride}*" if stride > 1 else ""
    pixels = f"{times}p + r - {up}, {times}q + s - {left}"
    return ("N, H, W, C", f"f32(I[n, {pixels}, c else 0])") if last else ("N, C, H, W", f"f32(I[n, c, {pixels} else 0])")


def sizes_of_windows(seed: int) -> Iterator[dict[str, int]]:
    """Odd sizes, 0 and 1."""
    rng = Random(seed)
    yield {"N": 2, "H": rng.randint(2, 9), "W": rng.randint(5, 20), "C": rng.choice((5, 33, 40)), "O": rng.randint(2, 40)}
    yield {"N": 1, "H": 1, "W": 1, "C": 1, "O": 1}
    some = {"N": 1, "H": 3, "W": 5, "C": 16, "O": 8}
    yield some | {rng.choice(tuple(some)): 0}
