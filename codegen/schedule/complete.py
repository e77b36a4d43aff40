"""Completion: what a schedule leaves open is filled in. Here by a simple sound rule a kind of work.

CONTRACTION   sums of products that a multiply-add instruction matches: the BLIS blocking, sizes from the device's caches and
              registers (Van Zee & van de Geijn, "BLIS: A Framework for Rapidly Instantiating BLAS Functionality", 2015).
NEIGHBOURS    else the index with neighbours in memory goes to lockstep units, the others to units of the outer levels.
"""

from __future__ import annotations

from dataclasses import replace

from ...dsl import syntax
from ...dsl.device import Level
from ...dsl.index import Var
from ...dsl.values import Load, loads
from ..lower.context import Context
from ..lower.match import Match, match
from ..lower.work import Work
from ..rtile.construct import construct
from ..rtile.machine import Machine
from .nests import cores_and_lanes, fastest, tile, vector_nest

UNROLL = 4  # vectors a lane index is cut into, so that loads overlap


def complete(ctx: Context, works: tuple[Work, ...], lines: tuple[syntax.Line, ...]) -> tuple[syntax.Line, ...]:
    """Explicit lines for one launch: absent ones and `auto` filled in, what the author wrote kept."""
    written = tuple(x for x in lines if not isinstance(x, syntax.AutoLine))
    if not written:
        return default_lines(ctx, works)
    machine = Machine.of(ctx.device)
    if machine is not None and any(is_open(x) for x in lines):
        lines = construct(ctx, machine, works, lines) or lines
        written = tuple(x for x in lines if not isinstance(x, syntax.AutoLine))
    out = tuple(_sizes(ctx, x) for x in written)
    if not isinstance(out[-1], syntax.Compute):
        out = (*out, syntax.Compute())
    return tuple(_instr(ctx, works, x) for x in vectors(ctx, works, out))


def is_open(line: syntax.Line) -> bool:
    """Is it `auto`, or has it a size, a memory or an instruction that is?"""
    match line:
        case syntax.AutoLine():
            return True
        case syntax.Tile():
            return any(isinstance(a.size, syntax.Auto) for a in line.axes)
        case syntax.Move() | syntax.Keep():
            return line.memory is None
        case syntax.Compute():
            return isinstance(line.instr, syntax.Auto)
    return False


def vectors(ctx: Context, works: tuple[Work, ...], lines: tuple[syntax.Line, ...]) -> tuple[syntax.Line, ...]:
    """`vector n`, where vectors are made of lanes: that many neighbours go to the lanes.

    tile j: 32 vector 8 -->   tile j: 32;  tile j: 8;  tile j: 1 -> lane
    compute vector 8    -->   tile j: 8;  tile j: 1 -> lane;  compute        (j: the index with neighbours in memory)
    """
    level = lanes(ctx)
    if level is None or any(isinstance(x, syntax.Tile) and x.level == level.name for x in lines):
        return lines
    out: list[syntax.Line] = []
    for line in lines:
        m = next((m for m in getattr(line, "modifiers", ()) if m.name == "vector"), None)
        if m is None or not isinstance(line, (syntax.Tile, syntax.Compute)):
            out.append(line)
            continue
        plain = replace(line, modifiers=tuple(x for x in line.modifiers if x is not m))
        width = m.values[0] if m.values else syntax.Num(level.bytes or 1)
        index = line.axes[-1].index if isinstance(line, syntax.Tile) else fastest(max(works, key=lambda w: len(w.all_indices)))
        tiles = [syntax.Tile((syntax.TileAxis(index, width),)), tile((index, 1), level=level.name)]
        out += [plain, *tiles] if isinstance(line, syntax.Tile) else [*tiles, plain]
    return tuple(out)


def _instr(ctx: Context, works: tuple[Work, ...], line: syntax.Line) -> syntax.Line:
    """`compute with auto`: an instruction that matches, or the scalar body."""
    if isinstance(line, syntax.Compute) and isinstance(line.instr, syntax.Auto):
        m = next((m for w in works if (m := fma_of(ctx, w)) is not None), None)
        return replace(line, instr=m.instr.name if m else None)
    return line


