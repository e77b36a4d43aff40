"""Walks over tile programs: statements, and which buffers they read and write."""

from __future__ import annotations

from collections.abc import Iterator

from .tile import Alloc, Call, For, If, Stmt, Store


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement, outer ones before those inside them."""
    for s in body:
        yield s
        if isinstance(s, For | Alloc | If):
            yield from statements(s.body)
        if isinstance(s, If):
            yield from statements(s.orelse)


def written(body: tuple[Stmt, ...]) -> frozenset[str]:
    """Buffers that may be written in `body`. The operands of a call count: which of them are results, only the device knows."""
    names = {s.buffer for s in statements(body) if isinstance(s, Store)}
    return frozenset(names | {p.buffer for s in statements(body) if isinstance(s, Call) for p in s.pieces})


def written_atomically(body: tuple[Stmt, ...]) -> frozenset[str]:
    return frozenset(s.buffer for s in statements(body) if isinstance(s, Store) and s.atomic is not None)
