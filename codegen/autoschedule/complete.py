"""Completion fills in what a schedule leaves open: by the best candidate, or by the simplest rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from math import gcd, prod

from ...dsl import syntax
from ...dsl.device import Level
from ...dsl.support.fast_replace import replace
from ...dsl.text.format import format_node
from ..lower.lowering_context import LoweringContext
from ..plan.computations import Computation
from ..schedule.build_tree import modifier
from ..schedule.candidate import Candidate, Description, Lines, best_of_each_template_first
from ..schedule.line_modifiers import asks_for_registers
from ..schedule.synthetic_spans import is_filled_in, line_text
from .candidates import can_complete, candidate_groups
from .cpu.default_nests import fastest_index
from .cpu.matmul_model import fma_of
from .line_builders import is_all_open, tile_text, without_auto
from .rank import AUTO, meant
from .rule_lines import rule_lines

# iterations, buffers, elements, rows of tiles: loads of 4 iterations overlap, 2 buffers let a copy run ahead, 1 element avoids
# bank conflicts [estimate; test_modifiers_that_are_left_open_get_numbers]
DEFAULTS = {"unroll": 4, "pipeline": 2, "pad": 1, "raster": 8}
_LANES = 256  # lanes: that get elements of a tile for which there is no nest [estimate; test_a_reader_of_a_rim_is_dealt_out]
_FEW = 2  # ways: without a template that are tried, for what is written can always be done plainly [limit]
_VECTORS = (8, 4, 2)  # elements: of a vector access [tried; test_modifiers_that_are_left_open_get_numbers]


def complete(ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines) -> Lines:
    """Explicit lines for one launch: absent ones and `auto` filled in; the author's lines stay."""
    if is_all_open(lines):
        groups = (best_of_each_template_first(x) for x in candidate_groups(ctx, computations, lines or AUTO))
        return _chosen(ctx, computations, chain(*groups), Candidate(lambda: rule_lines(ctx, computations)))
    lines = vectors(ctx, computations, tuple(resolve_auto_modifiers(x) for x in lines))
    if any(is_open(x) for x in lines):
        ways: Iterable[Candidate] = _completed(ctx, computations, lines)
        if (dealt := _dealt_to_lanes(ctx, computations, lines)) is not None:
            ways = chain(ways, [_plainly(ctx, computations, lines, dealt)])
        lines = _chosen(ctx, computations, ways, _plainly(ctx, computations, lines, lines))
    out = _memories(ctx, computations, tuple(_sizes(ctx, x) for x in _held_once(computations, without_auto(lines))))
    if not isinstance(out[-1], syntax.Compute):
        out = (*out, syntax.Compute())
    return tuple(_instr(ctx, computations, x) for x in out)


def _completed(ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines) -> Iterator[Candidate]:
    """Candidates for a launch with the author's lines, the best first; none if no template has a place for one of them."""
    for group in islice(candidate_groups(ctx, computations, lines, most=_FEW), 1):
        some = best_of_each_template_first(group)
        yield from some if some[0].template is not None else some[:_FEW]


def _plainly(ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines, filled: Lines) -> Candidate:
    """The author's lines, `filled` in, with a note on the first one that no candidate has a place for below those above it.

    A refusal says it too where the author wrote an `auto`: lines without one are often meant as a whole.
    """

    def noted() -> Lines:
        for n, line in enumerate(lines):
            upto = (*lines[: n + 1], syntax.AutoLine())
            if isinstance(line, syntax.AutoLine) or can_complete(ctx, computations, upto):
                continue
            why = "none with it fits the device" if meant(ctx, computations, upto) else "none has it there"
            where = f"line {line.span.line}, " if line.span is not None else ""
            note = f"{where}`{line_text(line)}`: of rTile's nests {why}; what is open is filled in plainly"
            ctx.note(note)
            if any(isinstance(x, syntax.AutoLine) and x.span is not None for x in syntax.all_lines(lines)):
                ctx.attempts.plainly = note  # the author left something open
            break
        return filled

    return Candidate(noted, lambda: Description(about="the author's lines alone"))


