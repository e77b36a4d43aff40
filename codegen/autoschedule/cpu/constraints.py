"""Schedules for CPUs that the author wrote in part: those lines stay, and candidates fill in the others.

    tile m: 48 -> core                tile m: 48 -> core
    auto                    -->       tile n: 128 -> core
    compute with fma                  tile k: 256;  tile n: 16;  tile m: 6;  keep C in register;  tile k: 1 unroll 4
                                      compute with fma

SLOTS     Each line of a candidate is a slot. All placements of the author's lines are tried (`autoschedule.constraints`).
ALONE     A copy, or a loop of a known size, may stand where the candidate has none like it.
FITTED    The author's numbers stay. A candidate's number around one becomes a multiple of it, and one inside it is at most as
          large. A tile as large as the range that it cuts is left out.
HOLES     What `auto` will be in a block of the author's is chosen later, and not in the price. Nor is a tile of such a size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from math import inf
from operator import attrgetter, is_
from typing import NamedTuple

from ....dsl import syntax
from ....dsl.device import Device
from ....dsl.support.fast_replace import replace
from ....dsl.values import loads
from ...lower.lowering_context import LoweringContext
from ...plan.computations import Computation, computation_extents
from ...schedule.build_tree import constant_size
from ...schedule.candidate import Candidate, Cost, Description, Lines
from ..constraints import Named, PlacedLine, Placement, Slot, merged_lines, placements, slots_of_lines
from ..line_builders import resize_panels, without_auto
from .matmul import blockings, lines_of, sample_problem
from .nest_space import describe_tiles, nest_schedules
from .price_lines import price_lines


def constrained_candidates(
    ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines, rule: Lines, most: int | None = None
) -> list[Candidate]:
    """Completions of the author's lines, the best first; empty if no candidate has a place for each of them.

    rule   the nest of a few rules for an author without lines (`autoschedule.complete.rule_lines`)
    most   how many are enough: others may be left out
    """
    for nests, price in _unconstrained(ctx, computations, rule):
        ways = sorted(_completions(ctx.device, nests, lines), key=attrgetter("foreign"))
        seen: dict[Lines, Cost] = {}
        found: list[Candidate] = []
        for _, alike in groupby(ways, key=attrgetter("foreign")):
            fitted = dict.fromkeys(x.fitted(ctx.device) for x in alike)
            new = {x: price(_without_holes(x)) for x in fitted if x not in seen and _is_sound(ctx, computations, x)}  # HOLES
            seen |= new
            order = sorted(new.items(), key=lambda x: x[1].seconds)
            found += [Candidate(partial(tuple, way), partial(Description, cost, describe_tiles(way))) for way, cost in order]
            if most is not None and len(found) >= most:
                break
        if found:
            return found
    return []


def _without_holes(lines: Lines) -> Lines:
    """HOLES"""
    return tuple(
        replace(x, block=_without_holes(x.block)) if isinstance(x, syntax.Move | syntax.Keep) and x.block is not None else x
        for x in without_auto(lines)
        if not (isinstance(x, syntax.Tile) and any(isinstance(a.size, syntax.Auto) for a in x.axes))
    )


def can_be_constrained(ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines, rule: Lines) -> bool:
    """Whether some candidate has a place for each of the author's lines. None is costed."""
    found = (x for nests, _ in _unconstrained(ctx, computations, rule) for x in _completions(ctx.device, nests, lines))
    return any(_is_sound(ctx, computations, x.fitted(ctx.device)) for x in found)


def _unconstrained(
    ctx: LoweringContext, computations: tuple[Computation, ...], rule: Lines
) -> Iterator[tuple[Iterable[Lines], Callable[[Lines], Cost]]]:
    """The candidates of which nothing is written, and how lines near them are judged: those for a product, then other nests.
    What their models say is not compared."""
    found = sample_problem(ctx.device, computations[0], ctx.shapes) if len(computations) == 1 else None
    if found is not None:
        cpu, p = found
        nests = (lines_of(p, cpu, b) for b in dict.fromkeys(blockings(p, cpu)))
        yield nests, lambda x: price_lines(ctx, cpu, computations, x) or Cost(inf, {})
    yield nest_schedules(ctx, computations, rule)


class _Completion(NamedTuple):
    """A place for each of the author's lines among a candidate's.

    chosen   the candidate's lines      at   its sizes
    foreign  the number of lines, and indices of tiles, that the candidate lost or that are not its own: the model does not
             know of them
    """

    placement: Placement
    chosen: Named
    at: dict[str, int]
    foreign: int

    def fitted(self, device: Device) -> Lines:
        """The lines of both."""
        return _fitted(list(merged_lines(device, self.placement, self.chosen, self.at)), self.at)


def _completions(device: Device, nests: Iterable[Lines], lines: Lines) -> Iterator[_Completion]:
    """Those by candidates, sound or not. Candidates that differ in sizes alone have the same places."""
    known: dict[tuple[Slot, ...], list[tuple[Placement, int]]] = {}
    for nest in nests:
        for way in dict.fromkeys((nest, _joined(nest))):
            slots, chosen, at = slots_of_lines(way)
            if slots not in known:
                found = placements(device, slots, lines, _may_stand_alone)
                known[slots] = [(x, _foreign(way, x, list(merged_lines(device, x, chosen, at)))) for x in found]
            yield from (_Completion(x, chosen, at, foreign) for x, foreign in known[slots])


