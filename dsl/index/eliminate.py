"""Whether some value of a variable satisfies conditions, as conditions without it (Fourier and Motzkin).

    0 <= t, t < T, t <= i + d    -->    0 < T, 0 <= i + d
    0 <= t, t < T, t/4 <= i/4    -->    0 < T, 0 <= 4*(i/4) + 3

Exact for integers, because each condition has the variable once: it states a least or a greatest value.
"""

from __future__ import annotations

from collections.abc import Iterable

from .expr import Expr, Var, ceildiv


def without(conds: Iterable[Expr], name: str) -> tuple[Expr, ...] | None:
    """What is at least 0 where some integer of that name makes all conditions at least 0; None: one of them is not
    `linear_in` it."""
    rest: list[Expr] = []
    least: list[Expr] = []
    greatest: list[Expr] = []
    for c in conds:
        if not _has(c, name):
            rest.append(c)
            continue
        linear = linear_in(c, name)
        if linear is None:
            return None
        k, other = parts_of(linear, name)
        if k > 0:
            least.append(ceildiv(-other, k))
        else:
            greatest.append(other // -k)
    return tuple(dict.fromkeys([*rest, *(high - low for low in least for high in greatest)]))


def linear_in(c: Expr, name: str) -> Expr | None:
    """What is at least 0 for the same integers as `c`, and has the variable as one of its terms only. None: it is in several
    terms, or in something else than a quotient by a number."""
    while True:
        mine = [(atom, k) for atom, k in c.terms if _has(Expr(((atom, k),)), name)]
        if len(mine) != 1:
            return None
        atom, k = mine[0]
        if isinstance(atom, Var):
            return c
        if atom.kind != "div" or atom.args[1].constant is None or atom.args[1].const < 1:
            return None
        (of, by), other = atom.args, c - Expr(((atom, k),))
        # of/by >= v: of >= by*v; of/by <= v: of < by*(v + 1)
        c = of - by * ceildiv(-other, k) if k > 0 else by * (other // -k) + by - 1 - of


def parts_of(c: Expr, name: str) -> tuple[int, Expr]:
    """The factor of a variable that is a term, and the other terms."""
    atom, k = next(x for x in c.terms if isinstance(x[0], Var) and x[0].name == name)
    return k, c - Expr(((atom, k),))


def _has(e: Expr, name: str) -> bool:
    return any(v.name == name for v in e.variables())
