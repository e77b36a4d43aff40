"""Random domains of reductions and of what they read."""

from __future__ import annotations

from random import Random

from ..model import Binary, Expr, Named, Number


def random_domain(source: Random, over: list[str], free: list[str]) -> tuple[tuple[Expr, str, Expr], ...]:
    """Conditions on a reduced index, between it and another one, or a number. Draws of its own: others stay as they are."""
    rng = Random(str(source.getstate()[1][:4]))
    if rng.random() > 0.2:
        return ()
    at: Expr = Named(rng.choice(over))
    others = [Named(i) for i in free] or [Number(rng.randint(2, 9))]
    other, start = rng.choice(others), rng.randint(-2, 2)
    end = Binary("+", other, Number(start + 5)) if rng.random() < 0.3 else other
    out: list[tuple[Expr, str, Expr]] = []
    if rng.random() < 0.8:
        out.append((at, rng.choice(("<=", "<")), end))
    if not out or rng.random() < 0.4:
        twice = Binary("*", Number(2), at) if rng.random() < 0.2 else at
        out.append((twice, rng.choice((">=", ">")), Binary("-", other, Number(4 - start))))
    if rng.random() < 0.3:
        out.append((Binary("+", at, other), "<", Number(rng.randint(20, 60))))
    return tuple(out)


def inherits(source: Random) -> bool:
    """Whether what a reduction reads states its domain. A draw of its own, too."""
    return Random(str(source.getstate()[1][4:8])).random() < 0.4


def states_range(source: Random) -> bool:
    """Whether a restricted reduction states the range of an index, though a shape tells it."""
    return Random(str(source.getstate()[1][8:12])).random() < 0.3
