"""Random convolutions whose results another convolution reads: at the same pixels, or at neighbours, if there are any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from .window_products import RESIZED, image_read

ACTIVATIONS = ("{}", "relu({})", "{} + v[k]", "relu({} + v[k])", "max({}, -1.0)")


def convolution_pair(seed: int, dtypes: Sequence[str] = ("f16", "f16", "bf16", "f32")) -> str:
    """The op, whose sizes are N, H, W, C, K and O; P and Q follow."""
    rng = Random(seed)
    dtype, stride, last = rng.choice(dtypes), rng.choice((1, 1, 2)), rng.random() < 0.8
    (h, w), (y, x) = rng.choice(((3, 3), (3, 3), (2, 3), (1, 1))), rng.choice(((3, 3), (3, 3), (1, 3), (2, 1), (1, 1)))
    up, left, above, before = (rng.randint(0, n - 1) for n in (h, w, y, x))
    beyond = rng.choice(("0", "0", "0", "2", "(-1)"))
    image, read = image_read(stride, up, left, last)
    near = f"p + a - {above}, q + b - {before}" if (y, x) != (1, 1) else "p, q"
    padded = "" if near == "p, q" else f" else {beyond}"
    made = f"f32(D[n, {near}, k{padded}])" if last else f"f32(D[n, k, {near}{padded}])"
    f = rng.choice(("r, s, c, k", "r, s, c, k", "k, r, s, c"))
    g = rng.choice(("a, b, k, o", "o, a, b, k"))
    known = {"r": h, "s": w, "a": y, "b": x, "c": "C", "k": "K", "o": "O"}
    shapes = [", ".join(str(known[i]) for i in indices.split(", ")) for indices in (f, g)]
    term = rng.choice(ACTIVATIONS).format(f"(sum(r, s, c) {read} * f32(F[{f}]))")
    pixel, out = ("n, p: P, q: Q, k", "n, p, q, o") if last else ("n, k, p: P, q: Q", "n, o, p, q")
    return (
        f"op f[N, H, W, C, K, O](I: {dtype}[{image}], F: {dtype}[{shapes[0]}], G: {dtype}[{shapes[1]}], v: f32[K])"
        f" -> (Y: {dtype}[{out.upper()}]) where {RESIZED.format(stride - 1, stride)}:\n"
        f"    D[{pixel}] = {dtype}({term})\n"
        f"    Y[{out}] = {dtype}(sum(a, b, k) {made} * f32(G[{g}]))\n"
    )


def sizes_of_convolutions(seed: int) -> Iterator[dict[str, int]]:
    """Odd sizes, 0 and 1."""
    rng = Random(seed)
    channels = {x: rng.choice((3, 8, 16, 17, 33)) for x in "CKO"}
    yield {"N": rng.choice((1, 2)), "H": rng.randint(2, 12), "W": rng.randint(5, 20)} | channels
    yield {"N": 1, "H": 1, "W": 1, "C": 1, "K": 1, "O": 1}
    some = {"N": 1, "H": 3, "W": 5, "C": 16, "K": 8, "O": 8}
    yield some | {rng.choice(tuple(some)): 0}
