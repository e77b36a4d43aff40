"""Walks over tile programs: statements, and which buffers they write."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..dsl.device import Instr
from ..dsl.frozen import replace
from ..dsl.index import Expr, Var
from ..dsl.source import Span
from ..dsl.values import IndexValue, Load, Masked, Value, loads, transform
from .tile import Alloc, AllReduce, Call, For, If, Let, Program, Stmt, Store

Coords = tuple[Expr, ...]


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement, outer ones before those inside them."""
    for s in body:
        yield s
        if isinstance(s, For | Alloc | If):
            yield from statements(s.body)
        if isinstance(s, If):
            yield from statements(s.orelse)


def map_bodies(s: Stmt, f: Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]]) -> Stmt:
    """The statement with `f` applied to each body in it; the same object when that changes nothing."""
    if not isinstance(s, For | Alloc | If):
        return s
    body = f(s.body)
    if isinstance(s, If):
        orelse = f(s.orelse)
        return s if body == s.body and orelse == s.orelse else replace(s, body=body, orelse=orelse)
    return s if body == s.body else replace(s, body=body)


def spanned(body: tuple[Stmt, ...], span: Span | None) -> tuple[Stmt, ...]:
    """Statements without one inside that come from no line of their own come from this one."""
    out: list[Stmt] = []
    for s in body:
        match s:
            case For() | Alloc():
                s = replace(s, body=spanned(s.body, s.span or span))
            case If():
                s = replace(s, body=spanned(s.body, s.span or span), orelse=spanned(s.orelse, s.span or span))
            case _ if s.span is None:
                s = replace(s, span=span)
        out.append(s)
    return tuple(out)


def map_exprs(body: tuple[Stmt, ...], f: Callable[[Expr], Expr]) -> tuple[Stmt, ...]:
    """The statements with `f` applied to every index expression in them."""

    def all_of(exprs: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return _mapped(exprs, f)

    def one(s: Stmt) -> Stmt:
        match s:
            case For():
                s = replace(s, start=f(s.start), stop=f(s.stop), step=f(s.step))
            case Let():
                s = replace(s, value=f(s.value), extent=None if s.extent is None else f(s.extent))
            case If():
                s = replace(s, conds=all_of(s.conds))
            case Store():
                s = replace(s, coords=all_of(s.coords), value=map_value(s.value, f))
            case Call():
                s = replace(s, pieces=tuple(replace(p, coords=all_of(p.coords)) for p in s.pieces))
            case AllReduce():
                s = replace(s, cells=tuple((name, all_of(coords)) for name, coords in s.cells))
        return map_bodies(s, lambda inner: map_exprs(inner, f))

    return tuple(map(one, body))


def _mapped(exprs: tuple[Expr, ...], f: Callable[[Expr], Expr]) -> tuple[Expr, ...]:
    """The same object when `f` changes nothing."""
    new = tuple(map(f, exprs))
    return exprs if all(x is y for x, y in zip(new, exprs, strict=True)) else new


def variables(body: tuple[Stmt, ...]) -> frozenset[Var]:
    """Those that index expressions in the statements mention."""
    found: set[Var] = set()

    def look(e: Expr) -> Expr:
        found.update(e.variables())
        return e

    map_exprs(body, look)
    return frozenset(found)


def map_value(value: Value, f: Callable[[Expr], Expr]) -> Value:
    """The value with `f` applied to every index expression in it."""

    def step(v: Value) -> Value | None:
        match v:
            case IndexValue():
                return replace(v, expr=f(v.expr))
            case Load():
                otherwise = None if v.otherwise is None else map_value(v.otherwise, f)
                return replace(v, indices=_mapped(v.indices, f), otherwise=otherwise)
            case Masked():
                kids = map_value(v.value, f), map_value(v.otherwise, f)
                return replace(v, conds=tuple(map(f, v.conds)), value=kids[0], otherwise=kids[1])
        return None

    return transform(value, step)


def map_places(body: tuple[Stmt, ...], f: Callable[[str, Coords], Coords]) -> tuple[Stmt, ...]:
    """The statements with `f(buffer, coords)` in place of the coordinates of every access."""

    def loaded(v: Value) -> Value | None:
        return replace(v, indices=f(v.tensor, v.indices)) if isinstance(v, Load) else None

    def one(s: Stmt) -> Stmt:
        match s:
            case Store():
                s = replace(s, coords=f(s.buffer, s.coords), value=transform(s.value, loaded))
            case Call():
                s = replace(s, pieces=tuple(replace(p, coords=f(p.buffer, p.coords)) for p in s.pieces))
            case AllReduce():
                s = replace(s, cells=tuple((name, f(name, coords)) for name, coords in s.cells))
        return map_bodies(s, lambda inner: map_places(inner, f))

    return tuple(map(one, body))


def written(body: tuple[Stmt, ...], instrs: tuple[Instr, ...]) -> frozenset[str]:
    """Names of the buffers that may be written in `body`."""
    by_name = {i.name: i for i in instrs}
    names: set[str] = set()
    for s in statements(body):
        if isinstance(s, Store):
            names.add(s.buffer)
        elif isinstance(s, Call):
            operands = by_name[s.instr].operands
            names |= {p.buffer for o, p in zip(operands, s.pieces, strict=True) if o.role != "input"}
        elif isinstance(s, AllReduce):
            names |= {name for name, _ in s.cells}
    return frozenset(names)


def written_atomically(body: tuple[Stmt, ...]) -> frozenset[str]:
    return frozenset(s.buffer for s in statements(body) if isinstance(s, Store) and s.atomic is not None)


def buffers_used(body: tuple[Stmt, ...]) -> frozenset[str]:
    """Names of the buffers that are read or written in `body`."""
    return frozenset(name for s in statements(body) for name in accessed(s))


def accessed(s: Stmt) -> frozenset[str]:
    """Names of the buffers that the statement itself reads or writes."""
    if isinstance(s, Store):
        return frozenset({s.buffer, *(load.tensor for load in loads(s.value))})
    if isinstance(s, Call):
        return frozenset(p.buffer for p in s.pieces)
    return frozenset(name for name, _ in s.cells) if isinstance(s, AllReduce) else frozenset()


def known(program: Program) -> tuple[Expr, ...]:
    """What holds (>= 0) everywhere in the program: the conditions of a call, and the sizes that follow from others."""
    return tuple(c for c, _ in program.conditions) + tuple(x for v, e in program.lets for x in (e - v, v - e))
