"""What is known where a statement stands, while barriers are placed: variables, guards, buffers; and its accesses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from ...dsl.device import Device, Instr
from ...dsl.index import Expr, Var, as_expr
from ...dsl.values import Load, Masked, Value, children
from ..printer import show_statement
from ..tile import Buffer, Call, For, Launch, Let, Store, Units
from .access import Access

_UNIFORM = -1  # the depth that something depends on which no unit's number enters


@dataclass(frozen=True)
class Scope:
    """Immutable; entering a statement gives a new one.

    lets     values of Lets over the variables that remain
    depth    for variables that depend on units: the depth of the innermost level that they depend on
    dealt    loop variables that deal out the units of a level, by the unit's variable (DEALT)
    conds    >= 0 here
    control  the depth that the conditions and bounds around here depend on
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
    control: int = _UNIFORM
    lockstep: bool = False

    @cached_property
    def levels(self) -> tuple[tuple[str, str], ...]:
        """Which buffers there are, and whose."""
        return tuple((name, b.level) for name, b in self.buffers.items())

    @cached_property
    def key(self) -> tuple:
        """All that decides about a statement here, as a value that can be looked up."""
        maps = (tuple(m.items()) for m in (self.lets, self.depth, self.dealt))
        return self.levels, *maps, self.conds, self.control

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
        return Scope(device, launch.units, {i.name: i for i in instrs}, named, {}, depth, {}, conds, lockstep=lockstep)

    def let(self, s: Let) -> Scope:
        value = self.plain(s.value)
        facts = () if s.extent is None else (value, self.plain(s.extent) - value - 1)
        return replace(self, lets={**self.lets, s.var: value}, conds=self.conds + facts)

    def holding(self, conds: tuple[Expr, ...]) -> Scope:
        plain = tuple(map(self.plain, conds))
        return replace(self, conds=self.conds + plain, control=max(self.control, *map(self.depends, plain), _UNIFORM))

    def failing(self, conds: tuple[Expr, ...]) -> Scope:
        """Where not all of the conds hold."""
        known = self.holding((-conds[0] - 1,)) if len(conds) == 1 else self
        return replace(known, control=self.holding(conds).control)

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
        conds, control = self.conds + tuple(facts), max(self.control, depends)
        return replace(self, depth=depth, dealt=dealt, conds=conds, control=control)

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

    def accesses(self, s: Store | Call) -> list[Access]:
        """Accesses of buffers that a barrier could order, reads first."""
        text = show_statement(s)
        if isinstance(s, Store):
            found = list(self._reads(s.value, (), text))
            kind = "write" if s.atomic is None else "combine"
            return found + list(self._access(s.buffer, kind, s.coords, (), text))
        instr = self.instrs[s.instr]
        flight = instr.awaits[0] if instr.awaits else None
        reads, writes = [], []
        for number, (operand, piece) in enumerate(zip(instr.operands, s.pieces, strict=True)):
            coords = piece.coords
            if coords and piece.extent > 1:
                coords = (*coords[:-1], coords[-1] + Var(f"$r{number}", 0, piece.extent - 1))
            if operand.role != "output":
                reads += self._access(piece.buffer, "read", coords, (), text, flight)
            if operand.role != "input":
                writes += self._access(piece.buffer, "write", coords, (), text, flight)
        return reads + writes

    def _reads(self, v: Value, conds: tuple[Expr, ...], text: str) -> Iterator[Access]:
        match v:
            case Load():
                yield from self._access(v.tensor, "read", v.indices, conds, text)
            case Masked():
                yield from self._reads(v.value, conds + v.conds, text)
                yield from self._reads(v.otherwise, conds, text)
                return
        for kid in children(v):
            yield from self._reads(kid, conds, text)

    def _access(
        self, name: str, kind: str, coords: tuple[Expr, ...], conds: tuple[Expr, ...], text: str, flight: str | None = None
    ) -> Iterator[Access]:
        level = self.barrier_level(self.buffers[name]) if name in self.buffers else None
        if level is None:
            return
        inner = self.device.depth(level)
        plain = tuple(map(self.plain, coords))
        owners = tuple((as_expr(u.var), self.dealt.get(u.var)) for u in self.sharers(level))
        numbers = tuple(e for pair in owners for e in pair if e is not None)
        facts = _relevant((*plain, *numbers), self.conds + tuple(map(self.plain, conds)))
        variables = frozenset().union(*(e.variables() for e in (*plain, *facts, *numbers)))
        varying = frozenset(v for v in variables if self.depth.get(v, _UNIFORM) > inner or v.name.startswith("$"))
        yield Access(name, level, kind, plain, facts, varying, owners, flight, text)


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
