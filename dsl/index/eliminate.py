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
        k, other = linear
        if k > 0:
            least.append(ceildiv(-other, k))
        else:
            greatest.append(other // -k)
    return tuple(dict.fromkeys([*rest, *(high - low for low in least for high in greatest)]))


def linear_in(c: Expr, name: str) -> tuple[int, Expr] | None:
    """A factor of the variable, and terms without it: their sum is at least 0 for the same integers as `c`. None: `c` has it in
    no term or in several, or in something else than a quotient by a number."""
    while True:
        mine = [(atom, k) for atom, k in c.terms if _has(Expr(((atom, k),)), name)]
        if len(mine) != 1:
            return None
        atom, k = mine[0]
        other = c - Expr(((atom, k),))
        if isinstance(atom, Var):
            return k, other
        if atom.kind != "div" or atom.args[1].constant is None or atom.args[1].const < 1:
            return None
        of, by = atom.args
        # of/by >= v: of >= by*v; of/by <= v: of < by*(v + 1)
        c = of - by * ceildiv(-other, k) if k > 0 else by * (other // -k) + by - 1 - of


def _has(e: Expr, name: str) -> bool:
    return any(v.name == name for v in e.variables())
