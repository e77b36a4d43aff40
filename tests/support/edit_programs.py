"""Tile programs with something taken out, for tests of what must be there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Barrier, Stmt
from andiron.codegen.ir.tile_visitors import map_bodies, statements


def edited(p: Program, edit: Callable[[Stmt], list[Stmt]]) -> Program:
    """With the edit of each statement, also in the program for other sizes."""
    return replace(edited_launches(p, edit), instead=edited(p.instead, edit) if p.instead is not None else None)


def edited_launches(p: Program, edit: Callable[[Stmt], list[Stmt]]) -> Program:
    """With the edit of each statement of its launches; the program for other sizes stays."""

    def body(stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(x for s in stmts for x in edit(map_bodies(s, body)))

    return replace(p, launches=tuple(replace(x, body=body(x.body)) for x in p.launches))


def barriers(p: Program) -> int:
    return sum(isinstance(s, Barrier) for x in p.launches for s in statements(x.body))


def without_barrier(p: Program, n: int) -> Program:
    """Without barrier n, in the order of the text."""
    seen = iter(range(barriers(p)))
    return edited(p, lambda s: [] if isinstance(s, Barrier) and next(seen, None) == n else [s])
