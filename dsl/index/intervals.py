"""Arithmetic on integer intervals (lo, hi): both ends inclusive, None where unbounded. Results may be wider than exact."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Interval = tuple[int | None, int | None]


def linear(terms: Iterable[tuple[Any, int]], const: int) -> Interval:
    """Of `sum(coefficient * x) + const`, where each x has an `interval`."""
    lo: int | None = const
    hi: int | None = const
    for x, c in terms:
        a, b = x.interval
        if c < 0:
            a, b = b, a
        lo = None if lo is None or a is None else lo + c * a
        hi = None if hi is None or b is None else hi + c * b
        if lo is hi is None:
            break
    return lo, hi


def function(kind: str, args: tuple[Interval, ...], square: bool = False) -> Interval:
    """Of an atom (see `dsl.index.expr`) of arguments in these intervals; `square`: both factors of a `mul` are one value."""
    (xl, xh), (yl, yh) = args[:2]
    if kind == "div":
        yl = max(1, yl or 1)
        lo = None if xl is None else (0 if yh is None else xl // yh) if xl >= 0 else xl // yl
        hi = None if xh is None else xh // yl if xh >= 0 else (-1 if yh is None else xh // yh)
        return lo, hi
    if kind == "mod":
        top = None if yh is None else yh - 1
        if xl is not None and xl >= 0 and xh is not None:
            top = xh if top is None else min(top, xh)
        return 0, top
    if kind == "mul":
        return _product((xl, xh), (yl, yh), square)
    if kind == "xor":
        if xl is None or yl is None or xl < 0 or yl < 0:
            return None, None
        return 0, None if xh is None or yh is None else (1 << max(xh, yh).bit_length()) - 1
    lows, highs = [a[0] for a in args], [a[1] for a in args]
    if kind == "min":
        known = [h for h in highs if h is not None]
        return None if None in lows else min(lows), min(known) if known else None  # type: ignore[type-var]
    known = [x for x in lows if x is not None]
    return max(known) if known else None, None if None in highs else max(highs)  # type: ignore[type-var]


def _product(x: Interval, y: Interval, square: bool) -> Interval:
    inf = float("inf")  # only as a marker: finite ends stay integers
    corners = []
    for a in (-inf if x[0] is None else x[0], inf if x[1] is None else x[1]):
        for b in (-inf if y[0] is None else y[0], inf if y[1] is None else y[1]):
            corners.append(0 if a == 0 or b == 0 else a * b)
    lo, hi = min(corners), max(corners)
    lo = max(lo, 0) if square else lo
    return None if lo == -inf else int(lo), None if hi == inf else int(hi)
