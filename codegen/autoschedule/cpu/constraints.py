"""Schedules for CPUs that the author wrote in part: those lines stay, and candidates fill in the others.

    tile m: 48 -> core                tile m: 48 -> core
    auto                    -->       tile n: 128 -> core
    compute with fma                  tile k: 256;  tile n: 16;  tile m: 6;  keep C in register;  tile k: 1 unroll 4
                                      compute with fma

MEETING   An author's line matches a candidate's line of the same kind, level, memory, and indices or tensors. Lines match in
          order; all matchings are tried.
OPEN      A candidate's line without a match replaces `auto` if `auto` stands there, and is left out otherwise. The same holds
          for the other indices of a tile line of which the author has some.
FITTED    The author's numbers stay. A candidate's number around one becomes a multiple of it, and one inside it is at most as
          large. A tile as large as the range that it cuts is left out.
HOLES     What `auto` will be in a block of the author's is chosen later, and not in the price.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf

from ....dsl import syntax
from ....dsl.device import Device
from ....dsl.support.fast_replace import replace
from ....dsl.values import loads
from ...lower.lowering_context import LoweringContext
from ...plan.computations import Computation, computation_extents
from ...schedule.build_tree import constant_size
from ...schedule.candidate import Candidate, Cost, Lines
from ..constraints import filled_line, slot_of, suits
from ..line_builders import resize_panels
from .matmul import blockings, lines_of, sample_problem
from .nest_space import describe_tiles, nest_schedules
from .price_lines import price_lines

Price = Callable[[Lines], Cost]


def constrained_candidates(
    ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines, rule: Lines
) -> list[Candidate]:
    """Completions of the author's lines, the best first; empty if no candidate has a place for each of them.

    rule   the nest of a few rules for an author without lines (`autoschedule.complete.rule_lines`)
    """
    for ways in (_products, _nests):  # what their models say is not compared
        found: dict[Lines, tuple[int, Cost]] = {}
        for way, price in ways(ctx, computations, rule):
            for laid, fitted in _completions(ctx, computations, way, lines):
                foreign = _foreign(way, laid)
                if fitted not in found or foreign < found[fitted][0]:
                    found[fitted] = foreign, price(tuple(map(_without_holes, fitted)))
        if found:
            order = sorted(found.items(), key=lambda x: (x[1][0], x[1][1].seconds))
            return [Candidate(partial(tuple, way), cost, describe_tiles(way)) for way, (_, cost) in order]
    return []


def _without_holes(line: syntax.Line) -> syntax.Line:
    """HOLES"""
    if not isinstance(line, syntax.Move | syntax.Keep) or line.block is None:
        return line
    kept = tuple(_without_holes(x) for x in line.block if not isinstance(x, syntax.AutoLine))
    return replace(line, block=kept or None)


def can_be_constrained(ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines, rule: Lines) -> bool:
    """Whether some candidate has a place for each of the author's lines. None is costed."""
    ways = (way for ways in (_products, _nests) for way, _ in ways(ctx, computations, rule))
    return any(True for way in ways for _ in _completions(ctx, computations, way, lines))


def _completions(
    ctx: LoweringContext, computations: tuple[Computation, ...], way: Lines, lines: Lines
) -> Iterator[tuple[Sequence[_Overlay], Lines]]:
    """The matchings of the author's lines with a candidate, and the whole nest for each."""
    for laid in (x for w in dict.fromkeys((way, _joined(way))) for x in _overlaid(ctx.device, w, lines)):
        fitted = _fitted(laid)
        if _sound(ctx, computations, fitted):
            yield laid, fitted


def _sound(ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines) -> bool:
    """Whether the lines bound their buffers and lanes, the units that own a memory use it, and no tensor is copied to a memory
    twice. A nest without some of its tiles, or with some lines more, may violate this."""
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
                if line.memory is None or ctx.device.memory(line.memory).level not in levels:
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


def _foreign(way: Lines, laid: Sequence[_Overlay]) -> int:
    """Lines, or indices of tiles, that the candidate lost, and lines besides its own: the model does not know of them."""
    kept = sum(_weight(x.line) for x in laid if not x.alone)
    return sum(map(_weight, way)) - kept + sum(x.alone for x in laid)


def _weight(line: syntax.Line) -> int:
    return len(line.axes) if isinstance(line, syntax.Tile) else 1


def _products(ctx: LoweringContext, computations: tuple[Computation, ...], rule: Lines) -> Iterator[tuple[Lines, Price]]:
    """The candidates for a product of which nothing is written, and how lines near each are judged."""
    found = sample_problem(ctx.device, computations[0], ctx.shapes) if len(computations) == 1 else None
    if found is None:
        return
    cpu, p = found
    for b in dict.fromkeys(blockings(p, cpu)):
        yield lines_of(p, cpu, b), lambda x: price_lines(ctx, cpu, computations, x) or Cost(inf, {})


def _nests(ctx: LoweringContext, computations: tuple[Computation, ...], rule: Lines) -> Iterator[tuple[Lines, Price]]:
    """The same for other nests."""
    ways, price = nest_schedules(ctx, computations, rule)
    yield from ((way, price) for way in ways)


