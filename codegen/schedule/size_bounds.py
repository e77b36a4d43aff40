"""Bounds on sizes: `schedule ... where N <= 16384` makes 16384 the upper end of N's interval, and a condition of the call."""

from __future__ import annotations

from collections.abc import Mapping

from ...dsl import syntax
from ...dsl.errors.schedule import BadBound
from ...dsl.index.expr import Expr, Var, as_expr
from ...dsl.op import Op
from ...dsl.ops.index_syntax import index_term, names_in, node_text
from ...dsl.support.fast_replace import replace
from ..plan.computations import substitute


def with_size_bounds(op: Op, schedule: syntax.ScheduleDecl | None) -> Op:
    """The op with the sizes' bounds of `schedule ... where N <= 4096` as intervals of their variables."""
    return op if schedule is None or not schedule.where else with_bounds(op, schedule.where)


def with_bounds(op: Op, where: tuple[syntax.SizeCondition, ...]) -> Op:
    dims = {v.name: v for v in op.dims}
    conditions = list(op.conditions)
    ends: dict[str, tuple[int | None, int | None]] = {}
    names = dims | {v.name: v for v, _ in op.derived}
    for w in where:
        table = {n: as_expr(v) for n, v in names.items()}
        left, right = index_term(w.left, table), index_term(w.right, table)
        slack = _slack(w, left, right)
        conditions += [(c, f"{_shown(w)}") for c in slack]
        if isinstance(w.left, syntax.Name) and w.left.id in names and right.constant is not None:
            lo, hi = ends.get(w.left.id, (None, None))
            least, most = _ends(w.op, right.constant)
            ends[w.left.id] = _most(lo, least, max), _most(hi, most, min)
        elif right.constant is None and left.constant is None:
            raise BadBound(f"`{_shown(w)}` is no bound of a size", w.span, help="write `where N <= 4096`")
    for w in where:
        _satisfiable(w, names, ends)
    equal = _equal_sizes(op, ends)
    for v, w in equal.items():  # bounds of the one are bounds of the other
        if (more := ends.pop(v.name, None)) is not None:
            lo, hi = ends.get(w.name, (None, None))
            ends[w.name] = _most(lo, more[0], max), _most(hi, more[1], min)
    bounded = {v: Var(n, *_meet(v, ends[n])) for n, v in names.items() if n in ends}
    mapping = {v: as_expr(b.lo if b.lo is not None and b.lo == b.hi else b) for v, b in bounded.items()}
    mapping |= {v: as_expr(bounded.get(w, w)) for v, w in equal.items()}
    tensors = tuple(replace(t, shape=tuple(e.subs(mapping) for e in t.shape)) for t in op.tensors)
    statements = tuple(
        replace(s, value=substitute(s.value, mapping), ranges=tuple((i, e.subs(mapping)) for i, e in s.ranges))
        for s in op.statements
    )
    return replace(
        op, dims=tuple(bounded.get(v, v) for v in op.dims),
        derived=tuple((bounded.get(v, v), e.subs(mapping)) for v, e in op.derived), tensors=tensors, statements=statements,
        conditions=tuple((c.renamed(bounded), text) for c, text in conditions),
    )  # fmt: skip


def _equal_sizes(op: Op, ends: Mapping[str, tuple[int | None, int | None]]) -> dict[Var, Var]:
    """Derived sizes that are a size of the op where others are numbers: filters of one element leave an image as large as it
    is."""
    numbers = {v: lo for v in op.dims if (lo := ends.get(v.name, (None, None))[0]) is not None and ends[v.name][1] == lo}
    found = {v: e.subs(numbers).atom for v, e in op.derived}
    return {v: w for v, w in found.items() if isinstance(w, Var) and w in op.dims}


def size_conditions(ends: Mapping[str, int], comparison: str = "<=") -> tuple[syntax.SizeCondition, ...]:
    """The condition of each size; `ends`: what it is compared with."""
    return tuple(syntax.SizeCondition(syntax.Name(name), comparison, syntax.Num(n)) for name, n in ends.items())


def without_decided_bounds(decl: syntax.ScheduleDecl, known: Mapping[str, int]) -> syntax.ScheduleDecl | None:
    """The schedule without the conditions that sizes fixed at compile time decide; None when they exclude it."""
    table = {name: as_expr(value) for name, value in known.items()}
    left: list[syntax.SizeCondition] = []
    for w in decl.where:
        if not names_in(w.left) | names_in(w.right) <= known.keys():
            left.append(w)
        elif any((c.constant or 0) < 0 for c in _slack(w, index_term(w.left, table), index_term(w.right, table))):
            return None
    return replace(decl, where=tuple(left))


def _slack(w: syntax.SizeCondition, left: Expr, right: Expr) -> list[Expr]:
    match w.op:
        case "<=":
            return [right - left]
        case "<":
            return [right - left - 1]
        case ">=":
            return [left - right]
        case ">":
            return [left - right - 1]
        case "==" | "=":
            return [left - right, right - left]
    raise BadBound(f"`{w.op}` makes no bound", w.span, help="bounds have `<`, `<=`, `>`, `>=` or `==`")


def _most(a: int | None, b: int | None, pick) -> int | None:
    return b if a is None else a if b is None else pick(a, b)


def _satisfiable(w: syntax.SizeCondition, dims: Mapping[str, Var], ends) -> None:
    """Raises BadBound where the bounds together leave no size."""
    table = {n: as_expr(Var(n, *_meet(v, ends[n])) if n in ends else v) for n, v in dims.items()}
    empty = next((n for n in names_in(w.left) & ends.keys() if _none(*_meet(dims[n], ends[n]))), None)
    if empty is not None:
        raise BadBound(f"no `{empty}` satisfies `{_shown(w)}`", w.span, help="sizes are at least 0; a bound below excludes all")
    if not (names_in(w.left) | names_in(w.right)) <= table.keys():
        return
    slack = _slack(w, index_term(w.left, table), index_term(w.right, table))
    if any((hi := c.interval[1]) is not None and hi < 0 for c in slack):
        raise BadBound(f"no sizes satisfy `{_shown(w)}`", w.span, help="sizes are at least 0")


def _none(lo: int | None, hi: int | None) -> bool:
    return lo is not None and hi is not None and lo > hi


def _ends(op: str, n: int) -> tuple[int | None, int | None]:
    return {"<=": (None, n), "<": (None, n - 1), ">=": (n, None), ">": (n + 1, None)}.get(op, (n, n))


def _meet(v: Var, ends: tuple[int | None, int | None]) -> tuple[int | None, int | None]:
    lo, hi = ends
    return (v.lo if lo is None else max(lo, v.lo or 0)), (v.hi if hi is None else hi)


def _shown(w: syntax.SizeCondition) -> str:
    return f"{node_text(w.left)} {w.op} {node_text(w.right)}"
