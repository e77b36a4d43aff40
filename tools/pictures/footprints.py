"""The part of each tensor that a tile reads: a schedule's cuts and the tensors' subscripts, as numbers for a page's script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...codegen.ir.schedule_tree import Tile
from ...codegen.lower.schedule_trace import TracedLine
from ...codegen.plan.derived_names import tensor_of
from ...dsl.index.expr import Expr, Var, as_expr
from ...dsl.op import Op, Statement
from ...dsl.values import loads


def footprints(op: Op, trace: Sequence[TracedLine], sizes: Mapping[str, int]) -> dict[str, Any] | None:
    """None where nothing is cut, or where no subscript is linear in the indices (they may be fused). Otherwise

    whole    the extent of each index
    cuts     the lines that make tiles smaller, outermost first: `step`, its number in the trace; `line`; `axes`, [index,
             extent before, extent after] of each index that it cuts, in the order of visiting
    places   the memory that each tensor is in after each step
    tensors  `name`; `rows` and `columns`, each [extent, least constant, largest constant, {index: coefficient}] of one of its
             last two axes (a vector has one row)
    """
    launched = {t for traced in trace for t in traced.targets}
    statements = [s for s in op.statements if s.target in launched] or [op.statements[-1]]
    statement = max(statements, key=lambda s: len(s.ranges))  # the one with most to cut
    whole = {i: _number(e, sizes) for i, e in statement.ranges}
    extents = {i: n for i, n in whole.items() if n}
    cuts = list(_cuts(trace, extents, statement.target, sizes))
    tensors = list(_tensors(op, statement, sizes))
    if len(extents) < len(whole) or not cuts or not tensors:
        return None
    places: list[dict[str, str]] = []
    for traced in trace:
        own = traced.depth <= 1 and traced.scope is not None
        places.append({tensor_of(t): m for t, m in traced.scope.places.items()} if own and traced.scope else places[-1])
    return {"whole": extents, "cuts": cuts, "places": places, "tensors": tensors}


def _cuts(
    trace: Sequence[TracedLine], whole: Mapping[str, int], target: str, sizes: Mapping[str, int]
) -> Iterator[dict[str, Any]]:
    """Of the launch that computes the target, its own lines only: not those of copies."""
    here, now = False, dict(whole)
    for n, traced in enumerate(trace):
        if traced.depth == 0:
            here = target in traced.targets
        if not here or traced.depth > 1 or traced.scope is None:
            continue
        after = {i: _number(e, sizes) for i, e in traced.scope.extents.items()}
        if not set(now) <= set(after):
            return  # fused: what follows is no longer told in these indices
        axes = [[i, now[i], min(int(a), now[i])] for i in after if i in now and (a := after[i]) and a < now[i]]
        if axes and traced.depth:
            now |= {i: small for i, _, small in axes}
            visited = [a.index for a in traced.node.axes] if isinstance(traced.node, Tile) else []
            axes.sort(key=lambda axis: visited.index(axis[0]) if axis[0] in visited else len(visited))
            yield {"step": n, "line": traced.line, "axes": axes}


def _tensors(op: Op, statement: Statement, sizes: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Each tensor of the op that the statement reads, then the one that it writes; the hull of accesses that run alike."""
    shapes = {t.name: t.shape for t in op.tensors}
    accesses: dict[str, list[tuple[Expr, ...]]] = {}
    for load in loads(statement.value):
        accesses.setdefault(load.tensor, []).append(load.indices)
    accesses[statement.target] = [tuple(as_expr(Var(i)) for i in statement.indices)]
    for name, several in accesses.items():
        shape = shapes.get(name, ())[-2:]
        axes = [_axis([indices[-2:][d] for indices in several], n, sizes) for d, n in enumerate(shape)]
        if axes and None not in axes:
            rows, columns = axes if len(axes) == 2 else ([1, 0, 0, {}], axes[0])
            yield {"name": name, "rows": rows, "columns": columns}


def _axis(subscripts: Sequence[Expr], extent: Expr, sizes: Mapping[str, int]) -> list[Any] | None:
    """[extent, least constant, largest constant, {index: coefficient}]; None where a subscript is not linear, or runs apart."""
    fixed = {Var(name): n for name, n in sizes.items()}
    plain, length = [e.subs(fixed) for e in subscripts], _number(extent, sizes)
    if (
        length is None
        or any(e.terms != plain[0].terms for e in plain)
        or not all(isinstance(a, Var) for a, _ in plain[0].terms)
    ):
        return None
    constants = [e.const for e in plain]
    return [length, min(constants), max(constants), {a.name: c for a, c in plain[0].terms if isinstance(a, Var)}]


def _number(expr: Expr, sizes: Mapping[str, int]) -> int | None:
    found = expr.subs({Var(name): n for name, n in sizes.items()}).constant
    return None if found is None else int(found)
