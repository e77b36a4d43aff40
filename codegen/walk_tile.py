"""Walks over tile programs: statements, and which buffers they write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ..dsl.device import Instr
from ..dsl.index import Expr
from ..dsl.values import loads
from .tile import Alloc, AllReduce, Call, For, If, Program, Stmt, Store


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