def _foreign(way: Lines, placement: Placement, merged: list[tuple[PlacedLine, syntax.Line]]) -> int:
    kept = sum(_weight(line) for x, line in merged if x.slot is not None)
    return sum(map(_weight, way)) - kept + sum(x.slot is None for x in placement)


def _weight(line: syntax.Line) -> int:
    return len(line.axes) if isinstance(line, syntax.Tile) else 1


def _is_sound(ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines) -> bool:
    """Whether the lines bound their buffers and lanes, copy what is read, the units that own a memory use it, and no tensor is
    copied to a memory twice. A nest without some of its tiles, or with some lines more, may violate this."""
    levels, copied = {ctx.device.levels[0].name}, set()
    open_ = {i for w in computations for i, e in computation_extents(w).items() if e.interval[1] is None}
    for line in lines:
        held: set[str] = set()
        match line:
            case syntax.Tile():
                held = {a.index for a in line.axes} if line.level == ctx.innermost else set()
            case syntax.Keep():
                held = {i for w in computations if not {*w.names}.isdisjoint(line.tensors) for i in w.indices}
            case syntax.Move():
                read = [ld for w in computations for ld in loads(w.value) if ld.tensor == line.tensor]
                held = {v.name for ld in read for e in ld.indices for v in e.variables()}
                if not read or line.memory is None or ctx.device.memory(line.memory).level not in levels:
                    return False
                if (line.tensor, line.memory) in copied:
                    return False
                copied.add((line.tensor, line.memory))
        if held & open_:
            return False
        if isinstance(line, syntax.Tile):
            levels |= {line.level} if line.level is not None else set()
            open_ -= {a.index for a in line.axes}
    return True


# ---------------------------------------------------------------- ALONE


def _joined(way: Lines) -> Lines:
    """Consecutive tiles as one, which may match an author's tile of several indices."""
    out: list[syntax.Line] = []
    for x in way:
        above = out[-1] if out else x
        if isinstance(x, syntax.Tile) and isinstance(above, syntax.Tile) and _apart(above, x):
            out[-1] = replace(above, axes=(*above.axes, *x.axes))
        else:
            out.append(x)
    return tuple(out)


def _apart(above: syntax.Tile, x: syntax.Tile) -> bool:
    """Are both plain loops, over different indices?"""
    plain = not (x.level or above.level or x.modifiers or above.modifiers)
    return plain and {a.index for a in above.axes}.isdisjoint(a.index for a in x.axes)


def _may_stand_alone(line: syntax.Line) -> bool:
    """ALONE"""
    if isinstance(line, syntax.Move):
        return line.memory is not None
    return isinstance(line, syntax.Tile) and line.level is None and all(isinstance(a.size, syntax.Num) for a in line.axes)


# ---------------------------------------------------------------- FITTED


def _fitted(merged: Sequence[tuple[PlacedLine, syntax.Line]], at: dict[str, int]) -> Lines:
    lines = [line for _, line in merged]
    within: dict[str, int] = {}
    changed: dict[tuple[str, int], int] = {}
    for n, (place, line) in reversed(list(enumerate(merged))):  # whole multiples of what is inside
        if isinstance(line, syntax.Tile):
            was, axes = {i: at[name] for i, name in place.slot.axes} if place.slot is not None else {}, []
            for a in line.axes:
                size = old = constant_size(a.size) or 1
                if not _wrote(place, a.index):
                    unit = within.get(a.index, 1)
                    size = max(unit, -(-size // unit) * unit)
                within[a.index] = size
                axes.append(_sized(a, size))
                changed[a.index, was.get(a.index, old)] = size
            lines[n] = _with_axes(line, axes)
    around: dict[str, int] = {}
    out: list[syntax.Line] = []
    for (place, _), line in zip(merged, lines, strict=True):  # no larger than what is around
        if isinstance(line, syntax.Tile):
            axes = []
            for a in line.axes:
                size = constant_size(a.size) or 1
                if a.index in around and not _wrote(place, a.index) and isinstance(a.size, syntax.Num):
                    if size >= around[a.index] and line.level is None and size > 1:
                        changed[a.index, size] = around[a.index]
                        continue
                    size = min(size, around[a.index])
                    a = _sized(a, size)
                around[a.index] = size
                axes.append(a)
            if not axes:
                continue
            line = _with_axes(line, axes)
        out.append(line)
    return tuple(replace(x, modifiers=resize_panels(x.modifiers, changed)) if isinstance(x, syntax.Move) else x for x in out)


def _sized(axis: syntax.TileAxis, size: int) -> syntax.TileAxis:
    """The axis with another number for its size, or itself: of most completions few numbers change."""
    return replace(axis, size=syntax.Num(size)) if isinstance(axis.size, syntax.Num) and axis.size.value != size else axis


def _with_axes(line: syntax.Tile, axes: Sequence[syntax.TileAxis]) -> syntax.Tile:
    return line if all(map(is_, line.axes, axes)) and len(axes) == len(line.axes) else replace(line, axes=tuple(axes))


def _wrote(place: PlacedLine, index: str) -> bool:
    """Did the author write the size of an index?"""
    axes = place.line.axes if isinstance(place.line, syntax.Tile) else ()
    return any(a.index == index and isinstance(a.size, syntax.Num) for a in axes)
