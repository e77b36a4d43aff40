"""Two bounds of a number as one condition, for C text that compares without a sign.

    0 <= x, x < n   -->   (uint32_t)x < n        where n is never negative: as an unsigned number, a negative x is larger

Among index expressions the condition is `min(x, n - 1 - x) >= 0`, which holds exactly if both bounds do.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from ....dsl.index.expr import Expr, Fn, minimum
from ....dsl.support.memoised import memoised
from .simplify_conditions import simplest, simplify_conditions


def with_range_tests(conds: Sequence[Expr]) -> list[Expr]:
    """The simplified conditions (>= 0), with pairs of bounds as one. Bounds that simplification leaves out have no pair."""
    found = simplify_conditions(conds)
    if len(found) < 2:
        return found
    for pairs in (found, conds):  # of what was compared before it was simplified, the sum may be all that is alike
        for a, b in combinations(dict.fromkeys(pairs), 2):
            mine = (a, b) if pairs is found else (*simplest(a), *simplest(b))
            if len(mine) != 2 or any(x not in found for x in mine) or mine[0] == mine[1]:
                continue
            if len((a + b).terms) > 1 and a.atom is None and b.atom is None:
                continue  # more than a size is left of the two: no need to build what has no such form
            both = minimum(a, b)
            if range_test(both) is not None:
                found[found.index(mine[0])] = both
                found.remove(mine[1])
    return found


@memoised
def range_test(cond: Expr) -> tuple[Expr, Expr] | None:
    """(x, n) of a condition that holds exactly if 0 <= x < n, for an n that is never negative; None if it has no such form."""
    atom = cond.atom
    if not isinstance(atom, Fn) or atom.kind != "min" or len(atom.args) != 2:
        return None
    a, b = atom.args
    n = a + b + 1
    low = n.interval[0]
    if low is None or low < 0 or not a.terms or not b.terms or len(n.terms) > 1:
        return None
    return min(a, b, key=lambda x: (len(x.terms), sum(c < 0 for _, c in x.terms))), n
