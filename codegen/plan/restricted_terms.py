"""The domain of a reduction, as its value states it: the conditions on indices under which a term is not the neutral value.

sum(t where t <= i) X[t]               t <= i
sum(t) where(t <= i, X[t], 0)          t <= i: the value is exactly 0 elsewhere, whatever X[t] is
sum(t) where(t <= i, P[t], 0) * V[t]   none: 0 * nan is not 0
"""

from __future__ import annotations

from ...dsl.index.expr import Expr, as_expr
from ...dsl.ops.declare_op import comparison_conditions
from ...dsl.values import COMPARISONS, Apply, Const, IndexValue, Masked, Value, neutral_value

OPPOSITE = {"lt": ">=", "le": ">", "gt": "<=", "ge": "<"}


def restricted_term(kind: str, value: Value) -> tuple[tuple[Expr, ...], Value]:
    """What is at least 0 where a term of a reduction counts, and the term there; nothing where all count."""
    if kind in ("argmax", "argmin"):  # a neutral term may be chosen
        return (), value
    neutral = neutral_value(kind, value.dtype)
    match value:
        case Masked(conds=conds, value=term, otherwise=other) if other == neutral:
            return conds, term
        case Apply(fn="where", args=(cond, term, other)) if other == neutral:
            found = _conditions(cond)
            return (found, term) if found else ((), value)
        case Apply(fn="where", args=(Apply(fn=fn, args=(a, b)), other, term)) if other == neutral and fn in OPPOSITE:
            found = _comparison(OPPOSITE[fn], a, b)
            return (found, term) if found else ((), value)
    return (), value


def _conditions(cond: Value) -> tuple[Expr, ...] | None:
    """What a truth value says of indices alone, if it is a conjunction of comparisons."""
    match cond:
        case Apply(fn="and", args=(a, b)):
            found = _conditions(a), _conditions(b)
            return None if found[0] is None or found[1] is None else (*found[0], *found[1])
        case Apply(fn=fn, args=(a, b)) if fn in COMPARISONS:
            return _comparison(COMPARISONS[fn], a, b)
    return None


def _comparison(sign: str, a: Value, b: Value) -> tuple[Expr, ...] | None:
    left, right = _index(a), _index(b)
    return None if left is None or right is None else comparison_conditions(sign, left, right)


def _index(v: Value) -> Expr | None:
    if isinstance(v, IndexValue):
        return v.expr
    return as_expr(int(v.value)) if isinstance(v, Const) and v.dtype.kind in ("int", "uint") else None
