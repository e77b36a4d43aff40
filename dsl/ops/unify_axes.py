"""One name for one axis: `j2` in `e[i, j2]` is `e`'s `j`.

`unify_axes(statements, expand)` renames indices so that a producer's axis and the plain index that subscripts it have one
name, wherever that is consistent:

ONE_AXIS_ONE_NAME    two indices of one statement never become one, and indices of different extents never share a name
FIRST_NAME_WINS      an axis has its producer's name for it; if that is taken, `j.2`, `j.3`, ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..index.expr import Expr, Var, as_expr
from ..op import Reduction, Statement
from ..support.fast_replace import replace
from ..values import IndexValue, Load, Masked, Value, loads, transform

Member = tuple[int, str]  # a statement's number and the name of one of its indices


def unify_axes(statements: Sequence[Statement], expand: Callable[[Expr], Expr]) -> list[Statement]:
    producer = {s.target: n for n, s in enumerate(statements)}
    classes: dict[Member, set[Member]] = {(n, i): {(n, i)} for n, s in enumerate(statements) for i, _ in s.ranges}

    def extent(m: Member) -> Expr:
        return expand(statements[m[0]].extent(m[1]))

    for a, b in _links(statements, producer):
        one, other = classes[a], classes[b]
        if one is other or extent(a) != extent(b):
            continue
        if {n for n, _ in one} & {n for n, _ in other}:
            continue
        one |= other
        for m in other:
            classes[m] = one
    names = _names(classes, extent)
    return [rename_indices(s, {i: names[n, i] for i, _ in s.ranges}) for n, s in enumerate(statements)]


def _links(statements: Sequence[Statement], producer: dict[str, int]) -> Iterator[tuple[Member, Member]]:
    for n, s in enumerate(statements):
        own = {as_expr(Var(i)): i for i, _ in s.ranges}
        for load in loads(s.value):
            p = producer.get(load.tensor)
            if p is not None:
                for axis, e in zip(statements[p].indices, load.indices, strict=False):
                    if e in own:
                        yield (p, axis), (n, own[e])


def _names(classes: dict[Member, set[Member]], extent: Callable[[Member], Expr]) -> dict[Member, str]:
    names: dict[Member, str] = {}
    taken: dict[str, list[set[Member]]] = {}

    def free(name: str, members: set[Member]) -> bool:
        at = {n for n, _ in members}
        for other in taken.get(name, ()):
            if at & {n for n, _ in other} or extent(next(iter(other))) != extent(next(iter(members))):
                return False
        return True

    for first, members in classes.items():  # in the order of the statements
        if first in names:
            continue
        base = first[1]
        wanted = [base, *dict.fromkeys(i for _, i in sorted(members))]
        name = next((w for w in wanted if free(w, members)), None)
        number = 2
        while name is None:
            name = f"{base}.{number}" if free(f"{base}.{number}", members) else None
            number += 1
        taken.setdefault(name, []).append(members)
        for m in members:
            names[m] = name
    return names


def rename_indices(s: Statement, names: dict[str, str]) -> Statement:
    """`s` with its indices renamed."""
    if all(old == new for old, new in names.items()):
        return s
    mapping = {Var(old, 0, None): Var(new, 0, None) for old, new in names.items()}
    return replace(
        s,
        indices=tuple(names[i] for i in s.indices),
        value=map_exprs(s.value, lambda e: e.subs(mapping)),
        reduction=None if s.reduction is None else Reduction(s.reduction.kind, tuple(names[i] for i in s.reduction.indices)),
        ranges=tuple((names[i], e) for i, e in s.ranges),
    )


def map_exprs(v: Value, f: Callable[[Expr], Expr]) -> Value:
    """`v` with `f` applied to every index expression in it."""

    def rule(n: Value) -> Value | None:
        match n:
            case IndexValue():
                return replace(n, expr=f(n.expr))
            case Load():
                otherwise = None if n.otherwise is None else map_exprs(n.otherwise, f)
                return replace(n, indices=tuple(map(f, n.indices)), otherwise=otherwise)
            case Masked():
                inner = [map_exprs(x, f) for x in (n.value, n.otherwise)]
                return replace(n, conds=tuple(map(f, n.conds)), value=inner[0], otherwise=inner[1])
        return None

    return transform(v, rule)
