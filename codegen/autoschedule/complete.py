"""Completion fills in what a schedule leaves open, here by one simple rule for each kind of computation.

CONTRACTION   sums of products that a multiply-add instruction matches: matrix products as `cpu.matmul` ranks them, others
              without packing.
NEIGHBOURS    otherwise the contiguous index is distributed over lockstep units, the others over units of the outer levels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from math import gcd

from ...dsl import syntax
from ...dsl.device import Level
from ...dsl.index.expr import Var
from ...dsl.support.fast_replace import replace
from ...dsl.text.format import format_node
from ..lower.lowering_context import LoweringContext
from ..plan.computations import Computation
from ..schedule.schedule_fallback import CandidateLines
from .cpu.constraints import can_be_constrained, constrained_candidates
from .cpu.default_nests import UNROLL, cores_and_lanes, fastest_index, tile, vector_nest
from .cpu.matmul import matmul_schedules
from .cpu.matmul_model import CpuModel, fma_of, operands_of
from .cpu.nest_space import nest_candidates
from .gpu.machine_model import GpuModel
from .modifier_values import resolve_auto_modifiers
from .rank import construct_schedules, meant

Lines = tuple[syntax.Line, ...]


def complete(
    ctx: LoweringContext, computations: tuple[Computation, ...], lines: tuple[syntax.Line, ...]
) -> tuple[syntax.Line, ...]:
    """Explicit lines for one launch: absent ones and `auto` filled in; the author's lines stay."""
    if all(isinstance(x, syntax.AutoLine) for x in lines):
        return _chosen(ctx, computations, _ways(ctx, computations))
    machine = GpuModel.of(ctx.device)
    lines = vectors(ctx, computations, tuple(resolve_auto_modifiers(x) for x in lines))
    if any(is_open(x) for x in lines):
        lines = _chosen(
            ctx, computations, chain(_completed(ctx, machine, computations, lines), _plainly(ctx, machine, computations, lines))
        )
    out = tuple(_sizes(ctx, x) for x in lines if not isinstance(x, syntax.AutoLine))
    if not isinstance(out[-1], syntax.Compute):
        out = (*out, syntax.Compute())
    return tuple(_instr(ctx, computations, x) for x in out)


def _completed(
    ctx: LoweringContext, machine: GpuModel | None, computations: tuple[Computation, ...], lines: Lines
) -> Iterator[CandidateLines]:
    """Candidates for a launch with the author's lines, the best first; none if rTile has no place for one of them."""
    if machine is not None:
        yield from construct_schedules(ctx, machine, computations, lines)
    else:
        found = constrained_candidates(ctx, computations, lines, rule_lines(ctx, computations))
        yield from (CandidateLines(x.lines, x.about) for x in found[:2])  # what is written can always be done plainly


def _plainly(
    ctx: LoweringContext, machine: GpuModel | None, computations: tuple[Computation, ...], lines: Lines
) -> Iterator[CandidateLines]:
    """Only the author's lines, with a note on the first one that no candidate has a place for below those above it."""
    for n, line in enumerate(lines):
        upto = (*lines[: n + 1], syntax.AutoLine())
        if isinstance(line, syntax.AutoLine) or _can_complete(ctx, machine, computations, upto):
            continue
        fits = machine is None or not meant(ctx, machine, computations, upto)
        why = "none has it there" if fits else "none with it fits the device"
        where = f"line {line.span.line}, " if line.span is not None else ""
        ctx.note(f"{where}`{format_node(line).strip()}`: of rTile's nests {why}; what is open is filled in plainly")
        break
    yield CandidateLines(lines)


def _can_complete(ctx: LoweringContext, machine: GpuModel | None, computations: tuple[Computation, ...], lines: Lines) -> bool:
    """Whether some candidate has a place for each of these lines."""
    if machine is not None:
        return next(construct_schedules(ctx, machine, computations, lines), None) is not None
    return can_be_constrained(ctx, computations, lines, rule_lines(ctx, computations))


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
        return lines
    dealt = max((n for n, x in enumerate(lines) if _deals((x,))), default=-1)
    out: list[syntax.Line] = []
    later: list[syntax.Line] = []
    for n, line in enumerate(lines):
        m = next((m for m in getattr(line, "modifiers", ()) if m.name == "vector"), None)
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
        cut, lanes_of = syntax.Tile((syntax.TileAxis(index, width),)), tile((index, 1), level=level.name)
        if n < dealt:
            out += [plain, cut]
            later += [] if lanes_of in later else [lanes_of]
            continue
        out += [plain, *later, cut, lanes_of] if isinstance(line, syntax.Tile) else [cut, lanes_of, plain]
        later = []
    return tuple(out)


def _deals(lines: tuple[syntax.Line, ...], level: str | None = None) -> bool:
    """Whether a line, or one of a block, distributes over units (of this level)."""
    return any(
        x.level is not None and level in (None, x.level)
        if isinstance(x, syntax.Tile)
        else _deals(getattr(x, "block", None) or (), level)
        for x in lines
    )


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
        return replace(line, axes=tuple(map(_within_stride, axes)))
    if isinstance(line, (syntax.Move, syntax.Keep)) and line.block is not None:
        # `auto` in a block leaves open what a block may leave out; one of nothing else is as good as none
        block = tuple(_sizes(ctx, x) for x in line.block if not isinstance(x, syntax.AutoLine))
        return replace(line, block=block or None)
    return line


