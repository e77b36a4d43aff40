"""Inlining of pointwise intermediates: their readers evaluate them.

    a[i] = X[i] * B[i]                       INLINED  Y[i] = exp(X[i] * B[i])
    Y[i] = exp(a[i])

    a[i] = <much>                            SHARED   Y[i] = a * a + a  where a = <much>
    Y[i] = a[i] * a[i] + a[i]

    a[i] = <much of many points>             APART    a is materialised, before
    b[i] = a[2*i] + a[2*i + 1]; ...

INLINED   a copy for each reader, while copies are small.
SHARED    a value that several readers need at one point is computed once, and named; so is a deeply nested value. Text and
          compile time grow with the number of statements, not with the number of paths through them.
APART     some intermediates are materialised if a reader would execute more than MOST_NODES operations, or share more than
          MOST_PARTS values. Readers at different points share nothing, and their number may double with every statement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ...dsl.index.expr import Expr, Var, as_expr
from ...dsl.op import Op
from ...dsl.support.fast_replace import replace
from ...dsl.values import Load, Masked, Part, Shared, Value, children, loads, transform, walk
from .computations import Computation, substitute
from .derived_names import SharedValue, tensor_of

MOST_COPIED = 8  # operations: that inlining copies, before readers share a value [limit]
DEEPEST = 24  # operators: one within the other in an expression [limit]
MOST_NODES = 2000  # operations: that a computation executes for one point [limit]
MOST_PARTS = 64  # values: that a computation shares for one point [limit]

Point = tuple[str, tuple[Expr, ...]]  # a tensor at these indices


def inline_intermediates(computations: list[Computation], op: Op, kept: frozenset[str]) -> list[Computation]:
    """The computations that remain. `kept`: intermediates that are computed by themselves."""
    bodies = _inlined_value(computations, op, kept)
    order = {w.name: n for n, w in enumerate(computations)}
    out: list[Computation] = []
    for w in reversed(computations):  # what is materialised for a reader stands before it
        if w.name in bodies:
            continue
        value = _expanded(w.value, bodies, order)
        while len(shared := _parts(value)) > MOST_PARTS:
            del bodies[tensor_of(shared[-MOST_PARTS][0])]
            value = _expanded(w.value, bodies, order)
        out.append(replace(w, value=value))
    return out[::-1]


def _inlined_value(computations: list[Computation], op: Op, kept: frozenset[str]) -> dict[str, Computation]:
    """The intermediates that are inlined."""
    roles = {t.name: t.role for t in op.tensors}
    padded = {ld.tensor for w in computations for ld in loads(w.value) if ld.otherwise is not None}
    bodies: dict[str, Computation] = {}
    points: dict[str, frozenset[Point]] = {}  # what is computed for one element of a tensor, seen through
    own = {w.name: sum(1 for _ in walk(w.value)) for w in computations}
    for w in computations:
        found, reads = _points(w.value, bodies, points)
        while reads and own[w.name] + sum(own[t] for t, _ in found) > MOST_NODES:
            largest = max(reads, key=lambda t: sum(own[x] for x, _ in points[t]))
            del bodies[largest]
            found, reads = _points(w.value, bodies, points)
        if w.reduction is None and roles[w.name] == "intermediate" and w.name not in kept and w.name not in padded:
            bodies[w.name] = w
            points[w.name] = found | {(w.name, tuple(as_expr(Var(i)) for i in w.indices))}
    return bodies


def _points(
    value: Value, bodies: dict[str, Computation], points: dict[str, frozenset[Point]]
) -> tuple[frozenset[Point], tuple[str, ...]]:
    """What is computed for a value, and the intermediates that it reads itself."""
    found: frozenset[Point] = frozenset()
    reads = {(ld.tensor, ld.indices) for ld in loads(value) if ld.tensor in bodies}
    for tensor, indices in reads:
        mapping = _mapping(bodies[tensor], indices)
        found |= _moved(points[tensor], mapping) if mapping else points[tensor]
    return found, tuple(sorted({t for t, _ in reads}))


def _moved(points: Iterable[Point], mapping: dict[Var, Expr]) -> frozenset[Point]:
    return frozenset([(t, tuple([e.subs(mapping) for e in at])) for t, at in points])


def _mapping(w: Computation, indices: tuple[Expr, ...]) -> dict[Var, Expr]:
    """What stands for the work's own indices where it is read; nothing for those that are the same."""
    own = [Var(i) for i in w.indices]
    return {v: e for v, e in zip(own, indices, strict=True) if e != as_expr(v)}


def _expanded(value: Value, bodies: dict[str, Computation], order: dict[str, int]) -> Value:
    """The value with what it reads of intermediates, copied or shared.

    Of a reduction with a domain, parts are computed only for terms that count: others may be outside of tensors.
    """
    if isinstance(value, Masked):
        return replace(value, value=_expanded(value.value, bodies, order))
    raw: dict[Point, Value] = {}
    readers: Counter[Point] = Counter()
    todo: list[Value] = [value]
    while todo:
        for ld in loads(todo.pop()):
            if ld.tensor not in bodies:
                continue
            point = ld.tensor, ld.indices
            readers[point] += 1
            if point not in raw:
                w, mapping = bodies[ld.tensor], _mapping(bodies[ld.tensor], ld.indices)
                raw[point] = substitute(w.value, mapping) if mapping else w.value
                todo.append(raw[point])
    if not raw:
        return value
    known: dict[Point, Value] = {}
    parts: list[tuple[str, Value]] = []
    for point in sorted(raw, key=lambda p: order[p[0]]):  # what a statement reads is computed by earlier ones
        new = _substituted(raw[point], known)
        if _is_shared(new, readers[point]):
            part = Part(SharedValue(point[0], len(parts)), new.dtype)
            parts.append((part.name, new))
            new = part
        known[point] = new
    new = _substituted(value, known)
    return Shared(tuple(parts), new, new.dtype) if parts else new


def _parts(value: Value) -> tuple[tuple[str, Value], ...]:
    inner = value.value if isinstance(value, Masked) else value
    return inner.parts if isinstance(inner, Shared) else ()


def _substituted(value: Value, known: dict[Point, Value]) -> Value:
    def step(v: Value) -> Value | None:
        return known.get((v.tensor, v.indices)) if isinstance(v, Load) else None

    return transform(value, step)


def _is_shared(value: Value, readers: int) -> bool:
    return (readers - 1) * (sum(1 for _ in walk(value)) - 1) > MOST_COPIED or operator_depth(value) > DEEPEST


def operator_depth(value: Value) -> int:
    """How deep its operators are nested."""
    deepest, level = 0, [value]
    while level:
        deepest, level = deepest + 1, [c for v in level for c in children(v)]
    return deepest
