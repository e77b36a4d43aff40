"""Stores and calls in loops that are written out: printed once, with holes for what differs from turn to turn.

Turns name other cells of registers, and other places in memory. What prints a statement asks for both with the coordinates as
the program has them (`Context.asked`). While a statement is recorded, what is asked for is kept, and a mark put in its place;
in each turn after that the same is asked, in the same order, and put where the marks are.

ALIKE     All else in a line is the same in every turn, where index values are of variables that are the same. What is printed
          for a part of the lanes, or as several lines, is not recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ...dsl.index import Expr, Var
from ...dsl.values import IndexValue, Load, Masked, walk
from ..tile import Call, For, Stmt, Store
from .address import linear
from .asked import Asked, Hole
from .context import Context
from .scope import is_risky

_S = TypeVar("_S", Store, Call)


@dataclass(frozen=True)
class _Line:
    """`text`: a format of the answers that `taken` says. `kept`: what the key of it names stays alive."""

    text: str
    taken: list[int]
    holes: list[Hole]
    kept: list[Expr | None]


class Again:
    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        # by identity, with what the key names
        self._inside: dict[int, tuple[frozenset[Var] | None, Stmt]] = {}
        self._bare: dict[int, tuple[bool, tuple[Stmt, ...]]] = {}  # of bodies of loops
        self._lines: dict[tuple, _Line | None] = {}

    def recorded(self, s: _S, turning: Var, show: Callable[[_S], None]) -> None:
        """Prints a statement, by `show` the first time. `turning`: of the innermost loop around it that is written out."""
        ctx = self.ctx
        inside = self._alike(s)
        if inside is None or turning in inside or ctx.in_lane or ctx.part is not None:
            return show(s)
        if inside:
            values = [ctx.env.get(v) for v in inside]
            key = (id(s), ctx.share, ctx.text.index.names, *map(id, values))
        else:
            values, key = [], (id(s), ctx.share)
        if key not in self._lines:
            self._lines[key] = self._record(s, show, values)
            return None
        line = self._lines[key]
        if line is None:
            return show(s)
        told = [ask(*about) for ask, about in line.holes]
        ctx.text.line(line.text % tuple([told[n] for n in line.taken]))
        return None

    def _record(self, s: _S, show: Callable[[_S], None], values: list[Expr | None]) -> _Line | None:
        """Prints it; None where that took more than a line."""
        ctx = self.ctx
        asked, temps, lines = Asked(ctx.text), ctx.text.temps, ctx.text.scopes[-1].lines
        mark = len(lines)
        ctx.asked = asked
        show(s)
        ctx.asked = None
        alone = len(lines) == mark + asked.lines + 1 and ctx.text.temps == temps
        said = asked.format(lines[-1]) if alone else None
        asked.fill(lines, mark)
        return None if said is None else _Line(*said, asked.holes, values)

    def _alike(self, s: Store | Call) -> frozenset[Var] | None:
        """ALIKE: the variables that index values in it are of; None where its turns may differ otherwise."""
        found = self._inside.get(id(s))
        if found is None:
            found = self._inside[id(s)] = self._index_values(s), s
        return found[0]

    def _index_values(self, s: Store | Call) -> frozenset[Var] | None:
        if isinstance(s, Call):
            return frozenset() if all([self._plain(p.buffer) for p in s.pieces]) else None
        if s.atomic is not None or not self._plain(s.buffer):
            return None
        inside: frozenset[Var] = frozenset()
        for v in walk(s.value):
            if isinstance(v, Masked) or (isinstance(v, Load) and not self._plain(v.tensor)):
                return None
            if isinstance(v, IndexValue):
                inside |= v.expr.variables()
        return inside

    def declares_nothing(self, body: tuple[Stmt, ...]) -> bool:
        """Whether a turn of a loop over `body` needs no scope of its own: it says neither names nor pointers."""
        found = self._bare.get(id(body))
        if found is None:
            found = self._bare[id(body)] = all(map(self._bare_statement, body)), body
        return found[0]

    def _bare_statement(self, s: Stmt) -> bool:
        if isinstance(s, For):
            return s.var in self.ctx.lanes.unrolled and self.declares_nothing(s.body)
        return isinstance(s, (Store, Call)) and self._alike(s) is not None and not any(map(self._declares, _accesses(s)))

    def _declares(self, access: tuple[str, tuple[Expr, ...]]) -> bool:
        name, coords = access
        memory = name not in self.ctx.lanes.registers
        return memory and any([is_risky(a) for a, _ in linear(self.ctx, self.ctx.buffers[name], coords).terms])

    def _plain(self, buffer: str) -> bool:
        """Whether one name says what is accessed, or one pointer and an index."""
        register = self.ctx.lanes.registers.get(buffer)
        return self.ctx.lanes.var is None if register is None else register.named


def _accesses(s: Store | Call) -> list[tuple[str, tuple[Expr, ...]]]:
    if isinstance(s, Call):
        return [(p.buffer, p.coords) for p in s.pieces]
    return [(s.buffer, s.coords), *((v.tensor, v.indices) for v in walk(s.value) if isinstance(v, Load))]
