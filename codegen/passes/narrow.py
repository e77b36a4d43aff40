"""Sizes of ordinary calls get an upper end, so that index arithmetic is done in 32 bits where all it forms provably fits.

    narrow(program) -> program, conditions (>= 0) on sizes for which it was made

What follows from sizes (numbers of units, turns of loops, names of values) gets the ends that follow.
"""

from __future__ import annotations

from dataclasses import replace

from ...dsl.index import Expr, Var, as_expr
from ..tile import For, Launch, Let, Program, Stmt, Units
from ..walk_tile import map_exprs

MOST = 1 << 30  # sums of one size and of tiles stay below 2**31


def narrow(program: Program) -> tuple[Program, tuple[Expr, ...]]:
    sizes: dict[Var, Expr] = {}
    conds: list[Expr] = []
    for v in (*program.dims, *(v for v, _ in program.lets)):
        if v.hi is None or v.hi > MOST:
            sizes[v] = as_expr(Var(v.name, v.lo, MOST))
            conds.append(MOST - as_expr(v))
    if not sizes:
        return program, ()
    launches = tuple(_launch(x, sizes) for x in program.launches)
    dims = tuple(_same(v, sizes) for v in program.dims)
    lets = tuple((_same(v, sizes), e.subs(sizes)) for v, e in program.lets)
    return replace(program, dims=dims, lets=lets, launches=launches), tuple(conds)


def _same(v: Var, known: dict[Var, Expr]) -> Var:
    """The variable with the ends that are known of it."""
    new = known.get(v)
    found = next(iter(new.variables())) if new is not None else v
    return found


def _launch(launch: Launch, sizes: dict[Var, Expr]) -> Launch:
    known = dict(sizes)
    units = []
    for u in launch.units:
        count = u.count.subs(known)
        var = _ended(u.var, count - 1)
        known[u.var] = as_expr(var)
        units.append(Units(u.level, var, count))
    _collect(launch.body, known)
    return replace(launch, units=tuple(units), body=_with(launch.body, known))


def _collect(body: tuple[Stmt, ...], known: dict[Var, Expr]) -> None:
    for s in body:
        match s:
            case For():
                known[s.var] = as_expr(_ended(s.var, s.stop.subs(known) - 1))
            case Let():
                last = s.value if s.extent is None else s.extent - 1
                known[s.var] = as_expr(_ended(s.var, last.subs(known), s.value.subs(known)))
        for inner in (getattr(s, "body", ()), getattr(s, "orelse", ())):
            _collect(inner, known)


def _ended(v: Var, *mosts: Expr) -> Var:
    """With the least upper end that any of the expressions gives; the lower end stays."""
    ends = [e.interval[1] for e in mosts] + [v.hi]
    his = [h for h in ends if h is not None]
    return Var(v.name, v.lo, max(min(his), v.lo or 0) if his else None)


def _with(body: tuple[Stmt, ...], known: dict[Var, Expr]) -> tuple[Stmt, ...]:
    """The statements with the variables as they are known. (Equal ones may differ in their ends: equality is not asked for.)"""
    out: list[Stmt] = []
    for s in body:
        inner = {name: _with(getattr(s, name), known) for name in ("body", "orelse") if hasattr(s, name)}
        (alone,) = map_exprs((replace(s, **dict.fromkeys(inner, ())),), lambda e: e.subs(known))
        if isinstance(alone, (For, Let)):
            alone = replace(alone, var=_same(alone.var, known))
        out.append(replace(alone, **inner))
    return tuple(out)