# ---------------------------------------------------------------- MEETING, OPEN


@dataclass(frozen=True)
class _Overlay:
    """A line of the result; `own`: indices whose sizes the author wrote; `alone`: the candidate had none like it; `was`: the
    sizes that it had there."""

    line: syntax.Line
    own: frozenset[str] = frozenset()
    alone: bool = False
    was: tuple[tuple[str, int], ...] = ()


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


def _overlaid(device: Device, way: Lines, lines: Sequence[syntax.Line], opened: bool = False) -> Iterator[tuple[_Overlay, ...]]:
    """All matchings of the author's lines with a candidate's, in order; `opened`: an `auto` stands before them."""
    if not lines:
        if opened:
            yield tuple(_Overlay(x) for x in way)
        elif not any(isinstance(x, syntax.Compute) for x in way):
            yield ()
        return
    line, *rest = lines
    if isinstance(line, syntax.AutoLine):
        yield from _overlaid(device, way, rest, True)
        return
    for n, theirs in enumerate((*way, None)):
        above = tuple(_Overlay(x) for x in way[:n]) if opened else ()
        if (opened or n == 0) and isinstance(line, (syntax.Tile, syntax.Move)) and _alone(line):
            own = frozenset(a.index for a in line.axes) if isinstance(line, syntax.Tile) else frozenset()
            yield from ((*above, _Overlay(line, own, True), *x) for x in _overlaid(device, way[n:], rest))
        if theirs is None:
            return
        if suits(device, slot_of(theirs), line):
            before, after = _left(theirs, line)
            above = (*above, *(_Overlay(x) for x in before)) if opened else ()
            yield from ((*above, _filled(line, theirs), *x) for x in _overlaid(device, (*after, *way[n + 1 :]), rest))
        if not opened and isinstance(theirs, syntax.Fuse):
            return  # lines below speak of what it makes


def _alone(line: syntax.Tile | syntax.Move) -> bool:
    """May the line stand where no candidate has one like it? A loop may, of a known size, and a copy."""
    if isinstance(line, syntax.Move):
        return line.memory is not None
    return line.level is None and all(isinstance(a.size, syntax.Num) for a in line.axes)


def _left(theirs: syntax.Line, line: syntax.Line) -> tuple[Lines, Lines]:
    """The indices of a candidate's tile that the author's has not: those that are cut before it, and after it."""
    if not isinstance(theirs, syntax.Tile) or not isinstance(line, syntax.Tile):
        return (), ()
    own = {a.index for a in line.axes}
    first = next(n for n, a in enumerate(theirs.axes) if a.index in own) if theirs.level is None else 0
    before = theirs.axes[:first]
    after = tuple(a for a in theirs.axes[first:] if a.index not in own)
    return tuple((replace(theirs, axes=x),) if x else () for x in (before, after))  # type: ignore[return-value]


def _filled(line: syntax.Line, theirs: syntax.Line) -> _Overlay:
    """Open parts of the author's line are the candidate's."""
    filled = filled_line(line, theirs)
    if not isinstance(line, syntax.Tile) or not isinstance(theirs, syntax.Tile):
        return _Overlay(filled)
    own = frozenset(a.index for a in line.axes if isinstance(a.size, syntax.Num))
    return _Overlay(filled, own, was=tuple((a.index, constant_size(a.size) or 1) for a in theirs.axes if a.index in own))


# ---------------------------------------------------------------- FITTED


def _fitted(laid: Sequence[_Overlay]) -> Lines:
    lines = [x.line for x in laid]
    within: dict[str, int] = {}
    changed: dict[tuple[str, int], int] = {}
    for n, x in reversed(list(enumerate(laid))):  # whole multiples of what is inside
        if isinstance(x.line, syntax.Tile):
            axes = []
            for a in x.line.axes:
                size = was = constant_size(a.size) or 1
                if a.index not in x.own:
                    unit = within.get(a.index, 1)
                    size = max(unit, -(-size // unit) * unit)
                within[a.index] = size
                axes.append(replace(a, size=syntax.Num(size)) if isinstance(a.size, syntax.Num) else a)
                changed[a.index, dict(x.was).get(a.index, was)] = size
            lines[n] = replace(x.line, axes=tuple(axes))
    around: dict[str, int] = {}
    out: list[syntax.Line] = []
    for x, line in zip(laid, lines, strict=True):  # no larger than what is around
        if isinstance(line, syntax.Tile):
            axes = []
            for a in line.axes:
                size = constant_size(a.size) or 1
                if a.index in around and a.index not in x.own and isinstance(a.size, syntax.Num):
                    if size >= around[a.index] and line.level is None and size > 1:
                        changed[a.index, size] = around[a.index]
                        continue
                    size = min(size, around[a.index])
                    a = replace(a, size=syntax.Num(size))
                around[a.index] = size
                axes.append(a)
            if not axes:
                continue
            line = replace(line, axes=tuple(axes))
        out.append(line)
    return tuple(replace(x, modifiers=resize_panels(x.modifiers, changed)) if isinstance(x, syntax.Move) else x for x in out)
