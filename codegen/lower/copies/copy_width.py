"""The number of contiguous elements that a unit copies at once, through registers or by an instruction that the line names.

ALIGNED     a run is as long as a load of the device, at addresses that are provably aligned for it, or are so for sizes that
            the vector pass may require of a call. Otherwise neighbouring units would read elements that are not contiguous.
WORTH       the run with the fewest memory instructions a unit and bank cycles is chosen. Elements that a layout transposes are
            stored one by one whatever the run is, a pad may make stores narrower than loads, and a small tile has too few runs
            for its units.
UNALIGNED   a call with other sizes has a program of its own, in which neighbouring units take neighbouring elements.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

import numpy as np

from ....dsl.device import Instr
from ....dsl.errors import did_you_mean
from ....dsl.errors.schedule import InstrMismatch, UnknownInstr
from ....dsl.index.expr import Expr, Var
from ....dsl.layout import Layout
from ....dsl.support.cached import cached_property
from ....dsl.support.fast_replace import replace
from ....dsl.values import loads
from ...analysis.bank_conflicts import access_cycles
from ...analysis.divisibility import KnownMultiples, Needs, divisor, required_divisors
from ...analysis.loop_nest import first_and_step, linear_address
from ...analysis.vector_instrs import VectorInstr, vector_instrs
from ...ir.schedule_tree import Axis, Fuse, Leaf, Move, Node, Tile, chain
from ...ir.tile_ir import Buffer
from ...plan.computations import Computation
from ..addressing import coordinates
from ..lowering_context import LoweringContext
from ..spec import Focus

Axes = list[tuple[str, int]]


def elements_per_unit(ctx: LoweringContext, focus: Focus, axes: Axes, fastest: str, layout: Layout, memory: str) -> int:
    """Elements along `fastest` that an innermost unit copies at once, all axes being dealt as one index that ends with it.

    `focus`: of the copy, its ranges at their beginnings; `layout`: of the tile in `memory`.
    """
    if not prod(e for _, e in axes):
        return 1
    source = CopySource(ctx, focus, tuple(axes), fastest)
    target = CopyTarget(ctx, focus, tuple(axes), fastest, layout, memory)
    return min((1, *source.runs), key=lambda n: (target.cost(n, len(source.reads)), n))


def elementwise_tree(ctx: LoweringContext, focus: Focus, axes: Axes, block: Node) -> Node | None:
    """The tree of a copy for calls that are not aligned for its runs (UNALIGNED); None where all are."""
    match list(block.path()):
        case [Tile(axes=(_, _, *_)) as tile, Move(block=None), Leaf(instr=None) as leaf] if tile.level == ctx.innermost:
            return _elementwise_rectangle(ctx, focus, axes, tile, leaf)
        case [*fuses, Tile(axes=(tiled,), level=level) as tile, Leaf(instr=None) as leaf] if level == ctx.innermost:
            pass
        case _:
            return None
    index = tiled.index
    match fuses:
        case []:
            pass
        case [Fuse(indices=indices, name=name)] if name == index:
            index = indices[-1]
        case _:
            return None
    plain = tile.is_plain and tiled.every is None and index in dict(axes) and prod(e for _, e in axes)
    if leaf.is_implied or tiled.size < 2 or not plain or not CopySource(ctx, focus, tuple(axes), index).asks(tiled.size):
        return None
    single = tile.but(axes=(Axis(tiled.index, 1),))
    return chain(*(x for x in fuses if isinstance(x, Fuse)), single, below=leaf)


def _elementwise_rectangle(ctx: LoweringContext, focus: Focus, axes: Axes, tile: Tile, leaf: Leaf) -> Node | None:
    """Instead of rectangles that units turn (`turned_copy`)."""
    extents = dict(axes)
    plain = tile.is_plain and all(a.every is None and a.index in extents for a in tile.axes) and prod(extents.values())
    if leaf.is_implied or not plain:
        return None
    wide = [a for a in tile.axes if a.size > 1]
    read = next((a for a in wide if CopySource(ctx, focus, tuple(axes), a.index).asks(a.size)), None)
    if read is None:
        return None
    order = [*(a for a in tile.axes if a is not read), read]
    return chain(tile.but(axes=tuple(Axis(a.index, 1) for a in order)), below=leaf)


# ---------------------------------------------------------------- where it is read


@dataclass(frozen=True)
class CopySource:
    """What a copy reads. `axes`: with their extents; `fastest`: along which it has its neighbours."""

    ctx: LoweringContext
    focus: Focus
    axes: tuple[tuple[str, int], ...]
    fastest: str

    @cached_property
    def reads(self) -> tuple[tuple[Buffer, Expr], ...]:
        """What memory is read for an element, and the address there, the axes being variables."""
        (computation,) = self.focus.computations
        ranges = {i: replace(r, base=r.base + Var(i, 0, n - 1)) for i, n in self.axes if (r := self.focus.ranges.get(i))}
        at = replace(self.focus, ranges={**self.focus.ranges, **ranges})
        buffers = {b.name: b for b in self.ctx.buffers}
        found = []
        for load in dict.fromkeys(loads(computation.value)):
            view = at.views[load.tensor]
            if view.form != "path":
                buffer = buffers[view.buffer]
                found.append((buffer, linear_address(buffer, coordinates(self.ctx, at, load.tensor, load.indices))))
        return tuple(found)

    @cached_property
    def runs(self) -> tuple[int, ...]:
        """ALIGNED"""
        counts = {m.count for b, _ in self.reads for m in self._loads(b)} - {1}
        whole = [n for n in sorted(counts) if dict(self.axes)[self.fastest] % n == 0]
        return tuple(n for n in whole if all(self._at_once(b, e, n) for b, e in self.reads))

    def asks(self, n: int) -> bool:
        """Whether runs of `n` are read by wider loads for some sizes only."""
        if dict(self.axes)[self.fastest] % n:
            return False
        return any(self._needs(b, e, n, m) for b, e in self.reads for m in self._loads(b) if m.count > 1 and n % m.count == 0)

    def _loads(self, buffer: Buffer) -> tuple[VectorInstr, ...]:
        members = vector_instrs(self.ctx.device)
        return members.fitting("load", buffer.memory, members.register, buffer.dtype)

    def _at_once(self, buffer: Buffer, address: Expr, n: int) -> bool:
        found = run_along(self.axes, self.fastest, address, n)
        again = found is not None and found[1] == 0
        return again or any(self._needs(buffer, address, n, m) is not None for m in self._loads(buffer) if m.count == n)

    def _needs(self, buffer: Buffer, address: Expr, n: int, by: VectorInstr) -> Needs | None:
        """What sizes must be divisible by, for a run of `n` to be read `by` that; None: it does not lie so."""
        found = run_along(self.axes, self.fastest, address, n)
        return (
            required_divisors(found[0], max(1, by.align // buffer.dtype.bytes), _known(self.ctx))
            if found and found[1] == 1
            else None
        )


def run_along(axes: tuple[tuple[str, int], ...], fastest: str, address: Expr, n: int) -> tuple[Expr, int] | None:
    """The address where a run of `n` along an axis begins, and the step from one to the next; None where that differs."""
    extent = dict(axes)[fastest]
    return first_and_step(address, Var(fastest, 0, extent - 1), Var(f"{fastest}'", 0, extent // n - 1) * n, n)


def _known(ctx: LoweringContext) -> KnownMultiples:
    lets = dict(ctx.derived)
    sizes = {v for shape in ctx.shapes.values() for e in shape for v in e.variables()}
    return KnownMultiples(frozenset(sizes | lets.keys()), lets, {})


# ---------------------------------------------------------------- where it is written


@dataclass(frozen=True)
class CopyTarget:
    """Where a copy is written: the `layout` of its tile in `memory`."""

    ctx: LoweringContext
    focus: Focus
    axes: tuple[tuple[str, int], ...]
    fastest: str
    layout: Layout
    memory: str

    def cost(self, n: int, reads: int) -> int:
        """WORTH: of a unit that has most to do, `reads` loads for a run."""
        total = prod(e for _, e in self.axes)
        width = self.stored(n, self.fastest)
        return -(-total // (n * self.units)) * (reads + n // width + self._turns(n, width))

    @cached_property
    def units(self) -> int:
        """The units that share the copy."""
        return self.ctx.number(self.ctx.below(self.focus.level, self.ctx.innermost))[1] or 1

    @cached_property
    def size(self) -> int:
        """Bytes of an element."""
        return self.ctx.dtypes[self.focus.computations[0].name].bytes

    @cached_property
    def address(self) -> Expr:
        return self.layout.address({a: Var(a, 0, e - 1) for a, e in self.axes})

    def stored(self, n: int, axis: str) -> int:
        """Elements of the widest store that a run along an axis takes."""
        members, dtype = vector_instrs(self.ctx.device), self.ctx.dtypes[self.focus.computations[0].name]
        for m in members.fitting("store", members.register, self.memory, dtype):
            if n % m.count or m.count < 2:
                continue
            found = run_along(self.axes, axis, self.address, m.count)
            if found and found[1] == 1 and divisor(found[0], _known(self.ctx)) * self.size % m.align == 0:
                return m.count
        return 1

    def bank_cycles(self, stores: Iterable[np.ndarray], width: int) -> int:
        """Cycles of the banks for stores of `width` elements, each at the addresses of the units that an instruction drives."""
        banks = self.ctx.device.memory(self.memory).banks
        return sum(access_cycles(at * self.size, width * self.size, banks) for at in stores) if banks is not None else 0

    def _turns(self, n: int, width: int) -> int:
        """Turns of the banks for a run of each unit that an instruction drives, `width` elements a store."""
        lanes = self.ctx.device.levels[-1].width or 1
        extents = dict(self.axes)
        order = [*(a for a in extents if a != self.fastest), self.fastest]
        count = min(prod(extents.values()), lanes * n)
        at = np.unravel_index(np.arange(count), [extents[a] for a in order])
        found = self.address.evaluate(dict(zip(order, at, strict=True)))
        address = np.broadcast_to(found, count).reshape(-1, n)
        return self.bank_cycles((address[:, i] for i in range(0, n, width)), width)


# ---------------------------------------------------------------- by an instruction that the line names


def copy_instr(
    ctx: LoweringContext, move: Move, computation: Computation, axes: Axes, fastest: str, layout: Layout
) -> tuple[Instr, int] | None:
    """The copy instruction that the line names, the widest of a family, and the elements that one call moves.

    Raises UnknownInstr, and InstrMismatch for a copy that no member can make (HONOURED).
    """
    name = move.instr
    if name is None:
        return None
    known = ctx.device.instrs_named(name)
    if not known:
        names = {n for i in ctx.device.instrs for n in (i.name, i.family) if n}
        message = f"`{ctx.device.name}` has no instruction `{name}`"
        raise UnknownInstr(message, move.span, help=did_you_mean(name, names))
    dtype = computation.value.dtype
    plain = [i for i in known if len(i.statement.ranges) == 1 and not i.accumulate]
    typed = [(i, i.statement.ranges[0][1].constant or 1) for i in plain if all(o.dtype == dtype for o in i.operands)]
    widest = sorted(typed, key=lambda x: -x[1])
    found = next((x for x in widest if not _why_not(ctx, *x, axes, fastest, layout)), None)
    if found is None:
        why = _why_not(ctx, *typed[0], axes, fastest, layout) if typed else f"it is not for {dtype}"
        raise InstrMismatch(
            f"`{name}` cannot copy `{move.tensor}`: {why}",
            move.span,
            help="leave `with` out, or change the tile or its layout",
        )
    return found


def _why_not(ctx: LoweringContext, instr: Instr, n: int, axes: Axes, fastest: str, layout: Layout) -> str:
    """Why the instruction cannot make the copy, n elements a call; empty if it can."""
    extents = dict(axes)
    total = prod(extents.values())
    source = next(o for o in instr.operands if o.name != instr.statement.target)
    run = source.registers
    if extents[fastest] % run:
        return f"it takes {run} neighbours at once, and there are {extents[fastest]} of `{fastest}`"
    if total % n:
        return f"it takes {n} elements, and the tile has {total}"
    order = [(a, e) for a, e in axes if a != fastest] + [(fastest, extents[fastest])]
    at = np.unravel_index(np.arange(total), [e for _, e in order])
    values = {a: Var(a, 0, e - 1) for a, e in order}
    address = np.broadcast_to(layout.address(values).evaluate({a: x for (a, _), x in zip(order, at, strict=True)}), total)
    if (np.diff(address.reshape(-1, n), axis=1) != 1).any():
        return f"it writes {n} elements one after another, and the tile's do not lie so"
    if instr.level != ctx.innermost and instr.level not in ctx.units:
        return f"a {instr.level} executes it, and there are none here"
    return ""
