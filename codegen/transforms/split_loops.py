"""Loops whose iterations differ only by a bound are split at the bound.

for j < n: if (16 j + 16 <= N) whole else edge      -->      for j < N / 16: whole; for N / 16 <= j < n: edge

The first loop then has no test. A choice around it that is the same in all iterations goes before the loops. That is worth
most if few instructions stand between two cache lines: a processor executes a fixed number of instructions ahead, and the test
of an edge, which is true once a row, is one of them in each iteration.
"""

from __future__ import annotations

from ...dsl.index.expr import Expr, maximum, minimum
from ...dsl.index.prove import Assumptions, always
from ...dsl.support.fast_replace import replace
from ..ir.program import Program
from ..ir.tile_ir import For, If, Let, Stmt
from ..ir.tile_visitors import known, map_bodies


def split_loops(program: Program) -> Program:
    facts = Assumptions(lambda: known(program))
    return replace(program, launches=tuple(replace(x, body=_body(x.body, facts)) for x in program.launches))


def _body(body: tuple[Stmt, ...], facts: Assumptions) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Let) and s.extent is not None:
            facts = facts.where(s.known)
        inside = facts.where(s.known) if isinstance(s, For) else facts
        s = map_bodies(s, lambda x, inside=inside: _body(x, inside))
        out += _loop(s, facts) if isinstance(s, For) else (s,)
    return tuple(out)


def _loop(s: For, facts: Assumptions) -> tuple[Stmt, ...]:
    """Two loops, where all that is done is one choice, and one of its conditions holds first and then no more."""
    *lets, choice = s.body or (None,)
    if not (isinstance(choice, If) and choice.orelse and all(isinstance(x, Let) for x in lets)):
        return (s,)
    if s.step.constant != 1 or s.unroll == 0:
        return (s,)
    named = {s.var, *(x.var for x in lets if isinstance(x, Let))}
    if all(named.isdisjoint(c.variables()) for c in choice.conds):
        return _chosen_before(s, tuple(lets), choice, facts)
    turning = [c for c in choice.conds if not named.isdisjoint(c.variables())]
    end = _end(turning[0], s) if len(turning) == 1 else None
    if end is None or not named.isdisjoint(end.variables()):
        return (s,)
    middle = _first_of((end, *((minimum(end, s.var.hi + 1),) if s.var.hi is not None else ())), s.stop, facts)
    middle = middle if always(middle - s.start, facts) else maximum(middle, s.start)
    rest = tuple(c for c in choice.conds if c is not turning[0])
    whole = (replace(choice, conds=rest),) if rest else choice.body
    return replace(s, stop=middle, body=(*lets, *whole)), replace(s, start=middle, body=(*lets, *choice.orelse))


def _chosen_before(s: For, lets: tuple[Stmt, ...], choice: If, facts: Assumptions) -> tuple[Stmt, ...]:
    """A choice that is the same in all iterations is made before them, where a loop of one of its branches can be split."""
    body, other = (_loop(replace(s, body=(*lets, *branch)), facts) for branch in (choice.body, choice.orelse))
    return (replace(choice, body=body, orelse=other),) if max(len(body), len(other)) > 1 else (s,)


def _end(cond: Expr, s: For) -> Expr | None:
    """The first turn in which the condition does not hold, where it holds in all before that and in none after."""
    k = cond.coefficient(s.var)
    return (cond - k * s.var) // -k + 1 if k < 0 else None


def _first_of(ends: tuple[Expr, ...], stop: Expr, facts: Assumptions) -> Expr:
    """The end, or the loop's where that comes first; one of several spellings of it."""
    return next((e for e in ends if always(stop - e, facts)), minimum(ends[0], stop))
