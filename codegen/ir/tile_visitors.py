"""Visitors of tile programs: their statements, expressions and buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import is_not
from typing import TypeVar

from ...dsl.device import Instr
from ...dsl.index.expr import Expr, Var
from ...dsl.source import Span
from ...dsl.support.fast_replace import replace
from ...dsl.values import IndexValue, Load, Masked, Value, children, loads, transform
from .program import Program
from .tile_ir import Alloc, AllReduce, Buffer, Call, For, If, Let, Stmt, Store

Coords = tuple[Expr, ...]
_T = TypeVar("_T")
_B = TypeVar("_B", bound=For | Alloc | If)
_HOLDING = For, Alloc, If  # statements with bodies


def statements(body: tuple[Stmt, ...]) -> list[Stmt]:
    """Every statement, outer ones before those inside them."""
    found: list[Stmt] = []
    _collect(body, found)
    return found


def _collect(body: tuple[Stmt, ...], found: list[Stmt]) -> None:
    for s in body:
        found.append(s)
        kind = type(s)
        if kind is For or kind is Alloc or kind is If:
            _collect(s.body, found)  # type: ignore[union-attr]
            if kind is If and s.orelse:  # type: ignore[union-attr]
                _collect(s.orelse, found)  # type: ignore[union-attr]


def map_bodies(s: Stmt, f: Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]]) -> Stmt:
    """The statement with `f` applied to each body in it; the same object when that changes nothing."""
    if not isinstance(s, _HOLDING):
        return s
    return with_bodies(s, f(s.body), f(s.orelse)) if isinstance(s, If) else with_bodies(s, f(s.body))


def with_bodies(s: _B, body: tuple[Stmt, ...], orelse: tuple[Stmt, ...] = ()) -> _B:
    """A loop, an Alloc or an If with other bodies; the same object where they are equal."""
    if isinstance(s, If):
        return s if body == s.body and orelse == s.orelse else replace(s, body=body, orelse=orelse)
    return s if body == s.body else replace(s, body=body)


def with_buffers(buffers: Iterable[Buffer], body: Iterable[Stmt], span: Span | None = None) -> tuple[Stmt, ...]:
    """The statements where these buffers are alive, the first of them outermost."""
    out = tuple(body)
    for b in reversed(tuple(buffers)):
        out = (Alloc(b, out, span),)
    return out


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
    """The statements with `f` applied to every index expression in them; the same objects where that changes nothing."""

    def one(s: Stmt) -> Stmt:
        return map_bodies(map_own(s, f), lambda inner: map_exprs(inner, f))

    return mapped(body, one)


def map_own(s: _T, f: Callable[[Expr], Expr]) -> _T:
    """The statement with `f` applied to its own index expressions, not to those of statements in it; the same object where that
    changes nothing."""

    def all_of(exprs: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return mapped(exprs, f)

    match s:
        case For():
            return _with(s, start=f(s.start), stop=f(s.stop), step=f(s.step))
        case Let():
            return _with(s, value=f(s.value), extent=None if s.extent is None else f(s.extent))
        case If():
            return _with(s, conds=all_of(s.conds))
        case Store():
            return _with(s, coords=all_of(s.coords), value=map_value(s.value, f))
        case Call():
            return _with(s, pieces=mapped(s.pieces, lambda p: _with(p, coords=all_of(p.coords))))
        case AllReduce():
            return replace(s, cells=tuple((name, all_of(coords)) for name, coords in s.cells))
    return s


def with_sizes(b: Buffer, f: Callable[[Expr], Expr]) -> Buffer:
    """The buffer with `f` applied to what its sizes are."""
    return _with(b, shape=mapped(b.shape, f), strides=mapped(b.strides, f), size=f(b.size))


def _with(x: _T, **fields: object) -> _T:
    """The object with these fields; the same one where they are what it has."""
    has = x.__dict__
    for name, value in fields.items():
        if has[name] is not value:
            return replace(x, **fields)  # type: ignore[type-var]
    return x


def mapped(xs: tuple[_T, ...], f: Callable[[_T], _T]) -> tuple[_T, ...]:
    """The same object when `f` changes nothing."""
    new = tuple(map(f, xs))
    return new if any(map(is_not, new, xs)) else xs


def expressions(body: tuple[Stmt, ...]) -> list[Expr]:
    """Every index expression in the statements."""
    found: list[Expr] = []
    for s in statements(body):
        found += own_expressions(s)
    return found


def own_expressions(s: Stmt) -> list[Expr]:
    """Those of the statement itself, not those of statements in it."""
    match s:
        case For():
            return [s.start, s.stop, s.step]
        case Let():
            return [s.value] if s.extent is None else [s.value, s.extent]
        case If():
            return [*s.conds]
        case Store():
            found = [*s.coords]
            _in_value(s.value, found)
            return found
        case Call():
            return [e for p in s.pieces for e in p.coords]
        case AllReduce():
            return [e for _, coords in s.cells for e in coords]
    return []


def _in_value(value: Value, found: list[Expr]) -> None:
    match value:
        case IndexValue():
            found.append(value.expr)
        case Load():
            found += value.indices
        case Masked():
            found += value.conds
    for kid in children(value):
        _in_value(kid, found)


def variables(body: tuple[Stmt, ...]) -> frozenset[Var]:
    """Those that index expressions in the statements mention."""
    return frozenset().union(*[e.variables() for e in expressions(body)])


def map_value(value: Value, f: Callable[[Expr], Expr]) -> Value:
    """The value with `f` applied to every index expression in it; the same object where that changes nothing."""

    def step(v: Value) -> Value | None:
        match v:
            case IndexValue():
                return _with(v, expr=f(v.expr))
            case Load():
                otherwise = None if v.otherwise is None else map_value(v.otherwise, f)
                return _with(v, indices=mapped(v.indices, f), otherwise=otherwise)
            case Masked():
                return _with(v, conds=mapped(v.conds, f), value=map_value(v.value, f), otherwise=map_value(v.otherwise, f))
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
