"""Terms that depend on the row: what the terms of one row are those of another row times.

sum(j where j <= i) F(j, i)      F(j, i) = outer(i) * inner(j, i)      inner(j, i') = inner(j, i) * correction(i', i)

OUTER     a factor of the term that has no `j` leaves the sum over j: `Q[i]` of `Q[i] * K[j]`. Nothing of it is undone.
INNER     of what is left, the correction is derived with the row in the role of a statistic (`algebra.follow`), as
          `exp(g[i'] - g[i])` for `exp(g[i] - g[j])`. It is one function of a difference, as large as a term, and never a
          quotient of two that overflow.
QUOTIENT  `a[i] / a[j]` stays in the sum, corrected by `a[i'] / a[i]`: row `i` is among the `j` of row `i'`, so the op divides
          by a zero as well. Where it is not among them, the numerator leaves the sum. Nothing else of a row is divided by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ....dsl.index.expr import Expr, Var, as_expr
from ....dsl.support.fast_replace import replace
from ....dsl.types import DType
from ....dsl.values import Apply, Cast, Const, IndexValue, Load, Masked, Value, copied, loads, transform, walk
from ...algebra.follow import DoesNotFollow, Statistic, correction
from ...plan.computations import indices_of, substitute
from ...plan.derived_names import PreviousValue

_ROW = "value of the row"  # what a statistic is called in reasons
_FOLLOWED = ("add", "sub", "mul", "div", "neg", "fma", "exp", "exp2", "pow")  # functions that a correction looks into
_POWERS = ("exp", "exp2", "pow")  # those of which a quotient is the power of a difference
_UNPROVEN = ("where", "abs", "relu", "min", "max")  # functions through which the exactly-once checker sees no factor


@dataclass(frozen=True)
class Decay:
    """`outer`, `correction`: None where there is no such factor. `inner`: the rest of the term. `correction` is the factor from
    row `earlier` to `row`. `state`: the reduced indices that these have, so what goes on has an element for each (STATE).
    `overflows_alike`: whether the op has a term with the factor `correction` (`divides` of `decay_of`)."""

    row: str
    earlier: str
    outer: Value | None
    inner: Value
    correction: Value | None
    state: tuple[str, ...] = ()
    overflows_alike: bool = False

    def inner_at(self, other: str) -> Value:
        """The terms of another row."""
        return substitute(self.inner, {Var(self.row): as_expr(Var(other))})

    def correction_at(self, other: str) -> Value | None:
        """The factor from row `earlier` to another one."""
        return None if self.correction is None else substitute(self.correction, {Var(self.row): as_expr(Var(other))})


def decay_of(term: Value, row: str, earlier: str, index: str, others: Mapping[str, str], divides: bool) -> Decay:
    """How the terms of a sum depend on the row. Raises DoesNotFollow.

    index     the reduced index that the row limits
    others    other reduced indices, and those that they stand for where these are fused
    divides   whether each row after `earlier` has that row among its `index` (QUOTIENT)
    """
    whole, reduced = copied(term), frozenset({index})
    kept = frozenset(_quotients(whole, row, index)) if divides else frozenset[Value]()
    outer, rest = _split(whole, row, reduced, kept)
    inner = Const(1, whole.dtype) if rest is None else rest
    if row not in _names(inner):
        return Decay(row, earlier, outer, inner, None, _state(outer, None, others), divides)
    if inner.dtype.kind != "float":
        raise DoesNotFollow(f"is a sum of {term.dtype}, and only floats are divided")
    leaves: dict[Value, str] = {}
    marked = _marked(inner, row, reduced, leaves, kept)
    statistics = {
        name: Statistic(leaf, lambda load: replace(load, tensor=PreviousValue(load.tensor))) for leaf, name in leaves.items()
    }
    found = correction("sum", marked, statistics, reduced, _ROW)
    _check_divisors(found.value, {PreviousValue(name) for leaf, name in leaves.items() if leaf not in kept})
    factor = _unmarked(found.value, row, earlier, leaves)
    return Decay(row, earlier, outer, inner, factor, _state(outer, factor, others), divides)


def _state(outer: Value | None, factor: Value | None, others: Mapping[str, str]) -> tuple[str, ...]:
    names = {i for v in (outer, factor) if v is not None for i in _names(v)}
    return tuple(dict.fromkeys(fused for i, fused in others.items() if i in names))


# ---------------------------------------------------------------- factors


def _names(v: Value) -> set[str]:
    return indices_of(v, {})


def _factors(v: Value, numerator: bool = True) -> Iterator[tuple[Value, bool]]:
    """What a product is one of, and whether it multiplies (else it divides)."""
    match v:
        case Apply(fn="mul" | "div", args=(u, w)):
            yield from _factors(u, numerator)
            yield from _factors(w, numerator == (v.fn == "mul"))
        case Apply(fn="neg", args=(u,)):
            yield from _factors(u, numerator)
        case _:
            yield v, numerator


def _quotients(v: Value, row: str, index: str) -> Iterator[Value]:
    """The factors at the row by which, at `index`, the product is divided."""
    found = list(_factors(v))
    divisors = {f for f, numerator in found if not numerator}
    for f, numerator in found:
        if numerator and row in _names(f) and substitute(f, {Var(row): as_expr(Var(index))}) in divisors:
            yield f


def _split(v: Value, row: str, reduced: frozenset[str], kept: frozenset[Value]) -> tuple[Value | None, Value | None]:
    """OUTER and the rest; None is 1."""
    names = _names(v)
    if row not in names:
        return None, v
    match v:
        case Apply(fn="mul" | "div", args=(u, w)):
            (a, b), (c, d) = (_split(x, row, reduced, kept) for x in (u, w))
            return _joined(v.fn, a, c, v.dtype), _joined(v.fn, b, d, v.dtype)
        case Apply(fn="neg", args=(u,)):
            outer, rest = _split(u, row, reduced, kept)
            return outer, Apply("neg", (Const(1, v.dtype) if rest is None else rest,), v.dtype)
        case Apply(fn="add" | "sub", args=(u, w)) if names & reduced:
            (a, b), (c, d) = (_split(x, row, reduced, kept) for x in (u, w))
            if a is not None and a == c:
                one = Const(1, v.dtype)
                return a, Apply(v.fn, (one if b is None else b, one if d is None else d), v.dtype)
    return (v, None) if not names & reduced and v not in kept else (None, v)


def _joined(fn: str, a: Value | None, b: Value | None, dtype: DType) -> Value | None:
    if b is None:
        return a
    if a is None and fn == "mul":
        return b
    return Apply(fn, (Const(1, dtype) if a is None else a, b), dtype)


# ---------------------------------------------------------------- the row as a statistic


def _check_divisors(factor: Value, before: set[str]) -> None:
    """QUOTIENT: a factor that divides by what may be 0 is none. `before`: what other elements of a row are loaded by."""
    for v in walk(factor):
        if isinstance(v, Apply) and v.fn == "div" and any(ld.tensor in before for ld in loads(v.args[1])):
            raise DoesNotFollow(f"is scaled by a {_ROW}, which may be 0, inside of another function")


def _marked(v: Value, row: str, reduced: frozenset[str], leaves: dict[Value, str], kept: frozenset[Value]) -> Value:
    """The value with loads of statistics in place of what it reads by the row: elements, and the row's number.

    leaves   gets what each of them stands for       kept   the numerators of quotients
    """

    def statistic(leaf: Value) -> Load:
        name = leaves.setdefault(leaf, str(len(leaves)))
        return Load(name, tuple(as_expr(Var(i)) for i in sorted(_names(leaf))), leaf.dtype)

    def is_of_row(n: Value) -> bool:
        names = _names(n)
        return row in names and not names & reduced

    def step(n: Value) -> Value | None:
        match n:
            case Load() if row in _names(n):
                return statistic(n)
            case Apply(fn=fn) if (fn not in _FOLLOWED and n.dtype.kind == "float" and is_of_row(n)) or (
                n in kept and fn not in _POWERS
            ):
                return statistic(n)
            case IndexValue(expr=e) if _has(e, row):
                own = as_expr(Var(row)) * e.coefficient(Var(row))
                rest = e - own
                if _has(rest, row):
                    if both := sorted(_names(n) & reduced):
                        raise DoesNotFollow(f"has a number of the row and of `{both[0]}` that is not the sum of one of each")
                    return statistic(n)
                number = statistic(replace(n, expr=own))
                if rest.constant == 0:
                    return number
                fn, rest = ("sub", -rest) if all(rest.coefficient(x) < 0 for x in rest.variables()) else ("add", rest)
                return Apply(fn, (number, replace(n, expr=rest)), n.dtype)
            case Cast(dtype=dtype) if (
                dtype.kind == "float" and dtype != dtype.compute and _names(n) & reduced and row in _names(n)
            ):
                raise DoesNotFollow(f"rounds a {_ROW} to {dtype}")
            case Apply(fn=fn, args=args) if fn in _UNPROVEN and _names(n) & reduced and row in _of_results(fn, args):
                raise DoesNotFollow(f"is scaled inside of `{fn}`, where it is not checked that each point counts once")
            case Masked(conds=conds) if any(_has(c, row) for c in conds):
                raise DoesNotFollow(f"makes a choice by the {_ROW}")
        return None

    return transform(v, step)


def _of_results(fn: str, args: tuple[Value, ...]) -> set[str]:
    """The indices of what a function returns something of: not of a condition."""
    return {i for a in (args[1:] if fn == "where" else args) for i in _names(a)}


def _unmarked(v: Value, row: str, earlier: str, leaves: dict[Value, str]) -> Value:
    now = {name: leaf for leaf, name in leaves.items()}
    other = {Var(row): as_expr(Var(earlier))}
    values = {**now, **{PreviousValue(name): substitute(leaf, other) for name, leaf in now.items()}}

    def step(n: Value) -> Value | None:
        match n:
            case Load():
                return values.get(n.tensor)
            case Apply(fn="sub", args=(Load() as a, Load() as b)):
                u, w = values.get(a.tensor), values.get(b.tensor)
                if isinstance(u, IndexValue) and isinstance(w, IndexValue):
                    return replace(u, expr=u.expr - w.expr)
        return None

    return transform(v, step)


def _has(e: Expr, index: str) -> bool:
    return any(v.name == index for v in e.variables())
