"""Batches of copies in a loop: consecutive ones, each with the statements around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ....dsl.device import GROUPED, Instr
from ....dsl.index.expr import Expr, Var
from ....dsl.source import Span
from ....dsl.support.fast_replace import replace
from ...ir.tile_ir import Alloc, Buffer, Call, If, Let, Staging, Stmt
from ...ir.tile_visitors import map_bodies, map_exprs, statements
from .split_copies import CopyHalves

Body = tuple[Stmt, ...]


@dataclass(frozen=True)
class CopyEntry:
    """One copy, of the turn that the loop is in. `buffer` is all that rotate. `kinds`: of its asynchronous instructions.

    `total`: its halves are executed when there is no later turn as well (`software_pipeline`, TOTAL). `stored_always`: its late
    half is (UNBRANCHED).
    """

    buffer: Buffer
    copy: Body
    depth: int
    private: bool
    kinds: tuple[str, ...]
    halves: CopyHalves | None = None
    span: Span | None = None
    total: bool = False
    stored_always: bool = False

    @property
    def ahead(self) -> int:
        return self.depth - 1


@dataclass(frozen=True)
class CopyBatch:
    """Copies with nothing but names between them. `context`: names and conditions on the way from the loop to them, outermost
    first; `lets`: names between them; `rest`: what follows, less the trailing statements around them."""

    entries: tuple[CopyEntry, ...]
    context: tuple[Let | If, ...]
    lets: tuple[Let, ...]
    rest: Body

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(k for e in self.entries for k in e.kinds))

    @property
    def ahead(self) -> int:
        return max(e.ahead for e in self.entries)

    @property
    def total(self) -> tuple[tuple[CopyEntry, CopyHalves], ...]:
        return tuple((e, e.halves) for e in self.entries if e.halves is not None and e.total)

    def least(self, kind: str) -> int:
        """How far the nearest of the copies of that kind runs ahead."""
        return min(e.ahead for e in self.entries if kind in e.kinds)


def asynchronous_kinds(body: Body, instrs: dict[str, Instr]) -> tuple[str, ...]:
    """How the asynchronous copies in the statements are awaited."""
    found = {}
    for s in statements(body):
        if isinstance(s, Call) and (awaits := instrs[s.instr].awaits):
            found[awaits[0]] = None
    return tuple(found)


def grouped(kind: str) -> bool:
    return kind in GROUPED


def is_rotating(s: Stmt, var: Var) -> bool:
    """Is this the buffer of a copy that is made ahead over the loop of `var`?"""
    return isinstance(s, Alloc) and s.staging is not None and s.staging.loop == var and s.staging.depth > 1


def staged(body: Body, var: Var) -> list[Alloc]:
    return [s for s in statements(body) if isinstance(s, Alloc) and is_rotating(s, var)]


def chain(s: Alloc, var: Var) -> tuple[tuple[Alloc, ...], tuple[Let, ...], Body]:
    """The allocations of a batch, the names between them, what follows."""
    allocs, lets = [s], []
    rest = _after(s)
    while True:
        n = next((n for n, x in enumerate(rest) if not isinstance(x, Let)), len(rest))
        if n == len(rest) or not is_rotating(rest[n], var):
            return tuple(allocs), tuple(lets), rest
        inner = rest[n]
        assert isinstance(inner, Alloc)
        allocs.append(inner)
        lets += rest[:n]
        rest = (*_after(inner), *rest[n + 1 :])


def copy_of(s: Alloc) -> Body:
    assert s.staging is not None
    return s.body[: s.staging.copy]


def _after(s: Alloc) -> Body:
    assert s.staging is not None
    return s.body[s.staging.copy :]


def without_rotation(body: Body, refused: Callable[[Alloc], bool]) -> Body:
    """Buffers that are refused do not rotate."""
    out: list[Stmt] = []
    for s in body:
        s = map_bodies(s, lambda inner: without_rotation(inner, refused))
        if isinstance(s, Alloc) and refused(s) and s.staging is not None:
            s = replace(s, staging=Staging(s.staging.copy))
        out.append(s)
    return tuple(out)


def plain(e: Expr, context: tuple[Let | If, ...]) -> Expr:
    """With the names of the context put in."""
    for s in reversed(context):
        if isinstance(s, Let):
            e = e.subs({s.var: s.value})
    return e


def names_that_depend(on: Var, stmts: Iterable[Stmt]) -> tuple[Let, ...]:
    """The names among statements whose values depend on a variable, or on such a name above."""
    variables, out = {on}, []
    for s in stmts:
        if isinstance(s, Let) and not variables.isdisjoint(s.value.variables()):
            variables.add(s.var)
            out.append(s)
    return tuple(out)


def wrap_context(context: tuple[Let | If, ...], body: Body) -> Body:
    """The statements under the names and conditions of the context."""
    for s in reversed(context):
        body = (s, *body) if isinstance(s, Let) else (replace(s, body=body, orelse=()),)
    return body


def rename_locals(body: Body, fresh: Callable[[str], str]) -> Body:
    """The statements with other names: they will stand where the old ones mean something else.

    Those inside get other names, too: a condition around them that always holds goes away, and they are names here.
    """
    names: dict[Var, Var] = {}
    out: list[Stmt] = []
    for s in body:
        if names:
            (s,) = map_exprs((s,), lambda e: e.renamed(names))
        s = map_bodies(s, lambda inner: rename_locals(inner, fresh))
        if isinstance(s, Let):
            new = names[s.var] = Var(fresh(s.var.name), s.var.lo, s.var.hi)
            s = replace(s, var=new)
        out.append(s)
    return tuple(out)


def batches_of(body: Body, var: Var, context: tuple[Let | If, ...]) -> Iterator[tuple[Alloc, tuple[Let | If, ...]]]:
    """The first buffer of each batch in the order of the text, and its context; of those that are filled once a turn."""
    for s in body:
        match s:
            case Let():
                context = (*context, s)
            case Alloc() if is_rotating(s, var):
                yield s, context
                _, lets, rest = chain(s, var)
                yield from batches_of(rest, var, (*context, *lets))
            case Alloc():
                yield from batches_of(s.body, var, context)
            case If():
                yield from batches_of(s.body, var, (*context, s))


def merged_conditions(body: list[Stmt]) -> list[Stmt]:
    """Neighbours under the same condition become one."""
    out: list[Stmt] = []
    for s in body:
        last = out[-1] if out else None
        if isinstance(s, If) and isinstance(last, If) and s.conds == last.conds:
            out[-1] = replace(last, body=(*last.body, *s.body))
        else:
            out.append(s)
    return out
