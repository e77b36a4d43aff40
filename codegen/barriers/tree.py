"""A launch's statements as the placement of barriers sees them: those that matter, with what is known where they stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...dsl.frozen import replace
from ..tile import Alloc, Barrier, Call, For, If, Let, Stmt, Store, Wait
from ..walk_tile import accessed
from .access import Access, Turns
from .scope import Part, Scope


@dataclass(frozen=True, eq=False)
class Node:
    """A statement. Nodes are compared by identity.

    scope     what is known where it stands
    parts     what a Store or Call accesses; `accesses`: as far as a barrier could order that
    turns     of a For, as the accesses in it know it
    body      the nodes in a For, Alloc or If; `orelse` of an If
    still     nothing in the statement can matter: no access, no barrier, no wait
    waits     there is a Wait in it
    """

    statement: Stmt
    scope: Scope
    parts: tuple[Part, ...] = ()
    accesses: tuple[Access, ...] = ()
    turns: Turns | None = None
    body: tuple[Node, ...] = ()
    orelse: tuple[Node, ...] = ()
    still: bool = False
    waits: bool = False


def grow(body: tuple[Stmt, ...], scope: Scope, written: frozenset[str]) -> tuple[Node, ...]:
    """The nodes of a body, without their accesses; buffers that are not `written` in the launch need nothing."""
    out: list[Node] = []
    for s in body:
        match s:
            case Let():
                scope = scope.let(s)
                out.append(Node(s, scope, still=True))
            case For():
                inside = scope.inside(s)
                out.append(Node(s, scope, turns=inside.loops[-1], body=grow(s.body, inside, written)))
            case If():
                held, failed = scope.choosing(s.conds, s.span)
                out.append(Node(s, scope, body=grow(s.body, held, written), orelse=grow(s.orelse, failed, written)))
            case Alloc():
                out.append(Node(s, scope, body=grow(s.body, scope.holding_buffer(s.buffer), written)))
            case Store() | Call():
                parts = () if accessed(s).isdisjoint(written) else scope.parts(s, written)
                out.append(Node(s, scope, parts, still=not parts))
            case Barrier():
                out.append(Node(s, scope))
            case Wait():
                out.append(Node(s, scope, waits=True))
            case _:
                out.append(Node(s, scope, still=True))
    return tuple(out)


def reached(nodes: tuple[Node, ...], lockstep: bool) -> tuple[Node, ...]:
    """The nodes with the accesses that a barrier could order (see `Scope.barrier_level`)."""
    out: list[Node] = []
    for n in nodes:
        if n.parts:
            accesses = n.scope.accesses(n.statement, n.parts, lockstep)  # type: ignore[arg-type]
            n = replace(n, accesses=accesses, still=not accesses)
        elif isinstance(n.statement, For | If | Alloc):
            body, orelse = reached(n.body, lockstep), reached(n.orelse, lockstep)
            inner = (*body, *orelse)
            still, waits = all(x.still for x in inner), any(x.waits for x in inner)
            n = replace(n, body=body, orelse=orelse, still=still, waits=waits)
        out.append(n)
    return tuple(out)


def harvest(nodes: Iterable[Node]) -> tuple[Stmt, ...]:
    """The statements of the nodes; those without a new barrier are the objects they were."""
    return tuple(_statement(n) for n in nodes)


def _statement(n: Node) -> Stmt:
    if n.still or not isinstance(n.statement, For | If | Alloc):
        return n.statement
    body = harvest(n.body)
    if isinstance(n.statement, If):
        orelse = harvest(n.orelse)
        same = body == n.statement.body and orelse == n.statement.orelse
        return n.statement if same else replace(n.statement, body=body, orelse=orelse)
    return n.statement if body == n.statement.body else replace(n.statement, body=body)


def barriers(nodes: Iterable[Node]) -> Iterator[Node]:
    """Those in the nodes, in the order of the text."""
    for n in nodes:
        if isinstance(n.statement, Barrier):
            yield n
        elif not n.still:
            yield from barriers(n.body)
            yield from barriers(n.orelse)


def without(nodes: tuple[Node, ...], barrier: Node) -> tuple[Node, ...]:
    """The nodes less that one; the same objects where it does not stand."""
    out: list[Node] = []
    for n in nodes:
        if n is barrier:
            continue
        body, orelse = (n.body, n.orelse) if n.still else (without(n.body, barrier), without(n.orelse, barrier))
        same = all(x is y for x, y in zip((*body, *orelse), (*n.body, *n.orelse), strict=False)) and len(body) == len(n.body)
        out.append(n if same and len(orelse) == len(n.orelse) else replace(n, body=body, orelse=orelse))
    return tuple(out)
