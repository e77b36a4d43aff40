"""Random parts of a schedule: some of its lines, some of their sizes, memories and instructions left open, `auto` in places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from andiron.dsl import syntax
from andiron.dsl.text.format import format_node

Lines = tuple[syntax.Line, ...]


def some_lines(rng: Random, decl: syntax.ScheduleDecl, outermost: str) -> str:
    """The text of a schedule `s` of some of the lines; "" where none is left. `outermost`: the memory that ends a launch."""
    share = rng.choice((0.25, 0.5, 0.75, 0.9))
    lines = [_opened(rng, x, outermost) for x in _kept(rng, decl.lines, share)]
    for _ in range(rng.choice((0, 1, 1, 2))):
        end = next((n for n, x in enumerate(lines) if isinstance(x, syntax.Compute)), len(lines))
        lines.insert(rng.randint(0, end), syntax.AutoLine())
    return format_node(replace(decl, name="s", lines=tuple(lines))) if lines else ""


def _kept(rng: Random, lines: Sequence[syntax.Line], share: float) -> Lines:
    out: list[syntax.Line] = []
    for x in lines:
        if rng.random() > share:
            continue
        if isinstance(x, syntax.Move | syntax.Keep) and x.block:
            x = replace(x, block=_kept(rng, x.block, max(share, 0.6)) or None)
        out.append(x)
    return tuple(out)


def _opened(rng: Random, x: syntax.Line, outermost: str) -> syntax.Line:
    pick = rng.random()
    if isinstance(x, syntax.Tile) and pick < 0.25:
        some = (replace(a, size=syntax.Auto()) if a.every is None and rng.random() < 0.6 else a for a in x.axes)
        return replace(x, axes=tuple(some))
    if isinstance(x, syntax.Move | syntax.Keep) and pick < 0.15 and x.memory != outermost:
        return replace(x, memory=None)
    if isinstance(x, syntax.Compute) and pick < 0.2:
        return replace(x, instr=syntax.Auto())
    return x
