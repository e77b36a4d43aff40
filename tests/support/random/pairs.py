"""Random pairs of a producer and the one computation that reads it, at shifted or strided places, with what they compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np


@dataclass(frozen=True)
class Side:
    """One statement. It is `halved` before it is stored, or what is negative is 0.

    points   (rows down, columns right, weight, value outside) of each
    window   (height, width, rows up, columns left), whose elements count with the weights of an input; None: points
    strides  of what is read
    """

    points: tuple[tuple[int, int, float, float], ...]
    window: tuple[int, int, int, int] | None
    strides: tuple[int, int]
    halved: bool

    def text(self, source: str, weights: str) -> str:
        y, x = (f"{i}*{n}" if n > 1 else i for i, n in zip("ij", self.strides, strict=True))
        if self.window is not None:
            h, w, up, left = self.window
            value = f"(sum(r: {h}, s: {w}) {source}[c, {y} + r - {up}, {x} + s - {left} else 0] * {weights}[r, s])"
        else:
            read = (f"{n} * {source}[c, {y} + {a}, {x} + {b} else {out}]" for a, b, n, out in self.points)
            value = " + ".join(read).replace("+ -", "- ")
        return f"({value}) * 0.5" if self.halved else f"max({value}, 0.0)"

    def computed(self, source: np.ndarray, weights: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
        out = np.zeros((source.shape[0], *shape))
        if self.window is not None:
            h, w, up, left = self.window
            for r, s in np.ndindex(h, w):
                out += self._moved(source, r - up, s - left, 0.0, shape) * weights[r, s]
        for a, b, n, outside in self.points:
            out += n * self._moved(source, a, b, outside, shape)
        return out * 0.5 if self.halved else np.maximum(out, 0.0)

    def _moved(self, source: np.ndarray, down: int, right: int, outside: float, shape: tuple[int, int]) -> np.ndarray:
        height, width = source.shape[1:]
        y, x = (np.arange(n) * s + d for n, s, d in zip(shape, self.strides, (down, right), strict=True))
        inside = ((y >= 0) & (y < height))[:, None] & ((x >= 0) & (x < width))[None, :]
        if not source.size:
            return np.full((source.shape[0], *shape), outside)
        return np.where(inside, source[:, np.clip(y, 0, height - 1)[:, None], np.clip(x, 0, width - 1)[None, :]], outside)


@dataclass(frozen=True)
class PairCase:
    producer: Side
    reader: Side
    more: tuple[int, int]  # rows and columns that the producer has beyond its source

    @property
    def op(self) -> str:
        (a, b), (p, q) = self.more, self.reader.strides
        return (
            (
                "op f[C, H, W](X: f32[C, H, W], F: f32[4, 4], G: f32[4, 4]) -> (Y: f32[C, P, Q])"
                f" where P = (H + {p - 1}) / {p}, Q = (W + {q - 1}) / {q}:\n"
                f"    B[c, i: H + {a}, j: W + {b}] = {self.producer.text('X', 'F')}\n"
                f"    Y[c, i, j] = {self.reader.text('B', 'G')}\n"
            )
            .replace("H + 0", "H")
            .replace("W + 0", "W")
        )

    def computed(self, x: np.ndarray, f: np.ndarray, g: np.ndarray) -> np.ndarray:
        """In double precision, by another formula than the op's."""
        (height, width), (a, b), (p, q) = x.shape[1:], self.more, self.reader.strides
        made = self.producer.computed(x.astype(float), f, (height + a, width + b))
        return self.reader.computed(made, g, (-(-height // p), -(-width // q)))


def pair_case(seed: int) -> PairCase:
    rng = Random(seed)
    more = rng.choice(((0, 0), (0, 0), (1, 0), (2, 3)))
    return PairCase(_side(rng, (1, 1)), _side(rng, rng.choice(((1, 1), (1, 1), (2, 1), (1, 2), (2, 2)))), more)


def _side(rng: Random, strides: tuple[int, int]) -> Side:
    halved = rng.random() < 0.5
    if rng.random() < 0.4:
        h, w = rng.randint(1, 4), rng.randint(1, 4)
        return Side((), (h, w, rng.randint(0, h), rng.randint(0, w)), strides, halved)
    places = rng.sample([(a, b) for a in range(-2, 3) for b in range(-2, 3)], rng.randint(2, 5))
    points = tuple((a, b, rng.choice((-1.5, 0.5, 1.0, 2.0)), rng.choice((0.0, 0.0, 1.0, -2.0))) for a, b in places)
    return Side(points, None, strides, halved)


def sizes_of(seed: int) -> Sequence[tuple[int, int, int]]:
    """Odd sizes, 0 and 1."""
    rng = Random(seed)
    return (
        (2, rng.randint(2, 40), rng.randint(33, 150)),
        (1, rng.randint(1, 5), 1),
        (1, 1, 1),
        rng.choice(((0, 3, 3), (2, 0, 5), (2, 5, 0))),
    )
