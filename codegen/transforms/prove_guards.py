"""Removes guards that always hold: conditions that follow from the enclosing loops; and those that never do.

ELSEWHERE  Where conditions did not hold together, an inner test of all of them fails. Of one condition the opposite is known
           there (`Assumptions`); of several, only that.
"""

from __future__ import annotations

from ...dsl.index.expr import Expr
from ...dsl.index.prove import Assumptions, always, feasible
from ...dsl.support.fast_replace import replace
from ...dsl.values import Const, Masked, Value, transform
from ..ir.program import Program
from ..ir.tile_ir import Alloc, For, If, Let, Stmt, Store
from ..ir.tile_visitors import known, with_bodies


def prove_guards(program: Program) -> Program:
    """Conditions that always hold are dropped; statements under conditions that never hold are too, and loops left empty."""
    facts = Assumptions(lambda: known(program))
    return replace(program, launches=tuple(replace(x, body=_prove(x.body, facts)) for x in program.launches))


Failed = tuple[tuple[Expr, ...], ...]  # conditions that do not hold together


def _prove(body: tuple[Stmt, ...], facts: Assumptions, failed: Failed = ()) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        match s:
            case Let():
                facts = facts if s.extent is None else facts.where(s.known)
                out.append(s)
            case For():
                out += _unless_empty(with_bodies(s, _prove(s.body, facts.where(s.known), failed)))
            case Alloc():
                out += _unless_empty(with_bodies(s, _prove(s.body, facts, failed)))
            case If():
                conds = tuple([c for c in s.conds if not always(c, facts)])
                if not conds:
                    out += _prove(s.body, facts, failed)
                    continue
                if _have_failed(s.conds, failed) or not feasible(conds, facts):
                    out += _prove(s.orelse, facts, failed)
                    continue
                kept = _prove(s.body, facts.also(*conds), failed)
                if len(conds) == 1:
                    other = _prove(s.orelse, facts.also(-conds[0] - 1), failed)
                else:
                    other = _prove(s.orelse, facts, (*failed, conds))
                s = s if len(conds) == len(s.conds) else replace(s, conds=conds)
                out += _unless_empty(with_bodies(s, kept, other))
            case Store():
                value = _prove_value(s.value, facts, failed)
                out.append(s if value is s.value else replace(s, value=value))
            case _:
                out.append(s)
    return tuple(out)


def _unless_empty(s: For | Alloc | If) -> list[Stmt]:
    """Names alone do nothing."""
    does = any(not isinstance(x, Let) for x in s.body)
    if not isinstance(s, If):
        return [s] if does else []
    if not any(not isinstance(x, Let) for x in s.orelse):
        s = replace(s, orelse=())
    return [s] if does or s.orelse else []


def _have_failed(conds: tuple[Expr, ...], failed: Failed) -> bool:
    """ELSEWHERE"""
    return any(all(any(c is x or (c - x).at_least(0) for x in conds) for c in together) for together in failed)


def _prove_value(value: Value, facts: Assumptions, failed: Failed) -> Value:
    def step(v: Value) -> Value | None:
        if isinstance(v, Masked):
            if _have_failed(v.conds, failed):
                return _prove_value(v.otherwise, facts, failed)
            conds = tuple([c for c in v.conds if not always(c, facts)])
            # Vectors evaluate the value `anywhere`, so what guards a read in it holds by itself.
            inner = _prove_value(v.value, facts if v.anywhere else facts.also(*conds), failed)
            other = _prove_value(v.otherwise, facts, failed)
            if not conds or (isinstance(inner, Const) and inner == other):
                return inner
            same = len(conds) == len(v.conds) and inner is v.value and other is v.otherwise
            return v if same else replace(v, conds=conds, value=inner, otherwise=other)
        return None

    return transform(value, step)