def _within_stride(a: syntax.TileAxis) -> syntax.TileAxis:
    """An axis whose chunks do not overlap: an author's size divides `every` (checked), one that was chosen may not."""
    if not (isinstance(a.size, syntax.Num) and isinstance(a.every, syntax.Num)) or a.every.value % a.size.value == 0:
        return a
    return replace(a, size=syntax.Num(gcd(int(a.size.value), int(a.every.value))))


def _default_size(ctx: LoweringContext, line: syntax.Tile) -> int:
    if line.level is None:
        return 16
    return 1 if ctx.device.level(line.level).siblings == "lockstep" else 64


# ---------------------------------------------------------------- nothing written


def _ways(ctx: LoweringContext, computations: tuple[Computation, ...]) -> Iterator[CandidateLines]:
    """Candidates for a launch without lines of an author, the best first; the rule's, which needs least, last."""
    machine = GpuModel.of(ctx.device)
    if machine is not None:
        yield from construct_schedules(ctx, machine, computations)
    if len(computations) == 1:
        yield from (CandidateLines(x.lines, x.about) for x in matmul_schedules(ctx, computations[0]))
    rule = rule_lines(ctx, computations)
    yield from (CandidateLines(x.lines, x.about) for x in nest_candidates(ctx, computations, rule))
    yield CandidateLines(rule)


def _chosen(ctx: LoweringContext, computations: tuple[Computation, ...], ways: Iterable[CandidateLines]) -> Lines:
    way = ctx.attempts.choose(computations[-1].name, ways)
    if way.why is not None:
        ctx.choices.append(way.why)
    return way.lines


def rule_lines(ctx: LoweringContext, computations: tuple[Computation, ...]) -> tuple[syntax.Line, ...]:
    """The nest of a computation that is not a product, by a few rules: `cpu.nest_space` compares others with it."""
    computation = max(computations, key=lambda w: len(w.all_indices))
    levels = cores_and_lanes(ctx.device)
    found = _direct(ctx, computation) if len(computations) == 1 else None
    return found or (_neighbours(ctx, computation) if levels is None else vector_nest(ctx, computations, *levels))


def lanes(ctx: LoweringContext) -> Level | None:
    """The vector lanes of a device whose lockstep units are counted in bytes, if it has such."""
    level = ctx.device.levels[-1]
    return level if level.siblings == "lockstep" and level.bytes else None


def _direct(ctx: LoweringContext, computation: Computation) -> tuple[syntax.Line, ...] | None:
    """A contraction without packing: outputs to units, a few vectors in registers, the reduction inside.

    None where the instruction's lanes would lie along an index that has no neighbours in memory, in neither the operand nor the
    result, as the batch of a depthwise convolution: then another index is better off without the instruction.
    """
    cpu, found = CpuModel.of(ctx.device), operands_of(ctx.device, computation)
    if cpu is None or found is None:
        return None
    m, n, finite = found[0], found[1], cpu.cores
    if len(m.index) != 1:
        return None  # what it takes must be packed for it
    if n != (computation.subscripts or computation.indices)[-1] and found[2].indices[-1].coefficient(Var(n)) != 1:
        return None
    others = [i for i in computation.indices if i != n]
    lines: list[syntax.Line] = []
    if others:
        lines.append(tile(*((i, 1) for i in others), level=finite.name))
        lines.append(tile((n, UNROLL * m.extent(n))))
    else:
        lines.append(tile((n, UNROLL * m.extent(n)), level=finite.name))
    lines.append(syntax.Keep((computation.name.rstrip("@"),), ctx.device.memories[-1].name))
    lines += [tile((k, 1)) for k in computation.reduced]
    lines.append(syntax.Compute(m.instr.name))
    return tuple(lines)


def _neighbours(ctx: LoweringContext, computation: Computation) -> tuple[syntax.Line, ...]:
    """Outer indices are distributed over outer units, the contiguous index over lockstep units; reductions stay inside."""
    outer = next((x for x in ctx.device.levels[1:] if x.units in ("open", "finite")), None)
    inner = ctx.device.levels[-1]
    dtype = computation.value.dtype.compute
    width = max(1, inner.bytes // dtype.bytes) if inner.bytes else inner.most or 1
    fast = fastest_index(computation)
    lines: list[syntax.Line] = []
    row = width if outer is not None and outer.units == "open" else UNROLL * width  # open units have all lanes of a row at once
    parallel = inner.siblings == "lockstep" and inner.units == "shaped" and computation.value.dtype.name != "bool"
    if fast in computation.indices or not computation.indices:
        others = [i for i in computation.indices if i != fast]
        if others and outer:
            lines.append(tile(*((i, 1) for i in others), level=outer.name))
        elif outer and fast in computation.indices:
            lines.append(tile((fast, width), level=outer.name))
        if fast in computation.indices:
            lines.append(tile((fast, row)))
            if parallel:
                lines.append(tile((fast, 1), level=inner.name))
        if computation.reduction is not None:
            lines.append(syntax.Keep((computation.name.rstrip("@"),), ctx.device.memories[-1].name))
            lines += [tile((k, 1)) for k in computation.reduced if k != fast or fast in computation.indices]
    if computation.reduction is not None and fast in computation.reduced:
        if computation.indices:
            lines = [tile(*((i, 1) for i in computation.indices), level=outer.name if outer else None)]
            lines.append(syntax.Keep((computation.name.rstrip("@"),), ctx.device.memories[-1].name))
            lines += [tile((k, 1)) for k in computation.reduced if k != fast]
        lines.append(tile((fast, row)))
        if parallel:
            lines.append(tile((fast, 1), level=inner.name))
    lines.append(syntax.Compute())
    return tuple(lines)
