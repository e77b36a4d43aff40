"""Bytes that a cache of some capacity fetches and writes back in a launch, from the loops and their accesses.

REUSE  A loop whose iteration fits the cache fetches each line that it touches once. One whose iteration does not fit fetches
       in each iteration anew what its body fetches.
LINES  Footprints are boxes: the span of each coordinate, whole cache lines along the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....codegen.ir.limits import CACHE_LINE
from ....dsl.index.expr import Expr, Fn, Var
from .walk_program import Access, Loop

Box = tuple[float, float]  # bytes in whole lines of an access, all that is inside some loops


class LaunchTraffic:
    """The footprints of a launch's accesses inside each of its loops."""

    def __init__(self, top: Loop) -> None:
        self.top = top
        self._inside: dict[tuple[int, bool], dict[str, float]] = {}
        self._accesses: dict[int, list[Access]] = {}

    def fetched(self, capacity: float) -> float:
        """Bytes between the cache and what is behind it. REUSE"""
        return self._fetched(self.top, capacity)

    def footprint(self) -> float:
        """Bytes of all lines that are touched."""
        return sum(self._footprints(self.top, True).values())

    def innermost_fitting(self, capacity: float) -> float:
        """Bytes of the largest iteration that fits."""
        best = 0.0
        todo: list[Loop] = [self.top]
        while todo:
            loop = todo.pop()
            size = sum(self._footprints(loop, False).values())
            if size <= capacity:
                best = max(best, size)
            else:
                todo += [x for x in loop.body if isinstance(x, Loop)]
        return best

    def _fetched(self, loop: Loop, capacity: float) -> float:
        if sum(self._footprints(loop, False).values()) <= capacity:
            return sum(self._footprints(loop, True).values())
        # The iteration does not fit: its parts, each with what it touches alone.
        total = 0.0
        depth = None
        for x in loop.body:
            if isinstance(x, Loop):
                total += self._fetched(x, capacity)
            else:
                depth = len(x.path) if depth is None else depth
                total += _box(x, len(x.path))
        return loop.trips * total

    def _footprints(self, loop: Loop, whole: bool) -> dict[str, float]:
        """By buffer, the bytes that a loop touches as a whole, or that an iteration of it touches."""
        key = id(loop), whole
        if key not in self._inside:
            out: dict[str, float] = {}
            for a in self._all(loop):
                depth = next(n for n, x in enumerate(a.path) if x is loop) + (0 if whole else 1)
                out[a.buffer.name] = max(out.get(a.buffer.name, 0.0), _box(a, depth))
            self._inside[key] = out
        return self._inside[key]

    def _all(self, loop: Loop) -> list[Access]:
        if id(loop) not in self._accesses:
            found: list[Access] = []
            for x in loop.body:
                found += self._all(x) if isinstance(x, Loop) else [x]
            self._accesses[id(loop)] = found
        return self._accesses[id(loop)]


def _box(a: Access, depth: int) -> float:
    """LINES: what the loops from this depth on let the access touch."""
    reach = {x.var: x.step * max(0.0, x.trips - 1) for x in a.path[depth:]}
    spans = [min(_span(c, reach) + 1, _most(n)) for c, n in zip(a.coords, a.buffer.shape, strict=False)]
    if not spans:
        return float(CACHE_LINE)
    last = (spans[-1] + a.extent - 1) * a.bytes
    if a.buffer.strides and a.buffer.strides[-1].constant not in (1, None):
        return prod(spans) * CACHE_LINE
    return prod(spans[:-1]) * (last // CACHE_LINE + 1) * CACHE_LINE


def _most(extent: Expr) -> float:
    return float(extent.constant) if extent.constant is not None else float("inf")


def _span(e: Expr, reach: dict[str, float]) -> float:
    """How far apart the least and the largest value are, when these variables move."""
    return sum(abs(c) * _atom_span(a, reach) for a, c in e.terms)


def _atom_span(a: Var | Fn, reach: dict[str, float]) -> float:
    if isinstance(a, Var):
        return reach.get(a.name, 0.0)
    spans: Sequence[float] = [_span(x, reach) for x in a.args]
    by = a.args[1].constant if len(a.args) > 1 else None
    if a.kind == "div" and by:
        return spans[0] / by
    if a.kind == "mod" and by:
        return min(spans[0], by - 1.0)
    return max(spans, default=0.0)
