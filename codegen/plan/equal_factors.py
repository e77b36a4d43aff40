"""Factors of several products that are equal are computed once, where a launch of their own computes one of them.

    q[m, n] = sum(k) f32(X[m, k]) * f32(Wq[k, n])           q.left_f32[m, k] = f32(X[m, k])
    v[m, n] = sum(k) f32(X[m, k]) * f32(Wv[k, n])    -->    q[m, n] = sum(k) q.left_f32[m, k] * f32(Wq[k, n])
                                                            v[m, n] = sum(k) q.left_f32[m, k] * f32(Wv[k, n])

The first product gives the name. A factor that a line names itself keeps its name, and is computed apart; one of a tensor that
a line moves is computed of the copy.
"""

from __future__ import annotations

from ...dsl.index.expr import Var, as_expr
from ...dsl.op import Op, Statement
from ...dsl.support.fast_replace import replace
from ...dsl.values import Load, Value, loads, transform
from .computations import substitute
from .name_factors import factor_names, name_factors, ordered_indices


def share_equal_factors(op: Op, apart: frozenset[str], spoken: frozenset[str], moved: frozenset[str]) -> Op:
    """The op, whose products read the factors of `apart` where theirs are equal, but for those that are `spoken` of, and those
    of `moved` tensors."""
    firsts: dict[object, tuple[str, Statement]] = {}
    same: dict[str, str] = {}
    for s in op.statements:
        for name, x in factor_names(s).items():
            indices = ordered_indices(s, x)
            places = {Var(i): as_expr(Var(str(n))) for n, i in enumerate(indices)}
            key = substitute(x, places), tuple(s.extent(i) for i in indices)
            first = firsts.get(key)
            if first is None and name in apart:
                firsts[key] = name, s
            elif (
                first is not None
                and first[1] is not s
                and name not in spoken
                and moved.isdisjoint(ld.tensor for ld in loads(x))
            ):
                same[name] = first[0]
    if not same:
        return op

    def step(v: Value) -> Value | None:
        return replace(v, tensor=same[v.tensor]) if isinstance(v, Load) and v.tensor in same else None

    whole = name_factors(op, frozenset(same))
    statements = tuple(replace(s, value=transform(s.value, step)) for s in whole.statements if s.target not in same)
    return replace(whole, statements=statements, tensors=tuple(t for t in whole.tensors if t.name not in same))
