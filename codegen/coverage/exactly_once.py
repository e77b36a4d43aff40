"""Whether each element is reached once: by one statement, in one iteration of its loops, by one of its units."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...dsl.index.expr import Atom, Expr, Fn, Var, as_expr
from ...dsl.index.prove import Assumptions
from ..plan.computations import plain_var
from .constant_digits import with_constant_digits
from .prove_coverage import Prover, fused_pair, unproven_conditions
from .symbolic_domain import Domain, function_of


def exactly_once(element: Sequence[Expr], facts: Iterable[Expr], writers: Sequence[Domain], prover: Prover) -> bool:
    """Whether each element is reached by one iteration of one of them: of the only one, or of one of two that complement each
    other. Raises NotSymbolic."""
    known = tuple(facts)
    assumed = Assumptions(lambda: known)
    open_ = []
    for w in writers:
        d = with_constant_digits(w)
        if undetermined(d):
            return False
        open_.append(unproven_conditions(element, assumed, w, prover))
    if len(open_) == 1:
        return not open_[0]
    return len(open_) == 2 and all(len(x) == 1 for x in open_) and open_[0][0].complements(open_[1][0])


def undetermined(d: Domain) -> set[Var]:
    """The free variables that the coordinates do not determine. They determine digits, each larger than all those below it
    together. Digits by numbers are variables (`with_constant_digits`)."""
    known = {v for v in d.free if v.interval == (0, 0) or -as_expr(v) in d.conds}
    coords = list(d.coords)
    while (pair := fused_pair(coords)) is not None:
        coords[pair[0]] = function_of(coords[pair[0]]).args[0]  # type: ignore[union-attr]
        del coords[pair[1]]
    for c in coords:
        terms: list[tuple[int, Var]] = []
        for a, k in c.terms:
            unknown = {v for v in Expr(((a, 1),)).variables() if v in d.free and v not in known}
            v = a if isinstance(a, Var) else _in_xor(a, unknown)
            if unknown and v is None:
                terms = []
                break
            if unknown:
                assert v is not None
                terms.append((abs(k), v))
        below: int | None = 0
        for k, v in sorted(terms, key=lambda x: x[0]):
            if below is None or k <= below:
                terms = []
                break
            high = _end(v, d)
            below = None if high is None or v.lo is None else below + k * (high - v.lo)
        known |= {v for _, v in terms}
    return set(d.free) - known


def _end(v: Var, d: Domain) -> int | None:
    """The last value that the variable may have, by its interval or by a condition on it alone."""
    ends = [c.const for c in d.conds if c.terms == ((v, -1),)]
    return min([*ends, *(() if v.hi is None else (v.hi,))], default=None)


def _in_xor(a: Atom, unknown: set[Var]) -> Var | None:
    """The one variable of an `xor` with what is known."""
    if not isinstance(a, Fn) or a.kind != "xor" or len(unknown) != 1:
        return None
    (v,) = unknown
    return v if any(plain_var(x) == v for x in a.args) else None
