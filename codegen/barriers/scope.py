"""What is known where a statement stands, while barriers are placed: variables, guards, buffers; and its accesses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from ...dsl.device import Device, Instr
from ...dsl.index import Expr, Var, as_expr
from ...dsl.source import Span
from ...dsl.values import Load, Masked, Value, children
from ..tile import Buffer, Call, For, Launch, Let, Store, Units
from .access import Access, Turns, parts

_UNIFORM = -1  # the depth that something depends on which no unit's number enters

# What a statement accesses as it stands there: buffer, kind, coords, conds, flight (see `Access`).
_Part = tuple[str, str, tuple[Expr, ...], tuple[Expr, ...], str | None]


@dataclass(frozen=True)
class Scope:
    """Immutable; entering a statement gives a new one.

    lets     values of Lets over the variables that remain
    depth    for variables that depend on units: the depth of the innermost level that they depend on
    dealt    loop variables that deal out the units of a level, by the unit's variable (DEALT)
    conds    >= 0 here
    loops    those around here, outermost first
    control  the depth that the conditions and bounds around here depend on
    parting  the line of the condition or loop that made it that deep
    lockstep whether units in lockstep are what is to be ordered, instead of what lockstep orders
    """

    device: Device
    units: tuple[Units, ...]
    instrs: Mapping[str, Instr]
    buffers: Mapping[str, Buffer]
    lets: Mapping[Var, Expr]
    depth: Mapping[Var, int]
    dealt: Mapping[Var, Expr]
    conds: tuple[Expr, ...] = ()
    loops: tuple[Turns, ...] = ()
    control: int = _UNIFORM
    parting: Span | None = None
    lockstep: bool = False

    @staticmethod
    def of(
        launch: Launch,
        device: Device,
        instrs: tuple[Instr, ...],
        buffers: tuple[Buffer, ...],
        lockstep: bool = False,
        facts: tuple[Expr, ...] = (),
    ) -> Scope:
        depth = {u.var: device.depth(u.level) for u in launch.units}
        named = {b.name: b for b in buffers}
        conds = facts + tuple(c for u in launch.units for c in (as_expr(u.var), u.count - u.var - 1))
        scope = Scope(device, launch.units, {i.name: i for i in instrs}, named, {}, depth, {}, lockstep=lockstep)
        return scope._knowing(conds)

    def let(self, s: Let) -> Scope:
        value = self.plain(s.value)
        known = self if s.extent is None else self._knowing((value, self.plain(s.extent) - value - 1))
        return replace(known, lets={**self.lets, s.var: value})

    def holding(self, conds: tuple[Expr, ...], span: Span | None = None) -> Scope:
        plain = tuple(map(self.plain, conds))
        return self._knowing(plain)._under(max(map(self.depends, plain), default=_UNIFORM), span)

    def _under(self, depends: int, span: Span | None) -> Scope:
        """Where units come that do what `depends` on the units of a level tells them."""
        return replace(self, control=depends, parting=span or self.parting) if depends > self.control else self

    def _knowing(self, facts: Iterable[Expr]) -> Scope:
        new = dict.fromkeys(part for f in facts for part in parts(f))
        return replace(self, conds=tuple(dict.fromkeys((*self.conds, *new))))

    def failing(self, conds: tuple[Expr, ...], span: Span | None = None) -> Scope:
        """Where not all of the conds hold."""
        known = self.holding((-conds[0] - 1,)) if len(conds) == 1 else self
        held = self.holding(conds, span)
        return replace(known, control=held.control, parting=held.parting)

    def inside(self, s: For) -> Scope:
        start, stop, step = map(self.plain, (s.start, s.stop, s.step))
        depends = max(map(self.depends, (start, stop, step)))
        facts = [s.var - start, stop - 1 - s.var]
        if step.constant != 1:
            facts.append(-((s.var - start) % step))
        depth, dealt = dict(self.depth), dict(self.dealt)
        depth.pop(s.var, None)
        if depends != _UNIFORM:
            depth[s.var] = depends
        for u in self.units:
            if start == as_expr(u.var) and step == u.count:
                dealt[u.var] = as_expr(s.var)
        turns = Turns(s.var, step, depends)
        known = replace(self._knowing(facts), depth=depth, dealt=dealt, loops=(*self.loops, turns))
        return known._under(depends, s.span)

    def holding_buffer(self, buffer: Buffer) -> Scope:
        return replace(self, buffers={**self.buffers, buffer.name: buffer})

    def plain(self, e: Expr) -> Expr:
        return e.subs(self.lets)

    def depends(self, e: Expr) -> int:
        """The depth of the innermost level whose units' numbers enter `e`."""
        return max((self.depth.get(v, _UNIFORM) for v in e.variables()), default=_UNIFORM)

    def barrier_level(self, buffer: Buffer) -> str | None:
        """The level whose barrier orders accesses of `buffer`; None where lockstep does, or where units do not share it.

        Below units that cannot synchronise (blocks), only those below one of them can be ordered.
        """
        level = buffer.level
        if self.lockstep:
            group = self._group()
            shared = group is not None and self.device.depth(level) <= self.device.depth(group)
            return group if group is not None and shared and self.sharers(group) else None
        for u in self._below(buffer.level):
            if self.device.level(u.level).siblings == "nothing":
                level = u.level
        return level if self.sharers(level) else None

    def sharers(self, level: str) -> tuple[Units, ...]:
        """The units below one unit of `level`, without levels of one unit and without the inner ones that need no barrier."""
        below = [u for u in self._below(level) if u.count.constant != 1]
        while not self.lockstep and below and self.device.level(below[-1].level).siblings == "lockstep":
            below.pop()
        return tuple(below)

    def _group(self) -> str | None:
        """The level whose units are each one lockstep group."""
        for outer, inner in reversed(list(pairwise(self.device.levels))):
            if inner.siblings == "lockstep" and outer.siblings != "lockstep":
                return outer.name
        return None

    def _below(self, level: str) -> list[Units]:
        depth = self.device.depth(level)
        return [u for u in self.units if self.device.depth(u.level) > depth]

    # ------------------------------------------------------------ accesses

    def accesses(self, s: Store | Call, of: frozenset[str]) -> list[Access]:
        """Accesses of those buffers, as far as a barrier could order them: reads first, each once."""
        once = dict.fromkeys(x for x in self._accesses(s) if x[0] in of)
        return [a for x in once for a in self._access(s, *x)]

    def _accesses(self, s: Store | Call) -> list[_Part]:
        if isinstance(s, Store):
            kind = "write" if s.atomic is None else "combine"
            return [*self._reads(s.value, ()), (s.buffer, kind, s.coords, (), None)]
        instr = self.instrs[s.instr]
        flight = instr.awaits[0] if instr.awaits else None
        reads: list[_Part] = []
        writes: list[_Part] = []
        for number, (operand, piece) in enumerate(zip(instr.operands, s.pieces, strict=True)):
            coords = piece.coords
            if coords and piece.extent > 1:
                coords = (*coords[:-1], coords[-1] + Var(f"$r{number}", 0, piece.extent - 1))
                coords = _in_rows(coords, self.buffers.get(piece.buffer), piece.extent)
            if operand.role != "output":
                reads.append((piece.buffer, "read", coords, (), flight))
            if operand.role != "input":
                writes.append((piece.buffer, "write", coords, (), flight))
        return reads + writes

    def _reads(self, v: Value, conds: tuple[Expr, ...]) -> Iterator[_Part]:
        match v:
            case Load():
                yield v.tensor, "read", v.indices, conds, None
            case Masked():
                yield from self._reads(v.value, conds + v.conds)
                yield from self._reads(v.otherwise, conds)
                return
        for kid in children(v):
            yield from self._reads(kid, conds)

    def _access(
        self, s: Store | Call, name: str, kind: str, coords: tuple[Expr, ...], conds: tuple[Expr, ...], flight: str | None
    ) -> Iterator[Access]:
        level = self.barrier_level(self.buffers[name]) if name in self.buffers else None
        if level is None:
            return
        inner = self.device.depth(level)
        plain = tuple(map(self.plain, coords))
        owners = tuple((as_expr(u.var), self.dealt.get(u.var)) for u in self.sharers(level))
        numbers = tuple(e for pair in owners for e in pair if e is not None)
        facts = _relevant((*plain, *numbers), self._knowing(map(self.plain, conds)).conds if conds else self.conds)
        variables = frozenset().union(*(e.variables() for e in (*plain, *facts, *numbers)))
        varying = frozenset(v for v in variables if self.depth.get(v, _UNIFORM) > inner or v.name.startswith("$"))
        yield Access(name, level, inner, kind, plain, facts, varying, owners, self.loops, s, flight)


def _in_rows(coords: tuple[Expr, ...], buffer: Buffer | None, extent: int) -> tuple[Expr, ...]:
    """The coordinates of an element of a piece that may be longer than a row."""
    out, span = list(coords), 1
    for d in range(len(coords) - 1, 0, -1):
        row = buffer.shape[d].constant if buffer is not None else None
        if not row or extent <= (span := span * row):  # a row of no elements has no pieces
            break
        out[d - 1], out[d] = out[d - 1] + out[d] // row, out[d] % row
    return tuple(out)


def _relevant(about: tuple[Expr, ...], conds: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Conditions that touch the variables of `about`, directly or through each other; others only slow the proof."""
    reach = set().union(*(e.variables() for e in about))
    chosen: set[int] = set()
    grew = True
    while grew:
        grew = False
        for i, c in enumerate(conds):
            if i not in chosen and not reach.isdisjoint(c.variables()):
                chosen.add(i)
                reach |= c.variables()
                grew = True
    return tuple(conds[i] for i in sorted(chosen))
