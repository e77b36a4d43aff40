"""The facts that hold at a statement while barriers are placed: variables, guards, buffers; and the statement's accesses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from ....dsl.device import Device, Instr
from ....dsl.index.expr import Expr, Var, as_expr
from ....dsl.source import Span
from ....dsl.support.fast_replace import replace
from ....dsl.values import Load, Masked, Value, children
from ...ir.tile_ir import Buffer, Call, For, Launch, Let, Store, Units, goes_on_in_next_row
from .access import AccessLoop, SharedAccess, condition_parts

_UNIFORM = -1  # depth: of an expression that contains no unit's number [fact: marker]

# What a statement accesses: buffer, kind, coords, conds, flight (see `Access`).
Part = tuple[str, str, tuple[Expr, ...], tuple[Expr, ...], str | None]


@dataclass(frozen=True)
class KnownFacts:
    """Immutable; entering a statement gives a new one.

    lets     values of Lets over the variables that remain
    depth    for variables that depend on units: the depth of the innermost level that they depend on
    distributed  loop variables that deal out the units of a level, by the unit's variable (DEALT)
    ordering what `barrier_level` was asked in the launch
    conds    >= 0 here, in order
    loops    those around here, outermost first
    control  the depth that the conditions and bounds around here depend on
    parting  the line of the condition or loop that made it that deep
    """

    device: Device
    units: tuple[Units, ...]
    instrs: Mapping[str, Instr]
    buffers: Mapping[str, Buffer]
    lets: Mapping[Var, Expr]
    depth: Mapping[Var, int]
    distributed: Mapping[Var, Expr]
    ordering: dict[tuple[str, bool], tuple[str | None, tuple[Units, ...]]]
    conds: Mapping[Expr, None] = field(default_factory=dict)
    loops: tuple[AccessLoop, ...] = ()
    control: int = _UNIFORM
    parting: Span | None = None

    @staticmethod
    def of(
        launch: Launch, device: Device, instrs: tuple[Instr, ...], buffers: tuple[Buffer, ...], facts: tuple[Expr, ...] = ()
    ) -> KnownFacts:
        depth = {u.var: device.depth(u.level) for u in launch.units}
        named = {b.name: b for b in buffers}
        conds = facts + tuple(c for u in launch.units for c in (as_expr(u.var), u.count - u.var - 1))
        scope = KnownFacts(device, launch.units, {i.name: i for i in instrs}, named, {}, depth, {}, {})
        return scope._knowing(conds)

    def let(self, s: Let) -> KnownFacts:
        value = self.plain(s.value)
        known = self if s.extent is None else self._knowing((value, self.plain(s.extent) - value - 1))
        return replace(known, lets={**self.lets, s.var: value})

    def choosing(self, conds: tuple[Expr, ...], span: Span | None) -> tuple[KnownFacts, KnownFacts]:
        """Where all of the conds hold, and where they do not."""
        plain = tuple(map(self.plain, conds))
        under = self._under(max(map(self.depends, plain), default=_UNIFORM), span)
        failing = under._knowing((-plain[0] - 1,)) if len(plain) == 1 else under
        return under._knowing(plain), failing

    def _under(self, depends: int, span: Span | None) -> KnownFacts:
        """Where units come that do what `depends` on the units of a level tells them."""
        return replace(self, control=depends, parting=span or self.parting) if depends > self.control else self

    def _knowing(self, facts: Iterable[Expr]) -> KnownFacts:
        new = [part for f in facts for part in condition_parts(f)]
        return replace(self, conds={**self.conds, **dict.fromkeys(new)}) if new else self

    def inside(self, s: For) -> KnownFacts:
        start, stop, step = map(self.plain, (s.start, s.stop, s.step))
        depends = max(map(self.depends, (start, stop, step)))
        facts = [s.var - start, stop - 1 - s.var]
        if step.constant != 1:
            facts.append(-((s.var - start) % step))
        depth, dealt = dict(self.depth), dict(self.distributed)
        depth.pop(s.var, None)
        if depends != _UNIFORM:
            depth[s.var] = depends
        for u in self.units:
            if start == as_expr(u.var) and step == u.count:
                dealt[u.var] = as_expr(s.var)
        turns = AccessLoop(s.var, step, depends)
        known = replace(self._knowing(facts), depth=depth, distributed=dealt, loops=(*self.loops, turns))
        return known._under(depends, s.span)

    def holding_buffer(self, buffer: Buffer) -> KnownFacts:
        return replace(self, buffers={**self.buffers, buffer.name: buffer})

    def plain(self, e: Expr) -> Expr:
        return e.subs(self.lets)

    def depends(self, e: Expr) -> int:
        """The depth of the innermost level whose units' numbers enter `e`."""
        return max((self.depth.get(v, _UNIFORM) for v in e.variables()), default=_UNIFORM)

    def barrier_level(self, owner: str, lockstep: bool) -> tuple[str | None, tuple[Units, ...]]:
        """The level whose barrier orders accesses of a buffer that `owner`'s units own, and the units that share it (see
        `_sharers`); None where lockstep orders them, or where units do not share it.

        Below units that cannot synchronise (blocks), only those below one of them can be ordered.
        `lockstep`: units in lockstep are what is to be ordered, instead of what lockstep orders.
        """
        if (owner, lockstep) not in self.ordering:
            self.ordering[owner, lockstep] = self._barrier_level(owner, lockstep)
        return self.ordering[owner, lockstep]

    def _barrier_level(self, level: str, lockstep: bool) -> tuple[str | None, tuple[Units, ...]]:
        if lockstep:
            group = self._group()
            if group is None or self.device.depth(level) > self.device.depth(group):
                return None, ()
            level = group
        else:
            several = False
            units = {u.level: u for u in self.units}
            for x in self.device.levels[self.device.depth(level) + 1 :]:
                # a launch that says nothing of a level has one unit of it
                if x.siblings == "nothing" and (x.name in units or not several):
                    level = x.name
                several = several or (x.name in units and units[x.name].count.constant != 1)
        sharers = self._sharers(level, lockstep)
        return (level, sharers) if sharers else (None, ())

    def _sharers(self, level: str, lockstep: bool) -> tuple[Units, ...]:
        """The units below one unit of `level`, without levels of one unit and without the inner ones that need no barrier."""
        below = [u for u in self._below(level) if u.count.constant != 1]
        while not lockstep and below and self.device.level(below[-1].level).siblings == "lockstep":
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

    def parts(self, s: Store | Call, of: frozenset[str]) -> tuple[Part, ...]:
        """What the statement accesses of those buffers, as far as units share them: reads first, each once."""
        once = dict.fromkeys(x for x in self._parts(s) if x[0] in of and self.shared(x[0]))
        return tuple(
            (name, kind, tuple(map(self.plain, coords)), tuple(map(self.plain, conds)), flight)
            for name, kind, coords, conds, flight in once
        )

    def shared(self, name: str) -> bool:
        return name in self.buffers and self.shares(self.buffers[name])

    def shares(self, buffer: Buffer) -> bool:
        """Whether several units have the same instance of the buffer."""
        return any(u.count.constant != 1 for u in self._below(buffer.level))

    def _parts(self, s: Store | Call) -> list[Part]:
        if isinstance(s, Store):
            kind = "write" if s.atomic is None else "combine"
            return [*self._reads(s.value, ()), (s.buffer, kind, s.coords, (), None)]
        instr = self.instrs[s.instr]
        flight = instr.awaits[0] if instr.awaits else None
        reads: list[Part] = []
        writes: list[Part] = []
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

    def _reads(self, v: Value, conds: tuple[Expr, ...]) -> Iterator[Part]:
        match v:
            case Load():
                yield v.tensor, "read", v.indices, conds, None
            case Masked():
                yield from self._reads(v.value, conds + v.conds)
                yield from self._reads(v.otherwise, conds)
                return
        for kid in children(v):
            yield from self._reads(kid, conds)

    def accesses(self, s: Store | Call, parts: tuple[Part, ...], lockstep: bool) -> tuple[SharedAccess, ...]:
        """As far as a barrier could order them, see `barrier_level`."""
        return tuple(a for x in parts if (a := self._access(s, *x, lockstep)) is not None)

    def _access(
        self,
        s: Store | Call,
        name: str,
        kind: str,
        coords: tuple[Expr, ...],
        conds: tuple[Expr, ...],
        flight: str | None,
        lockstep: bool,
    ) -> SharedAccess | None:
        level, sharers = self.barrier_level(self.buffers[name].level, lockstep)
        if level is None:
            return None
        inner = self.device.depth(level)
        owners = tuple([(as_expr(u.var), self.distributed.get(u.var)) for u in sharers])
        numbers = [e for pair in owners for e in pair if e is not None]
        facts = _relevant((*coords, *numbers), self._knowing(conds).conds)
        variables = frozenset().union(*[e.variables() for e in (*coords, *facts, *numbers)])
        deeper = {v for v, depth in self.depth.items() if depth > inner}
        varying = frozenset([v for v in variables if v in deeper or v.name[0] == "$"])
        return SharedAccess(name, level, inner, kind, coords, facts, varying, owners, self.loops, s, flight)


def _in_rows(coords: tuple[Expr, ...], buffer: Buffer | None, extent: int) -> tuple[Expr, ...]:
    """The coordinates of an element of a piece that may go on in the next row."""
    out, span = list(coords), 1
    for d in range(len(coords) - 1, 0, -1):
        row = buffer.shape[d] if buffer is not None else as_expr(0)
        span *= extent if row.constant is None else row.constant
        if row.constant == 0 or (extent <= span and not goes_on_in_next_row(coords, d, row)):
            break  # a row of no elements has no pieces
        out[d - 1], out[d] = out[d - 1] + out[d] // row, out[d] % row
    return tuple(out)


def _relevant(about: tuple[Expr, ...], conds: Iterable[Expr]) -> tuple[Expr, ...]:
    """Conditions that touch the variables of `about`, directly or through each other; others only slow the proof."""
    reach = set().union(*[e.variables() for e in about])
    left = [(c, c.variables()) for c in conds]
    some = left
    while some:
        some = [names for _, names in left if not reach.issuperset(names) and not reach.isdisjoint(names)]
        reach.update(*some)
    return tuple([c for c, names in left if not reach.isdisjoint(names)])
