"""Joint conditions of neighbours: whether all of `count` of them are inside, and whether they are inside all or none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ....dsl.index.expr import Expr, Var
from ...analysis.divisibility import KnownMultiples, divisor
from ...analysis.loop_nest import first_and_step


@dataclass(frozen=True)
class JointGuards:
    """`whole`: hold just when the conditions hold for every neighbour. `sharp`: where they do not, they hold for none."""

    whole: tuple[Expr, ...]
    sharp: bool


def joint_guards(conds: Iterable[Expr], var: Var, first: Expr, count: int, known: KnownMultiples) -> JointGuards:
    """`conds` (>= 0) for `var` = first, ..., first + count - 1.

    ALL_OR_NONE: `n - var - 1 >= 0` has one answer for all of them where `count` divides n - first.
    """
    whole: list[Expr] = []
    sharp = True
    for c in conds:
        if var not in c.variables():
            whole.append(c)
            continue
        here, step = first_and_step(c, var, first, count) or (c, None)
        if step == 0:
            same = True
            whole.append(here)
        elif step == -1:
            same = divisor(here + 1, known) >= count
            whole.append(here if same else here - (count - 1))
        elif step == 1:
            same = divisor(here, known) >= count
            whole.append(here)
        else:
            same = False
            whole += [c.subs({var: first + i}) for i in range(count)]
        sharp = sharp and same
    kept = [c for c in dict.fromkeys(whole) if c.interval[0] is None or c.interval[0] < 0]
    return JointGuards(strongest(kept), sharp)


def strongest(conds: Iterable[Expr]) -> tuple[Expr, ...]:
    """Without those that follow from another by a constant."""
    out: list[Expr] = []
    for c in conds:
        if any((d := (c - o).constant) is not None and d >= 0 for o in out):
            continue
        out = [o for o in out if (d := (o - c).constant) is None or d < 0]
        out.append(c)
    return tuple(out)