def _dealt_to_lanes(ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines) -> Lines | None:
    """Where the author's lines end with units that have lanes, and `auto`, each lane gets elements of its own. Otherwise one
    lane would have the whole tile. An instruction says itself which lane has what.

    tile i: 64 -> warp;  auto          -->  tile i: 64 -> warp;  tile i: 2 -> thread
    tile i: 8, j: 64 -> block;  auto   -->  tile i: 8, j: 64 -> block;  tile i: 2, j: 1 -> thread
    """
    lane, tiles = ctx.device.levels[-1], [x for x in lines if isinstance(x, syntax.Tile)]
    dealt = [x.level for x in tiles if x.level is not None]
    instrs = [x.instr for x in syntax.all_lines(lines) if isinstance(x, syntax.Compute) and x.instr is not None]
    scalar = lane.units == "shaped" and lane.bytes is None
    if not scalar or not dealt or dealt[-1] == lane.name or instrs or not isinstance(lines[-1], syntax.AutoLine):
        return None
    made = {t for x in lines if isinstance(x, syntax.Keep) and x.block is not None for t in x.tensors}  # by a nest of its own
    below = [w for w in computations if made.isdisjoint(w.names)]
    sizes = {a.index: a.size for x in tiles for a in x.axes}  # the last one is the smallest
    units = min(_LANES, prod(x.most or 1 for x in ctx.device.levels[ctx.device.depth(dealt[-1]) + 1 :]))
    axes = []
    for i in reversed(below[-1].indices if below else ()):
        size = sizes.get(i)
        if isinstance(size, syntax.Num) and size.value > 1 and all(i in w.indices for w in below):
            own = -(-int(size.value) // units)
            axes.insert(0, (i, own))
            units = max(1, units * own // int(size.value))
    return (*lines[:-1], tile_text(*axes, level=lane.name), lines[-1]) if axes else None


def _held_once(computations: tuple[Computation, ...], lines: Lines) -> Lines:
    """Without a `keep` that a candidate has for an intermediate, below the author's `move` of it: its block computes it."""
    made = {t for w in computations if w.reduction is None for t in w.targets}
    out: list[syntax.Line] = []
    moved: set[str] = set()
    for x in lines:
        if isinstance(x, syntax.Keep) and x.block is None and is_filled_in(x.span):
            left = tuple(t for t in x.tensors if t not in moved)
            if left:
                out.append(replace(x, tensors=left))
            continue
        out.append(x)
        if isinstance(x, syntax.Move) and x.tensor in made:
            moved.add(x.tensor)
    return tuple(out)


def _chosen(
    ctx: LoweringContext, computations: tuple[Computation, ...], candidates: Iterable[Candidate], plain: Candidate
) -> Lines:
    chosen = ctx.attempts.choose(computations[-1].name, candidates, plain)
    if chosen.report is not None:
        ctx.choices.append(chosen.report())
    return chosen.lines


def is_open(line: syntax.Line) -> bool:
    """Is it `auto`, or has it a size, a memory or an instruction that is?"""
    match line:
        case syntax.AutoLine():
            return True
        case syntax.Tile():
            return any(isinstance(a.size, syntax.Auto) for a in line.axes)
        case syntax.Keep():
            return line.memory is None or any(map(is_open, line.block or ()))
        case syntax.Move():
            return line.memory is None
        case syntax.Compute():
            return isinstance(line.instr, syntax.Auto)
    return False


def vectors(
    ctx: LoweringContext, computations: tuple[Computation, ...], lines: tuple[syntax.Line, ...]
) -> tuple[syntax.Line, ...]:
    """`vector n`, where vectors are made of lanes: that many neighbours go to the lanes.

    tile j: 32 vector 8 -->   tile j: 32;  tile j: 8;  tile j: 1 -> lane
    compute vector 8    -->   tile j: 8;  tile j: 1 -> lane;  compute        (j: the index with neighbours in memory)

    Where a line below (or one of its block) deals to units of an outer level, lanes are those of each of these units: their
    line follows it.
    """
    level = lanes(ctx)
    if level is None or _deals(lines, level.name):
        why = (
            f"accesses of `{ctx.device.name}` are as wide as addresses allow without it"
            if level is None
            else f"other lines distribute to `{level.name}`"
        )
        _note_idle_vectors(ctx, lines, why)
        return lines
    for x in lines:
        _note_idle_vectors(ctx, syntax.block_of(x), "in a block, tiles go to lanes by a line of their own")
        if isinstance(x, syntax.Move | syntax.Keep):
            _note_idle_vectors(ctx, (replace(x, block=None),), "accesses are as wide as addresses allow without it")
    dealt = max((n for n, x in enumerate(lines) if _deals((x,))), default=-1)
    out: list[syntax.Line] = []
    later: list[syntax.Line] = []
    for n, line in enumerate(lines):
        m = modifier(line, "vector")
        if m is None or not isinstance(line, (syntax.Tile, syntax.Compute)):
            out.append(line)
            if n == dealt:
                out += later
            continue
        plain = replace(line, modifiers=tuple(x for x in line.modifiers if x is not m))
        width = m.values[0] if m.values else syntax.Num(level.bytes or 1)
        index = (
            line.axes[-1].index
            if isinstance(line, syntax.Tile)
            else fastest_index(max(computations, key=lambda w: len(w.all_indices)))
        )
        cut, lanes_of = syntax.Tile((syntax.TileAxis(index, width),)), tile_text((index, 1), level=level.name)
        if n < dealt:
            out += [plain, cut]
            later += [] if lanes_of in later else [lanes_of]
            continue
        out += [plain, *later, cut, lanes_of] if isinstance(line, syntax.Tile) else [cut, lanes_of, plain]
        later = []
    return tuple(out)


def _note_idle_vectors(ctx: LoweringContext, lines: Iterable[syntax.Line], why: str) -> None:
    """A note on each `vector` that makes no vectors."""
    for x in syntax.all_lines(lines):
        m = modifier(x, "vector")
        if m is not None and x.span is not None:
            ctx.note(f"line {x.span.line}, `{format_node(m).strip()}`: {why}")


def _deals(lines: tuple[syntax.Line, ...], level: str | None = None) -> bool:
    """Whether a line, or one of a block, distributes over units (of this level)."""
    tiles = (x for x in syntax.all_lines(lines) if isinstance(x, syntax.Tile))
    return any(x.level is not None and level in (None, x.level) for x in tiles)


def _instr(ctx: LoweringContext, computations: tuple[Computation, ...], line: syntax.Line) -> syntax.Line:
    """`compute with auto`: an instruction that matches, or the scalar body."""
    if isinstance(line, syntax.Compute) and isinstance(line.instr, syntax.Auto):
        m = next((m for w in computations if (m := fma_of(ctx.device, w)) is not None), None)
        return replace(line, instr=m.instr.name if m else None)
    return line


def _sizes(ctx: LoweringContext, line: syntax.Line) -> syntax.Line:
    if isinstance(line, syntax.Tile):
        axes = (
            replace(a, size=syntax.Num(_default_size(ctx, line))) if isinstance(a.size, syntax.Auto) else a for a in line.axes
        )
        return _whole_vectors(replace(line, axes=tuple(map(_within_stride, axes))))
    if isinstance(line, (syntax.Move, syntax.Keep)) and line.block is not None:
        return replace(line, block=tuple(_sizes(ctx, x) for x in line.block))
    return line


def _memories(ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines, level: str | None = None) -> Lines:
    """Lines with a memory each, which are the registers where it is open and they can have what the line asks for.

    An accumulator that a line above names is kept already: an open line that names it again says nothing.
    """
    read = {t for w in computations for t in w.reads}  # by other computations: what is kept of them is no accumulator
    results = [w for w in computations if w.reduction is not None and read.isdisjoint(w.names)]
    accumulators = {t: w.name for w in results for t in w.names}
    kept: set[str] = set()
    level = level or ctx.outermost
    out: list[syntax.Line] = []
    for x in lines:
        level = (x.level if isinstance(x, syntax.Tile) else None) or level
        if isinstance(x, syntax.Keep):
            again = [t for t in x.tensors if accumulators.get(t) in kept]
            kept |= {accumulators[t] for t in x.tensors if t in accumulators}
            if x.memory is None and again and not x.block and not x.modifiers:
                x = replace(x, tensors=tuple(t for t in x.tensors if t not in again))
                if not x.tensors:
                    continue
        if isinstance(x, syntax.Move | syntax.Keep):
            register = asks_for_registers(ctx.device, x) is not False
            memory = x.memory or (ctx.device.memories[-1].name if register else _shared_memory(ctx, level))
            x = replace(x, memory=memory, block=x.block and _memories(ctx, computations, x.block, level))
        out.append(x)
    return tuple(out)


def _shared_memory(ctx: LoweringContext, level: str) -> str:
    """The innermost memory that is no register and that a unit of this level has; without one, that of the levels inside."""
    shared = [m for m in ctx.device.memories[1:] if not ctx.register(m.name)]
    here = [m for m in shared if ctx.device.depth(m.level) <= ctx.device.depth(level)]
    return (here or shared or ctx.device.memories)[-1].name


def _whole_vectors(line: syntax.Tile) -> syntax.Tile:
    """A tile without vectors that do not fill it: an author's size is a multiple of them (checked), a chosen one may not be."""
    last = line.axes[-1].size
    whole = (m for m in line.modifiers if m.name != "vector" or not m.values or _divides(m.values[0], last))
    return replace(line, modifiers=tuple(whole))


def _divides(n: syntax.Size, size: syntax.Size) -> bool:
    return isinstance(n, syntax.Num) and isinstance(size, syntax.Num) and size.value % n.value == 0


def _within_stride(a: syntax.TileAxis) -> syntax.TileAxis:
    """An axis whose chunks do not overlap: an author's size divides `every` (checked), one that was chosen may not."""
    if not (isinstance(a.size, syntax.Num) and isinstance(a.every, syntax.Num)) or a.every.value % a.size.value == 0:
        return a
    return replace(a, size=syntax.Num(gcd(int(a.size.value), int(a.every.value))))


def _default_size(ctx: LoweringContext, line: syntax.Tile) -> int:
    if line.level is None:
        return 16
    return 1 if ctx.device.level(line.level).siblings == "lockstep" else 64


def lanes(ctx: LoweringContext) -> Level | None:
    """The vector lanes of a device whose lockstep units are counted in bytes, if it has such."""
    level = ctx.device.levels[-1]
    return level if level.siblings == "lockstep" and level.bytes else None


# ---------------------------------------------------------------- `unroll auto`, `pipeline auto`, `vector auto`, ..


def resolve_auto_modifiers(line: syntax.Line) -> syntax.Line:
    """The line with a number for each modifier that has `auto`; a vector is as wide as the tile's size allows."""
    if isinstance(line, syntax.Move | syntax.Keep) and line.block is not None:
        line = replace(line, block=tuple(resolve_auto_modifiers(x) for x in line.block))
    given = getattr(line, "modifiers", ())
    if not any(isinstance(v, syntax.Auto) for m in given for v in m.values):
        return line
    return replace(line, modifiers=tuple(x for m in given for x in _number(line, m)))  # type: ignore[arg-type]


def _number(line: syntax.Line, m: syntax.Modifier) -> tuple[syntax.Modifier, ...]:
    if not any(isinstance(v, syntax.Auto) for v in m.values):
        return (m,)
    n = DEFAULTS.get(m.name)
    if m.name == "vector":
        size = line.axes[-1].size if isinstance(line, syntax.Tile) else None
        n = next((n for n in _VECTORS if not isinstance(size, syntax.Num) or int(size.value) % n == 0), None)
    return (replace(m, values=(syntax.Num(n),)),) if n is not None else ()
