"""Schedules whose tile sizes are drawn at random, with the seconds that the compiler's model predicts for each.

The order of loops and what is kept or copied is that of one of the compiler's candidates, also drawn; all sizes are drawn
anew, from one to the whole extent, and are whole numbers of the tiles inside. So they are no better than chance, and legal
unless something does not fit: that is found when compiling.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from random import Random
from typing import Any

VECTORS = 8  # together, at most, and rows; so many of both in straight code, and of places of a window times both:
STRAIGHT, WRITTEN = 32, 128
TRIES = 20


def random_ways(op: Any, device: Any, rng: Random) -> Iterator[tuple[Any, float]]:
    """Schedules of an op of known sizes, and predicted seconds, until new ones are rare; none where there is no choice."""
    from andiron.codegen.autoschedule.launches.launches_of_op import launches_of
    from andiron.codegen.autoschedule.launches.named_factors import with_named_factors
    from andiron.codegen.autoschedule.op_context import context_of
    from andiron.codegen.schedule.print_schedule import schedule_text
    from andiron.dsl import syntax
    from andiron.dsl.source import Source
    from andiron.dsl.text.parser import parse

    op = with_named_factors(op, device, ())
    ctx = context_of(op, device)
    parts = launches_of(op, device, ())
    makers = [_maker(ctx, works) for works, _ in parts]
    seen: set[str] = set()
    again = 0
    while all(makers) and again < TRIES:
        drawn = [make(rng) for make in makers]
        written = [(works, lines) for (works, _), (lines, _) in zip(parts, drawn, strict=True)]
        text = schedule_text(op, None, device, written)
        again = again + 1 if text in seen else 0
        if again:
            continue
        seen.add(text)
        (found,) = (d for d in parse(Source("<drawn>", text)).declarations if isinstance(d, syntax.ScheduleDecl))
        yield replace(found, where=()), sum(seconds for _, seconds in drawn)


def _maker(ctx: Any, works: tuple[Any, ...]) -> Any:
    """Draws lines and seconds for one launch; None where the compiler has no candidates."""
    from andiron.codegen.autoschedule.access_model import AccessProblem
    from andiron.codegen.autoschedule.cpu import matmul, matmul_cost, nest_cost
    from andiron.codegen.autoschedule.cpu.nest_space import nest_candidates
    from andiron.codegen.autoschedule.machine_model import core_machine
    from andiron.codegen.autoschedule.representative_sizes import TYPICAL
    from andiron.codegen.autoschedule.rule_lines import rule_lines

    for w in works:
        ctx.dtypes.setdefault(w.name, w.value.dtype)
    machine = core_machine(ctx.device)
    found = matmul.sample_problem(ctx.device, works[0], ctx.shapes) if len(works) == 1 else None
    if machine is None:
        return None
    product = found[1] if found is not None else None
    if product is not None and (ways := list(dict.fromkeys(matmul.blockings(product, machine)))):
        extents = {i: e.constant or TYPICAL for i, e in product.extents.items()}

        def blocked(rng: Random) -> tuple[Any, float]:
            b = _blocking(rng, rng.choice(ways), product, extents, machine.registers)
            return matmul.lines_of(product, machine, b), matmul_cost.seconds(product, machine, b, extents).seconds

        return blocked
    choices = nest_candidates(ctx, works, rule_lines(ctx, works))
    problems = tuple(AccessProblem.of(w, ctx.dtypes) for w in works)
    extents = {a: e.constant or TYPICAL for p in problems for a, e in p.extents.items()}
    lane = ctx.device.levels[-1]
    lanes = max(1, (lane.bytes or 1) // max(w.value.dtype.compute.bytes for w in works))

    def nested(rng: Random) -> tuple[Any, float]:
        lines = redrawn(rng, rng.choice(choices).lines, extents, lane.name, lanes, ctx.device.instrs)
        return lines, nest_cost.seconds(ctx, machine, problems, lines, extents).seconds

    return nested if choices else None


def _blocking(rng: Random, b: Any, p: Any, extents: Mapping[str, int], registers: int) -> Any:
    """The sizes of a way to block a product, drawn; what the kind fixes stays."""

    def size(extent: int, unit: int) -> int:
        return unit * _drawn(rng, -(-extent // unit))

    m, n, k = extents[p.m], extents[p.n], extents[p.k]
    if b.kind in ("dots", "few rows"):
        return (
            replace(b, across=size(n, b.columns)) if b.kind == "few rows" else replace(b, tall=(t := size(m, b.rows)), high=t)
        )
    if b.kind == "windows":
        return replace(b, tall=size(m, b.rows), high=b.rows, across=size(p.image[0], b.lines), depth=_drawn(rng, p.deep_extent))
    vectors = rng.randint(1, 4)
    rows = b.rows if b.pack_narrow else rng.randint(1, max(1, min(m, (registers - 1 - vectors) // vectors)))
    high = size(m, rows)
    columns = vectors * p.lanes
    return replace(
        b, rows=rows, columns=columns, depth=size(k, 4), high=high, tall=size(m, high), across=size(n, columns)
    )  # fmt: skip


def redrawn(rng: Random, lines: Any, extents: Mapping[str, int], lane: str, lanes: int, instrs: Any) -> Any:
    """A nest's lines with other sizes; those of an instruction and of single steps stay."""
    from andiron.dsl import syntax

    leaf = any(isinstance(x, syntax.Compute) and x.instr is not None for x in lines)
    swaps = leaf and not any(
        i.accumulate for i in instrs if any(getattr(x, "instr", None) in (i.name, i.family) for x in lines)
    )
    inner: dict[str, int] = {}
    named = [a.index for x in lines if isinstance(x, syntax.Tile) for a in x.axes]
    unrolled = {i: m.values[0].value for x in lines for i, m in _unrolled(x)}
    places = prod(n for i, n in unrolled.items() if named.count(i) == 1)
    straight, out = max(1, min(STRAIGHT, WRITTEN // places)), []
    for x in reversed(lines):
        if isinstance(x, syntax.Tile) and x.level == lane:
            inner[x.axes[0].index] = -lanes  # the next tile outside is whole vectors
        elif isinstance(x, syntax.Tile):
            axes = []
            for a in x.axes:
                was, below = a.size.value, inner.get(a.index, 1)
                if (swaps and a.index not in inner) or was == 1:
                    new = was
                elif below < 0 or (leaf and a.index not in inner):
                    count = rng.randint(1, max(1, min(VECTORS, straight, extents[a.index] // lanes)))
                    new, straight = lanes * count, straight // count
                elif below == 1 and a.index in unrolled:  # rows together
                    new = rng.randint(1, max(1, min(VECTORS, straight, extents[a.index])))
                    straight //= new
                else:
                    new = below * _drawn(rng, -(-extents[a.index] // below))
                inner[a.index] = new
                axes.append(replace(a, size=syntax.Num(new)))
            x = replace(x, axes=tuple(axes))
        out.append(x)
    return tuple(reversed(out))


def _unrolled(x: Any) -> Iterator[tuple[str, Any]]:
    """The axes whose steps a line has in straight code."""
    for m in getattr(x, "modifiers", ()):
        if m.name == "unroll" and m.values:
            yield from ((a.index, m) for a in x.axes)


def _drawn(rng: Random, most: int) -> int:
    """From 1 to `most`, each power of two as likely."""
    return max(1, min(most, round(2 ** rng.uniform(0, max(1, most).bit_length()))))
