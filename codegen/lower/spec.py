"""The spec: what is left to compute, its ranges, its level, and the memory of each tensor. Schedule lines rewrite it.

A `Range` is the part of an index in focus: `base` (a logical coordinate), `size` (its capacity), and `bounds` (live extents).
The live extent is min(size, *bounds). `tile i: s` adds a variable v: base gains v*s, and every bound, and the parent's size,
becomes `b - v*s`; a bound that can never be less than s is dropped. That one rule gives all guards, tiles that do not nest,
and specialisation (see Fireiron, PACT 2020, for the refinement; the rule is ours).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...dsl.index.expr import Expr, Var, as_expr, ceildiv, minimum
from ...dsl.layout import Layout
from ...dsl.support.cached import cached_property
from ...dsl.support.fast_replace import replace
from ...dsl.values import Value
from ..ir.schedule_tree import Keep, Node, Tile
from ..plan.computations import Computation, Fused

if TYPE_CHECKING:
    from .leaves.match_instr import FragmentMap

ZERO = as_expr(0)
ONE = as_expr(1)


@dataclass(frozen=True)
class RangeStep:
    """One step of the path from the whole range to an element: coordinate += stride * expr, 0 <= expr < extent.

    `unit`: the level whose units the step was dealt to (None: loops, one after another); `digit`: which unit has which, as
    lines on units say it. `stride` is known once a range was split.
    """

    expr: Expr
    extent: Expr
    unit: str | None
    digit: tuple[object, ...] = ()
    stride: int = 0


def or_state_bound(extent: Expr) -> str:
    """A way out for who needs an extent to have a bound."""
    open_sizes = sorted(v.name for v in extent.variables() if v.hi is None)
    return f", or state a bound: `where {open_sizes[0]} <= 4096`" if open_sizes else ""


@dataclass(frozen=True)
class StridedRun:
    """Chunks of a strided tile that are still to be visited: `count` of them, `stride` apart."""

    count: int
    stride: int


@dataclass(frozen=True)
class Range:
    base: Expr
    size: Expr
    bounds: tuple[Expr, ...] = ()
    strided_runs: tuple[StridedRun, ...] = ()
    steps: tuple[RangeStep, ...] = ()

    @property
    def live(self) -> Expr:
        """The extent that really is there, given the variables (at least 0 only where a loop guarantees it)."""
        return minimum(self.size, *self.bounds) if self.bounds else self.size

    @property
    def capacity(self) -> int | None:
        """The largest extent, when it is known."""
        if self.size.constant is not None:
            return self.size.constant
        return self.size.interval[1]

    @property
    def whole_capacity(self) -> int | None:
        """Capacity counting pending repetitions."""
        cap = self.capacity
        if cap is None:
            return None
        for rep in self.strided_runs:
            cap += (rep.count - 1) * rep.stride
        return cap

    def trips(self, size: int) -> Expr:
        """How many tiles of `size` the live extent needs."""
        return ceildiv(self.live, size)

    def whole_trips(self, size: int) -> Expr:
        """How many the capacity needs, at least one."""
        capacity = self.capacity
        assert capacity is not None
        return as_expr(max(1, -(-capacity // size)))

    def split(self, size: int, step: RangeStep, live: bool = False) -> Range:
        """The tile number `step.expr`: the rewriting rule above.

        `live`: step.expr < ceil(live / size) is known; then a bound that is a multiple of `size` leaves no partial tile, and
        with size 1 none does.
        """
        offset = step.expr * size
        left = [b for b in (*self.bounds, self.size) if not (live and b.is_multiple_of(size))]
        if offset.constant == 0:  # as where tiles are only counted
            base = self.base
        else:
            base, left = self.base + offset, [b - offset for b in left]
        bounds = tuple(dict.fromkeys(b for b in left if not b.at_least(size)))
        return Range(base, as_expr(size), bounds, self.strided_runs, (*self.steps, replace(step, stride=size)))

    def split_strided(self, size: int, every: int, step: RangeStep) -> Range:
        """Chunk `step.expr` of `size` within each run of `every`; the runs become pending repetitions."""
        whole = self.capacity
        assert whole is not None
        offset = step.expr * size
        count = max(1, -(-whole // every))  # an extent of 0 has guards as others have, and no run that passes them
        bounds = tuple(b - offset for b in (*self.bounds, self.size))
        bounds = tuple(dict.fromkeys(b for b in bounds if not b.at_least((count - 1) * every + size)))
        reps = (*self.strided_runs, StridedRun(count, every)) if count > 1 else self.strided_runs
        steps = (*self.steps, replace(step, stride=size))
        return Range(self.base + offset, as_expr(size), bounds, reps, steps)

    def open_strided_run(self, step: RangeStep) -> Range:
        """One chunk of the outermost pending repetition."""
        rep, rest = self.strided_runs[0], self.strided_runs[1:]
        offset = step.expr * rep.stride
        need = sum((r.count - 1) * r.stride for r in rest) + (self.capacity or 0)
        bounds = tuple(b - offset for b in self.bounds)
        bounds = tuple(b for b in bounds if not b.at_least(need))
        return Range(self.base + offset, self.size, bounds, rest, (*self.steps, replace(step, stride=rep.stride)))


def clamped(r: Range, size: int) -> int:
    """A tile is no larger than what there can be of the range, as buffers and footprints count it."""
    c = r.capacity
    return max(1, min(size, c)) if c is not None and not r.strided_runs else size


@dataclass(frozen=True)
class View:
    """Where the newest copy of a tensor is, and how its buffer's coordinates follow.

    form     global    the coordinates are the tensor's subscripts
             box       subscripts - origin, through the layout
             indices   the focus's indices - origin (a view over indices: im2col), through the layout
             path      registers: the steps of each index since the focus the buffer was made in; `joint`: then the
                       fragment's register number
    axes     box: names of the layout's axes; indices, path: the indices, in order
    owner    path: the tree by which its elements are visited, so that every nest agrees on who holds what
    """

    buffer: str
    form: str
    axes: tuple[str, ...] = ()
    origin: tuple[Expr, ...] = ()
    layout: Layout | None = None
    depth: tuple[int, ...] = ()
    owner: Node | None = None
    zero_padded: bool = True  # zero, or masked to zero, outside the live ranges; not so for what is computed
    # a staged copy: how far each index was live where it was made, which the copy has filled; None: not told
    filled_extents: frozenset[tuple[str, Expr]] | None = None
    fully_written: frozenset[str] = frozenset()  # a staged copy: indices along which all that it spans was written
    computed: bool = False  # made here of other tensors, not copied: what an access outside of it is instead, its readers say
    stored_value: Value | None = None  # path: what owners store of it where it leaves registers for a memory; None: itself
    keep: Keep | None = None  # the line of what is pointwise and computed by the lines below: a `move` would fill its edges

    def is_written_beyond(self, index: str, r: Range) -> bool:
        """Did the copy write what it spans of an index also where `r`, what a line below has of it, runs over?"""
        ends = frozenset((index, r.base + b) for b in r.bounds)
        return index in self.fully_written and self.filled_extents is not None and ends <= self.filled_extents


@dataclass(frozen=True)
class UnitDigit:
    """Part of a unit's number that counts the tiles of `index`: `number // stride % extent` over the units of `levels`.

    `index` empty: units told apart whose parts of a reduction all count (atomic combination).
    `also`: the index of the tiles, where `index` is empty or names the parts of a reduction that a later launch combines.
    `nested`: units that only lines below tell apart have the same tile.
    """

    index: str
    levels: tuple[str, ...]
    expr: Expr
    stride: Expr
    extent: Expr
    also: str = ""
    nested: bool = True


@dataclass(frozen=True)
class TileLoop:
    """A loop over tiles of `index`; `var` None where there is one tile at most. `also`: whose ranges it changes, too."""

    index: str
    var: Var | None
    tile: Tile
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Focus:
    """The computations that remain, their ranges, where tensors live, the level that executes.

    `parent`     the level that the tiles onto `level` started from
    `digits`     unit digits bound so far;  `bound` the levels whose units are told apart by them
    `tile_loops` loops of tiles one after another, outermost first; those around a copy are not around the lines of its block
    `loops`      reduction loops opened above the accumulator: (index, variable, trips)
    `open_accumulators` name of a computation whose accumulator is open -> number of digits at its opening
    `current_tile` the number of the tile that a unit of a finite level has in hand, and the keys of the nodes that it counts
    `element`    the fragment's register coordinate and how many there are, inside a leaf
    `fragment`   the fragment itself
    `remainders` how many loops over what `peel` left are around here
    """

    computations: tuple[Computation, ...]
    ranges: dict[str, Range]
    level: str
    parent: str
    views: dict[str, View]
    digits: tuple[UnitDigit, ...] = ()
    loops: tuple[tuple[str, Var, Expr], ...] = ()
    open_accumulators: dict[str, int] = field(default_factory=dict)
    element: tuple[Expr, int] | None = None
    fragment: FragmentMap | None = None
    current_tile: tuple[Expr, frozenset[object]] | None = None
    tile_loops: tuple[TileLoop, ...] = ()
    remainders: int = 0

    @cached_property
    def binding(self) -> dict[Var, Expr]:
        """Index variables -> the logical coordinate of the focus's element; components of a fused index are its digits."""
        out = {Var(i): r.base for i, r in self.ranges.items()}
        for w in self.computations:
            for name, parts in reversed(w.fused):
                rest = self.ranges[name].base if name in self.ranges else out.get(Var(name))
                if rest is None:
                    continue
                for n, (component, extent, base) in enumerate(reversed(parts)):
                    last = n == len(parts) - 1
                    extent = extent if extent.constant != 0 else as_expr(1)  # nothing to do then, and nothing to divide by
                    out[Var(component)] = base + (rest if last else rest % extent)
                    rest = rest if last else rest // extent
        return out

    @cached_property
    def fused(self) -> Fused:
        """The fused indices of all computations in focus, each before those that fuse it further."""
        return tuple(dict.fromkeys(x for w in self.computations for x in w.fused))

    @cached_property
    def aliases(self) -> dict[str, str]:
        """Component -> fused index, of the computations in focus."""
        return {c: name for w in self.computations for c, name in w.alias.items()}

    def with_range(self, index: str, r: Range) -> Focus:
        return replace(self, ranges={**self.ranges, index: r})

    def enter_loop(self, index: str, var: Var | None, tile: Tile) -> Focus:
        """Inside a loop over tiles (`TileLoop`)."""
        return replace(self, tile_loops=(*self.tile_loops, TileLoop(index, var, tile)))

    def with_view(self, tensor: str, view: View) -> Focus:
        return replace(self, views={**self.views, tensor: view})
