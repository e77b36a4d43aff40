"""Joint conditions of neighbours: whether all of `count` of them are inside, and whether they are inside all or none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ....dsl.index.expr import Expr, Var
from ...analysis.divisibility import KnownMultiples, divisor
from ...analysis.loop_nest import first_and_step


@dataclass(frozen=True)
class JointGuards:
    """`all_inside`: true exactly if the conditions hold for every neighbour. `all_or_none`: otherwise they hold for none."""

    all_inside: tuple[Expr, ...]
    all_or_none: bool


def joint_guards(conds: Iterable[Expr], var: Var, first: Expr, count: int, known: KnownMultiples) -> JointGuards:
    """`conds` (>= 0) for `var` = first, ..., first + count - 1.

    ALL_OR_NONE: `n - var - 1 >= 0` has one answer for all of them where `count` divides n - first.
    """
    all_inside: list[Expr] = []
    all_or_none = True
    for c in conds:
        if var not in c.variables():
            all_inside.append(c)
            continue
        here, step = first_and_step(c, var, first, count) or (c, None)
        if step == 0:
            same = True
            all_inside.append(here)
        elif step == -1:
            same = divisor(here + 1, known) >= count
            all_inside.append(here if same else here - (count - 1))
        elif step == 1:
            same = divisor(here, known) >= count
            all_inside.append(here)
        else:
            same = False
            all_inside += [c.subs({var: first + i}) for i in range(count)]
        all_or_none = all_or_none and same
    needed = [c for c in dict.fromkeys(all_inside) if c.interval[0] is None or c.interval[0] < 0]
    return JointGuards(strongest(needed), all_or_none)


def strongest(conds: Iterable[Expr]) -> tuple[Expr, ...]:
    """Without those that follow from another by a constant."""
    out: list[Expr] = []
    for c in conds:
        if any((d := (c - o).constant) is not None and d >= 0 for o in out):
            continue
        out = [o for o in out if (d := (o - c).constant) is None or d < 0]
        out.append(c)
    return tuple(out)