def _sizes(ctx: Context, line: syntax.Line) -> syntax.Line:
    if isinstance(line, syntax.Tile):
        axes = tuple(
            replace(a, size=syntax.Num(_default_size(ctx, line))) if isinstance(a.size, syntax.Auto) else a for a in line.axes
        )
        return replace(line, axes=axes)
    if isinstance(line, (syntax.Move, syntax.Keep)) and line.block is not None:
        return replace(line, block=tuple(_sizes(ctx, x) for x in line.block))
    return line


def _default_size(ctx: Context, line: syntax.Tile) -> int:
    if line.level is None:
        return 16
    return 1 if ctx.device.level(line.level).siblings == "lockstep" else 64


# ---------------------------------------------------------------- nothing written


def default_lines(ctx: Context, works: tuple[Work, ...]) -> tuple[syntax.Line, ...]:
    """A schedule for a launch of which the author said nothing."""
    machine = Machine.of(ctx.device)
    found = construct(ctx, machine, works) if machine is not None else None
    if found is not None:
        return found
    work = max(works, key=lambda w: len(w.all_indices))
    if len(works) == 1:
        m = fma_of(ctx, work)
        if m is not None and lanes(ctx) is not None:
            found = _contraction(ctx, work, m)
            if found is not None:
                return found
    levels = cores_and_lanes(ctx.device)
    return _neighbours(ctx, work) if levels is None else vector_nest(ctx, works, *levels)


def fma_of(ctx: Context, work: Work) -> Match | None:
    """The best multiply-add instruction for a sum of products."""
    if work.reduction is None or work.reduction.kind != "sum":
        return None
    found = [m for i in ctx.device.instrs if i.accumulate and (m := match(i, work)) is not None]
    return max(found, key=lambda m: m.score, default=None)


def lanes(ctx: Context) -> Level | None:
    """The vector lanes of a device whose lockstep units are counted in bytes, if it has such."""
    level = ctx.device.levels[-1]
    return level if level.siblings == "lockstep" and level.bytes else None


