"""Conditions of neighbours, taken together: whether all of `count` of them are inside, and whether it is all or none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...dsl.index import Expr, Var
from .align import Known, divisor


@dataclass(frozen=True)
class Together:
    """`whole`: hold just when the conditions hold for every neighbour. `sharp`: where they do not, they hold for none."""

    whole: tuple[Expr, ...]
    sharp: bool


def together(conds: Iterable[Expr], var: Var, first: Expr, count: int, known: Known) -> Together:
    """`conds` (>= 0) for `var` = first, ..., first + count - 1.

    ALL_OR_NONE: `n - var - 1 >= 0` has one answer for all of them where `count` divides n - first.
    """
    whole: list[Expr] = []
    sharp = True
    for c in conds:
        if var not in c.variables():
            whole.append(c)
            continue
        at = [c.subs({var: first + i}) for i in range(count)]
        if all(x == at[0] for x in at):
            same = True
            whole.append(at[0])
        elif all((x - at[0]).constant == -i for i, x in enumerate(at)):
            same = divisor(at[0] + 1, known) >= count
            whole.append(at[0] if same else at[-1])
        elif all((x - at[0]).constant == i for i, x in enumerate(at)):
            same = divisor(at[0], known) >= count
            whole.append(at[0])
        else:
            same = False
            whole += at
        sharp = sharp and same
    kept = [c for c in dict.fromkeys(whole) if c.interval[0] is None or c.interval[0] < 0]
    return Together(strongest(kept), sharp)


def strongest(conds: Iterable[Expr]) -> tuple[Expr, ...]:
    """Without those that follow from another by a constant."""
    out: list[Expr] = []
    for c in conds:
        if any((d := (c - o).constant) is not None and d >= 0 for o in out):
            continue
        out = [o for o in out if (d := (o - c).constant) is None or d < 0]
        out.append(c)
    return tuple(out)
