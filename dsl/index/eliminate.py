"""Whether some value of a variable satisfies conditions, as conditions without it (Fourier and Motzkin).

    0 <= t, t < T, t <= i + d    -->    0 < T, 0 <= i + d

Exact for integers, because each condition has the variable once: it states a least or a greatest value.
"""

from __future__ import annotations

from collections.abc import Iterable

from .expr import Expr, Var, as_expr


def without(conds: Iterable[Expr], name: str) -> tuple[Expr, ...] | None:
    """What is at least 0 where some integer of that name makes all conditions at least 0; None: it is multiplied or divided."""
    rest: list[Expr] = []
    least: list[Expr] = []
    greatest: list[Expr] = []
    for c in conds:
        var = next((v for v in c.variables() if v.name == name), Var(name))
        k = c.coefficient(var)
        other = c - as_expr(var) * k
        if any(v.name == name for v in other.variables()) or k not in (-1, 0, 1):
            return None
        if k == 0:
            rest.append(c)
        elif k > 0:
            least.append(-other)
        else:
            greatest.append(other)
    return tuple(dict.fromkeys([*rest, *(high - low for low in least for high in greatest)]))
