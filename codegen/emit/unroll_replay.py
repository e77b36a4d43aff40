"""Stores and calls in unrolled loops: printed once, with holes where iterations differ.

Iterations name other cells of registers, other addresses and other index values. The printer requests them with the program's
expressions (`record_operand`). While a statement is recorded, each request is stored, and a mark replaces its text. Later
iterations evaluate the same requests in the same order, and fill the marks.

ALIKE     The rest of a statement is the same in every iteration. Statements that are printed for some of the lanes, or as
          several statements, are not recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ...dsl.index.expr import Expr
from ...dsl.support.memoised import IdentityMemo
from ...dsl.values import IndexValue, Load, Masked, Value, walk
from ..ir.tile_ir import Call, For, Stmt, Store
from .addressing import linear_address
from .c.c_tree import Statement, map_texts
from .c.text_builder import is_risky
from .emission_context import EmissionContext
from .recorded_operands import Hole, RecordedOperands, fill_marks

_S = TypeVar("_S", Store, Call)


@dataclass(frozen=True)
class _Recorded:
    """`form`: the statement with marks for the answers."""

    form: Statement
    holes: list[Hole]


class UnrollReplay:
    def __init__(self, ctx: EmissionContext) -> None:
        self.ctx = ctx
        self._alikes: IdentityMemo[Store | Call, bool] = IdentityMemo()
        self._bare: IdentityMemo[tuple[Stmt, ...], bool] = IdentityMemo()  # of bodies of loops
        self._recorded: dict[tuple, _Recorded | None] = {}

    def replay(self, s: _S, show: Callable[[_S], None]) -> None:
        """Prints a statement of an unrolled loop, by `show` in the first iteration."""
        ctx = self.ctx
        if not self._alike(s) or ctx.in_lane or ctx.mask is not None:
            return show(s)
        key = id(s), ctx.sub_vector
        if key not in self._recorded:
            self._recorded[key] = self._record(s, show)
            return None
        recorded = self._recorded[key]
        if recorded is None:
            return show(s)
        told = [ask(*about) for ask, about in recorded.holes]
        ctx.text.add(map_texts(recorded.form, lambda text: fill_marks(text, told)))
        return None

    def _record(self, s: _S, show: Callable[[_S], None]) -> _Recorded | None:
        """Prints it; None where that took more than a statement."""
        ctx = self.ctx
        asked, temps, body = RecordedOperands(ctx.text), ctx.text.temps, ctx.text.body
        mark = len(body)
        ctx.recorded_operands = asked
        show(s)
        ctx.recorded_operands = None
        alone = len(body) == mark + asked.statements + 1 and ctx.text.temps == temps
        form = body[-1] if alone and asked.all_marked(body[-1]) else None
        asked.fill(body, mark)
        return None if form is None else _Recorded(form, asked.holes)

    def _alike(self, s: Store | Call) -> bool:
        """ALIKE"""
        return self._alikes.of(s, self._found_alike)

    def _found_alike(self, s: Store | Call) -> bool:
        told = isinstance(s, Call) or (s.atomic is None and all(map(self._told, walk(s.value))))
        return told and all([self._plain(name) for name, _ in _accesses(s)])

    def _told(self, v: Value) -> bool:
        """Whether its text is of one form."""
        varying = self.ctx.lanes.varying
        return not isinstance(v, Masked) and (not isinstance(v, IndexValue) or varying.isdisjoint(v.expr.variables()))

    def declares_nothing(self, body: tuple[Stmt, ...]) -> bool:
        """Whether an iteration of a loop over `body` needs no scope of its own: it declares neither names nor pointers."""
        return self._bare.of(body, lambda body: all(map(self._bare_statement, body)))

    def _bare_statement(self, s: Stmt) -> bool:
        if isinstance(s, For):
            return s.var in self.ctx.lanes.unrolled and self.declares_nothing(s.body)
        return isinstance(s, (Store, Call)) and self._alike(s) and not any(map(self._declares, _accesses(s)))

    def _declares(self, access: tuple[str, tuple[Expr, ...]]) -> bool:
        name, coords = access
        memory = name not in self.ctx.lanes.registers
        return memory and any([is_risky(a) for a, _ in linear_address(self.ctx, self.ctx.buffers[name], coords).terms])

    def _plain(self, buffer: str) -> bool:
        """Whether the access is one name, or one pointer and an index."""
        register = self.ctx.lanes.registers.get(buffer)
        return self.ctx.lanes.var is None if register is None else register.named


def _accesses(s: Store | Call) -> list[tuple[str, tuple[Expr, ...]]]:
    if isinstance(s, Call):
        return [(p.buffer, p.coords) for p in s.pieces]
    return [(s.buffer, s.coords), *((v.tensor, v.indices) for v in walk(s.value) if isinstance(v, Load))]
