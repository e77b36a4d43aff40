"""A condition `e >= 0` as a person writes it: subtracted terms stand on the left, added ones on the right.

    M - 4*m1 - 4 >= 0      -->  4*m1 + 4 <= M
    N - n - 1 >= 0         -->  n < N
    1024 - M >= 0          -->  M <= 1024
    k - 3 >= 0             -->  k >= 3
    -thread >= 0           -->  thread == 0        where a thread's number is never negative
    5 >= 0                 -->  0 <= 5             with nothing to compare

Each form determines the condition: `a <= b` is `b - a >= 0`, `a < b` is `b - a - 1 >= 0`, `a >= b` is
`a - b >= 0`, and `a == 0` is `-a >= 0`.
"""

from __future__ import annotations

from collections.abc import Iterable

from .expr import Expr, as_expr


def condition_text(e: Expr) -> str:
    """The condition that `e` is not negative, as text."""
    added, subtracted = (Expr(tuple((a, abs(c)) for a, c in e.terms if (c > 0) == sign), 0) for sign in (True, False))
    if not subtracted.terms and added.terms and e.const <= 0:
        return f"{added} >= {-e.const}"
    if not added.terms and not e.const and subtracted.interval[0] == 0:
        return f"{subtracted} == 0"
    if e.const == -1 and added.terms and subtracted.terms:
        return f"{subtracted} < {added}"
    left, right = (subtracted, added + e.const) if e.const >= 0 else (subtracted + -e.const, added)
    return f"{left} <= {right}"


def conditions_text(conds: Iterable[Expr]) -> str:
    """That all of them hold; `true` where there are none."""
    return " and ".join(condition_text(as_expr(e)) for e in conds) or "true"