def _contraction(ctx: Context, work: Work, m: Match) -> tuple[syntax.Line, ...] | None:
    """The BLIS way: B in panels in the outer cache, A in panels in the inner one, C in registers."""
    values = dict(m.operands)
    register = ctx.device.memories[-1].registers
    finite = next((x for x in ctx.device.levels if x.units == "finite"), None)
    caches = [x for x in ctx.device.memories if x.backing is not None]
    shared = [x for x in caches if finite and ctx.device.depth(x.level) < ctx.device.depth(finite.name)]
    private = [x for x in caches if finite and x.level == finite.name]
    spread = [theirs for mine, theirs in m.index]
    if register is None or finite is None or not shared or not private or len(spread) != 1:
        return None
    n = spread[0]
    wide = next((v for v in values.values() if _has(v, n)), None)
    narrow = next((v for v in values.values() if not _has(v, n)), None)
    if not isinstance(wide, Load) or not isinstance(narrow, Load) or not work.reduced:
        return None
    mine = [i for i in work.indices if i != n and _has(narrow, i) and not _has(wide, i)]
    batch = [i for i in work.indices if i != n and i not in mine]
    if not mine:
        return None  # a matrix by a vector: all of it is read once
    if len(mine) != 1 or len(work.reduced) != 1 or not _plain(wide) or not _plain(narrow):
        return _direct(ctx, work, m, n)
    k, row = work.reduced[0], mine[0]
    if wide.indices[-1].coefficient(Var(n)) != 1 and wide.indices[-1].coefficient(Var(k)) != 1:
        return _direct(ctx, work, m, n)
    width = m.extent(n)
    columns = 2 * width
    rows = max(1, (register[0] - 4) // 2)
    size = wide.dtype.bytes
    depth = 256
    inner = (private[0].capacity or 1 << 18) // 2
    high = max(rows, min(12 * rows, inner // (depth * size) // rows * rows))
    across = max(columns, min(4096, (shared[0].capacity or 1 << 22) // 2 // (depth * size)) // columns * columns)
    lines: list[syntax.Line] = [tile((i, 1)) for i in batch]
    lines += [
        tile((n, across)),
        tile((k, depth)),
        _move(wide.tensor, shared[0].name, n, columns),
        tile((row, high), level=finite.name),
        _move(narrow.tensor, private[0].name, row, rows),
        tile((n, columns)),
        tile((row, rows)),
        syntax.Keep((work.name.rstrip("@"),), ctx.device.memories[-1].name),
        replace(tile((k, 1)), modifiers=(syntax.Modifier("unroll", (syntax.Num(4),)),)),
        syntax.Compute(m.instr.name),
    ]
    return tuple(lines)


def _direct(ctx: Context, work: Work, m: Match, n: str) -> tuple[syntax.Line, ...]:
    """A contraction without packing: outputs to units, a few vectors in registers, the reduction inside."""
    finite = next(x for x in ctx.device.levels if x.units == "finite")
    others = [i for i in work.indices if i != n]
    lines: list[syntax.Line] = []
    if others:
        lines.append(tile(*((i, 1) for i in others), level=finite.name))
        lines.append(tile((n, UNROLL * m.extent(n))))
    else:
        lines.append(tile((n, UNROLL * m.extent(n)), level=finite.name))
    lines.append(syntax.Keep((work.name.rstrip("@"),), ctx.device.memories[-1].name))
    lines += [tile((k, 1)) for k in work.reduced]
    lines.append(syntax.Compute(m.instr.name))
    return tuple(lines)


def _neighbours(ctx: Context, work: Work) -> tuple[syntax.Line, ...]:
    """Outer indices to outer units, the index with neighbours to lockstep units; reductions inside."""
    outer = next((x for x in ctx.device.levels[1:] if x.units in ("open", "finite")), None)
    inner = ctx.device.levels[-1]
    dtype = work.value.dtype.compute
    width = max(1, inner.bytes // dtype.bytes) if inner.bytes else inner.most or 1
    fast = fastest(work)
    lines: list[syntax.Line] = []
    parallel = inner.siblings == "lockstep" and inner.units == "shaped" and work.value.dtype.name != "bool"
    if fast in work.indices or not work.indices:
        others = [i for i in work.indices if i != fast]
        if others and outer:
            lines.append(tile(*((i, 1) for i in others), level=outer.name))
        elif outer and fast in work.indices:
            lines.append(tile((fast, width), level=outer.name))
        if fast in work.indices:
            lines.append(tile((fast, UNROLL * width if outer is None or outer.units != "open" else width)))
            if parallel:
                lines.append(tile((fast, 1), level=inner.name))
        if work.reduction is not None:
            lines.append(syntax.Keep((work.name.rstrip("@"),), ctx.device.memories[-1].name))
            lines += [tile((k, 1)) for k in work.reduced if k != fast or fast in work.indices]
    if work.reduction is not None and fast in work.reduced:
        if work.indices:
            lines = [tile(*((i, 1) for i in work.indices), level=outer.name if outer else None)]
            lines.append(syntax.Keep((work.name.rstrip("@"),), ctx.device.memories[-1].name))
            lines += [tile((k, 1)) for k in work.reduced if k != fast]
        lines.append(tile((fast, UNROLL * width)))
        if parallel:
            lines.append(tile((fast, 1), level=inner.name))
    lines.append(syntax.Compute())
    return tuple(lines)


def _has(v, index: str) -> bool:
    return any(x.name == index for ld in loads(v) for e in ld.indices for x in e.variables())


def _plain(load: Load) -> bool:
    return load.otherwise is None and all(len(e.terms) == 1 and e.const == 0 and e.terms[0][1] == 1 for e in load.indices)


def _move(tensor: str, memory: str, axis: str, panel: int) -> syntax.Move:
    layout = syntax.Modifier("layout", words=("panels",), maps=((axis, syntax.Num(panel)),))
    return syntax.Move(tensor, memory, modifiers=(layout,))
