"""Reductions over lanes stand where all lanes take part: `converge(body, varying)`.

A condition around a reduction may be divergent, as long as all lanes of a subgroup agree. A vector machine has every lane take
part, so such a condition moves inwards, to the stores:

    If(c, (s, AllReduce(x), t))  -->  If(c, s); y = x; AllReduce(y); If(c, x = y); If(c, t)

The values that lanes without the condition compute in between are never stored.
"""

from __future__ import annotations

from collections.abc import Mapping

from ....dsl.errors import InternalError
from ....dsl.index.expr import Expr, Var
from ....dsl.support.fast_replace import replace
from ....dsl.values import Load
from ...ir.tile_ir import Alloc, AllReduce, Buffer, For, If, Let, Stmt, Store
from ...ir.tile_visitors import map_bodies, statements, with_buffers
from ..lane_analysis import any_varies


def sink_divergent_guards(body: tuple[Stmt, ...], varying: frozenset[Var]) -> tuple[Stmt, ...]:
    """`varying`: variables that differ between lanes."""
    buffers = {s.buffer.name: s.buffer for s in statements(body) if isinstance(s, Alloc)}

    def visit(stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for s in stmts:
            if isinstance(s, If) and any_varies(s.conds, varying) and _meets((s,)):
                out += _both(s, (), varying, buffers)
            else:
                out.append(map_bodies(s, visit))
        return tuple(out)

    return visit(body) if _meets(body) else body


Where = tuple[tuple[tuple[Expr, ...], bool], ...]  # conditions, outermost first, and whether it is the branch where they hold


def _both(s: If, where: Where, varying: frozenset[Var], buffers: Mapping[str, Buffer]) -> list[Stmt]:
    """Both branches of a choice that parts lanes."""
    body = _sunk(s.body, (*where, (s.conds, True)), varying, buffers)
    return body + _sunk(s.orelse, (*where, (s.conds, False)), varying, buffers)


def _sunk(stmts: tuple[Stmt, ...], where: Where, varying: frozenset[Var], buffers: Mapping[str, Buffer]) -> list[Stmt]:
    out: list[Stmt] = []
    for s in stmts:
        inner = lambda body: tuple(_sunk(body, where, varying, buffers))  # noqa: E731
        match s:
            case Let():
                out.append(s)
            case AllReduce():
                out.append(_apart(s, where, buffers))
            case _ if not _meets((s,)):
                out.append(_under(where, s))
            case For() if any_varies((s.start, s.stop, s.step), varying):
                raise InternalError(f"lanes execute a reduction over lanes different numbers of times: the loop over {s.var}")
            case If() if any_varies(s.conds, varying):
                out += _both(s, where, varying, buffers)
            case _:
                out.append(map_bodies(s, inner))
    return out


def _under(where: Where, s: Stmt) -> Stmt:
    for conds, holds in reversed(where):
        if not holds:
            s = If(conds, (), (s,))
        elif isinstance(s, If) and not s.orelse and s.conds and s.span is None and not s.turns:
            s = If(conds + s.conds, s.body)
        else:
            s = If(conds, (s,))
    return s


def _apart(s: AllReduce, where: Where, buffers: Mapping[str, Buffer]) -> Stmt:
    """The reduction of copies, which only the lanes concerned take back."""
    copies = {name: replace(buffers[name], name=f"{name}_all") for name, _ in s.cells}
    cells = tuple((copies[name].name, coords) for name, coords in s.cells)
    body: list[Stmt] = []
    for (name, coords), (copy, _) in zip(s.cells, cells, strict=True):
        body.append(Store(copy, coords, Load(name, coords, buffers[name].dtype)))
    body.append(replace(s, cells=cells))
    for (name, coords), (copy, _) in zip(s.cells, cells, strict=True):
        body.append(_under(where, Store(name, coords, Load(copy, coords, buffers[name].dtype))))
    return with_buffers(reversed(copies.values()), body)[0]


def _meets(stmts: tuple[Stmt, ...]) -> bool:
    return any(isinstance(s, AllReduce) for s in statements(stmts))
