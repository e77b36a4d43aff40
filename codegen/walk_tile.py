"""Walks over tile programs: statements, and which buffers they write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ..dsl.device import Instr
from ..dsl.values import loads
from .tile import Alloc, AllReduce, Call, For, If, Stmt, Store


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement, outer ones before those inside them."""
    for s in body:
        yield s
        if isinstance(s, For | Alloc | If):
            yield from statements(s.body)
        if isinstance(s, If):
            yield from statements(s.orelse)


def map_bodies(s: Stmt, f: Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]]) -> Stmt:
    """The statement with `f` applied to each body in it."""
    if isinstance(s, If):
        return replace(s, body=f(s.body), orelse=f(s.orelse))
    return replace(s, body=f(s.body)) if isinstance(s, For | Alloc) else s


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
    names: set[str] = set()
    for s in statements(body):
        if isinstance(s, Store):
            names.add(s.buffer)
            names |= {ld.tensor for ld in loads(s.value)}
        elif isinstance(s, Call):
            names |= {p.buffer for p in s.pieces}
        elif isinstance(s, AllReduce):
            names |= {name for name, _ in s.cells}
    return frozenset(names)
