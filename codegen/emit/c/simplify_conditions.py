"""Conditions as a person would write them: few, and none that is implied.

    (K + 31)/32 > 0            -->   K > 0
    k + 1 < (K + 31)/32        -->   32*k + 32 < K
    32*warp + lane < 64        -->   warp < 2              lanes are below 32
    n + 125 <= N, n + 4 <= N   -->   n + 125 <= N

Every step is an equivalence for all values inside the variables' intervals, so nothing is lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....dsl.index.expr import Expr, Fn, Var
from ....dsl.index.intervals import linear
from ....dsl.index.prove import conjuncts
from ....dsl.support.memoised import memoised


def simplify_conditions(conds: Sequence[Expr]) -> list[Expr]:
    """Conditions (>= 0) that hold exactly if all of `conds` do; [-1] if they never do."""
    parts = [x for c in conds for x in simplest(c)]
    out: list[Expr] = []
    for e in dict.fromkeys(parts):
        lo, hi = e.interval
        if hi is not None and hi < 0:
            return [Expr((), -1)]
        if lo is None or lo < 0:
            out.append(e)
    return [e for i, e in enumerate(out) if not any([_follows(e, i, x, j) for j, x in enumerate(out) if i != j])]


@memoised
def simplest(cond: Expr) -> tuple[Expr, ...]:
    """The simplest form of a condition by itself."""
    return tuple(_coarse(x) for x in _parts(cond))


def _parts(cond: Expr) -> Sequence[Expr]:
    """What is below quotients by numbers is below what they are of. Quotients of what is compared stay: they are small."""
    quotients = [(a, c) for a, c in cond.terms if isinstance(a, Fn) and a.kind == "div"]
    above = quotients and all(c > 0 and a.args[1].constant is not None for a, c in quotients)
    return conjuncts(cond) if above else (cond,)


def _coarse(cond: Expr) -> Expr:
    """x >= 0 exactly if x/g >= 0: the quotient, if the finer terms never reach g."""
    for g in sorted({abs(c) for _, c in cond.terms if abs(c) > 1}, reverse=True):
        lo, hi = linear([t for t in cond.terms if t[1] % g], cond.const % g)
        if lo is not None and hi is not None and lo // g == hi // g:
            return Expr(tuple([(a, c // g) for a, c in cond.terms if not c % g]), cond.const // g + lo // g)
    return cond


def _follows(e: Expr, i: int, other: Expr, j: int) -> bool:
    """Whether the condition holds wherever the other one does; of two that say the same the first stays."""
    if not _open(other) <= e.variables():  # what has no end there has none in the difference
        return False
    if e.variables().isdisjoint(other.variables()):  # what is open in one stays open in the difference
        return False
    low = (e - other).interval[0]
    if low is None or low < 0:
        return False
    back = (other - e).interval[0]
    return back is None or back < 0 or j < i


@memoised
def _open(cond: Expr) -> frozenset[Var]:
    """Variables by which it grows without an end."""
    return frozenset([a for a, c in cond.terms if type(a) is Var and (a.hi if c > 0 else a.lo) is None])
