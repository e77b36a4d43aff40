"""A launch's statements for the placement of barriers: those that matter, with the facts that hold where they stand.

ELSE_IN_FLIGHT   `if (inside) copy else zeros`: where the copy is asynchronous, what stands in the `else` may become a part of
                 it later (`vectorize.legalize_copies`). What is stored there counts as stored at once, and as in flight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ....dsl.support.fast_replace import replace
from ...ir.tile_ir import Alloc, Barrier, Call, For, If, Let, Stmt, Store, Wait
from ...ir.tile_visitors import accessed
from .access import AccessLoop, SharedAccess
from .known_facts import KnownFacts, Part


@dataclass(frozen=True, eq=False)
class BarrierNode:
    """A statement. Nodes are compared by identity.

    scope     what is known where it stands
    parts     what a Store or Call accesses; `accesses`: as far as a barrier could order that
    turns     of a For, as the accesses in it know it
    body      the nodes in a For, Alloc or If; `orelse` of an If
    still     nothing in the statement can matter: no access, no barrier, no wait
    waits     there is a Wait in it
    """

    statement: Stmt
    scope: KnownFacts
    parts: tuple[Part, ...] = ()
    accesses: tuple[SharedAccess, ...] = ()
    turns: AccessLoop | None = None
    body: tuple[BarrierNode, ...] = ()
    orelse: tuple[BarrierNode, ...] = ()
    still: bool = False
    waits: bool = False


def build_tree(body: tuple[Stmt, ...], scope: KnownFacts, written: frozenset[str]) -> tuple[BarrierNode, ...]:
    """The nodes of a body, without their accesses; buffers that are not `written` in the launch need nothing."""
    live: set[int] = set()
    _mark(body, frozenset(filter(scope.shared, written)), scope, live)
    return _grown(body, scope, written, live)


def _mark(body: tuple[Stmt, ...], names: frozenset[str], scope: KnownFacts, live: set[int]) -> bool:
    """Whether there is a barrier, a wait or an access of one of the buffers; statements that have such are in `live`, by
    identity."""
    matters = False
    for s in body:
        match s:
            case For():
                found = _mark(s.body, names, scope, live)
            case If():
                found = _mark((*s.body, *s.orelse), names, scope, live)
            case Alloc():
                name = frozenset((s.buffer.name,))
                found = _mark(s.body, names | name if scope.shares(s.buffer) else names - name, scope, live)
            case Store() | Call():
                found = not accessed(s).isdisjoint(names)
            case _:
                found = isinstance(s, Barrier | Wait)
        if found:
            live.add(id(s))
            matters = True
    return matters


def _grown(body: tuple[Stmt, ...], scope: KnownFacts, written: frozenset[str], live: set[int]) -> tuple[BarrierNode, ...]:
    out: list[BarrierNode] = []
    ahead = sum([id(s) in live for s in body])
    for s in body:
        if id(s) not in live:
            if ahead and isinstance(s, Let):
                scope = scope.let(s)
            out.append(BarrierNode(s, scope, still=True))
            continue
        ahead -= 1
        match s:
            case For():
                inside = scope.inside(s)
                out.append(BarrierNode(s, scope, turns=inside.loops[-1], body=_grown(s.body, inside, written, live)))
            case If():
                held, failed = scope.choosing(s.conds, s.span)
                inner, orelse = _grown(s.body, held, written, live), _grown(s.orelse, failed, written, live)
                out.append(BarrierNode(s, scope, body=inner, orelse=_in_flight(orelse, dict(_copied(inner)))))
            case Alloc():
                out.append(BarrierNode(s, scope, body=_grown(s.body, scope.holding_buffer(s.buffer), written, live)))
            case Store() | Call():
                parts = scope.parts(s, written)
                out.append(BarrierNode(s, scope, parts, still=not parts))
            case _:
                out.append(BarrierNode(s, scope, waits=isinstance(s, Wait)))
    return tuple(out)


def _copied(nodes: Iterable[BarrierNode]) -> Iterator[tuple[str, str]]:
    """The buffers that asynchronous copies fill, and the kind of each."""
    for n in nodes:
        yield from ((name, flight) for name, kind, _, _, flight in n.parts if kind == "write" and flight is not None)
        yield from _copied((*n.body, *n.orelse))


def _in_flight(nodes: tuple[BarrierNode, ...], copied: Mapping[str, str]) -> tuple[BarrierNode, ...]:
    """ELSE_IN_FLIGHT: what the nodes store to the buffers also counts as copies of their kinds."""
    if not copied:
        return nodes
    out = []
    for n in nodes:
        also = tuple((name, kind, at, conds, copied[name]) for name, kind, at, conds, flight in n.parts
                     if kind == "write" and flight is None and name in copied)  # fmt: skip
        body, orelse = _in_flight(n.body, copied), _in_flight(n.orelse, copied)
        out.append(replace(n, parts=(*n.parts, *also), body=body, orelse=orelse))
    return tuple(out)


def annotate_accesses(
    nodes: tuple[BarrierNode, ...], lockstep: bool, matters: Callable[[SharedAccess], bool]
) -> tuple[BarrierNode, ...]:
    """The nodes with the accesses that a barrier could order (see `Scope.barrier_level`).

    matters     whether an access does that is the only one of its buffer
    """
    return _reached(nodes, lockstep, matters, Counter(_parts(nodes)))


def _parts(nodes: tuple[BarrierNode, ...]) -> Iterator[str]:
    for n in nodes:
        for name, *_ in n.parts:
            yield name
        yield from _parts((*n.body, *n.orelse))


def _reached(
    nodes: tuple[BarrierNode, ...], lockstep: bool, matters: Callable[[SharedAccess], bool], number: Mapping[str, int]
) -> tuple[BarrierNode, ...]:
    out: list[BarrierNode] = []
    for n in nodes:
        if n.parts:
            accesses = n.scope.accesses(n.statement, n.parts, lockstep)  # type: ignore[arg-type]
            accesses = tuple([a for a in accesses if number[a.buffer] > 1 or matters(a)])
            n = replace(n, accesses=accesses, still=not accesses)
        elif n.body or n.orelse:
            body, orelse = _reached(n.body, lockstep, matters, number), _reached(n.orelse, lockstep, matters, number)
            inner = (*body, *orelse)
            still, waits = all([x.still for x in inner]), any([x.waits for x in inner])
            n = replace(n, body=body, orelse=orelse, still=still, waits=waits)
        out.append(n)
    return tuple(out)


def rebuild_body(nodes: Iterable[BarrierNode]) -> tuple[Stmt, ...]:
    """The statements of the nodes; those without a new barrier are the objects they were."""
    return tuple(_statement(n) for n in nodes)


def _statement(n: BarrierNode) -> Stmt:
    if n.still or not isinstance(n.statement, For | If | Alloc):
        return n.statement
    body = rebuild_body(n.body)
    if isinstance(n.statement, If):
        orelse = rebuild_body(n.orelse)
        same = body == n.statement.body and orelse == n.statement.orelse
        return n.statement if same else replace(n.statement, body=body, orelse=orelse)
    return n.statement if body == n.statement.body else replace(n.statement, body=body)


def barriers(nodes: Iterable[BarrierNode]) -> Iterator[BarrierNode]:
    """Those in the nodes, in the order of the text."""
    for n in nodes:
        if isinstance(n.statement, Barrier):
            yield n
        elif not n.still and (n.body or n.orelse):
            yield from barriers((*n.body, *n.orelse))


def without_barrier(nodes: tuple[BarrierNode, ...], barrier: BarrierNode) -> tuple[BarrierNode, ...]:
    """The nodes less that one; the same objects where it does not stand."""
    out: list[BarrierNode] = []
    same = True
    for n in nodes:
        if n is barrier:
            same = False
            continue
        if not n.still and (n.body or n.orelse):
            body, orelse = without_barrier(n.body, barrier), without_barrier(n.orelse, barrier)
            if body is not n.body or orelse is not n.orelse:
                same = False
                n = replace(n, body=body, orelse=orelse)
        out.append(n)
    return nodes if same else tuple(out)
