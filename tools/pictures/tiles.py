"""The hierarchy of tiles of each launch: each level's tile, divided into those of the next, one of which is enlarged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ...codegen.lower.schedule_trace import TracedLine
from ...dsl.op import Op
from ..schedule_lines import launches_of
from .svg import CHARACTER, HUES, INK, picture, stacked, tag, text

SIDE, GAP, TOP, MOST_LINES = 150.0, 46.0, 34.0, 32


@dataclass(frozen=True)
class TileCut:
    """One cut: the line that made it, the level after it, extents of the result's rows and columns."""

    line: str
    level: str
    rows: int
    columns: int


def tile_cuts(op: Op, launch: Sequence[TracedLine], sizes: dict[str, int]) -> list[TileCut]:
    """The cuts of the last two axes of what a launch computes, from the whole to the smallest tile, on the main path.

    launch  its steps, the first of which names the tensors that it computes
    """
    targets = launch[0].targets if launch else ()
    wanted = [op.outputs[0].name, *targets]  # an output before what is computed on the way
    made = {s.target: s for s in op.statements}
    statement = next((made[t] for t in wanted if t in targets and t in made), made.get(op.outputs[0].name, op.statements[-1]))
    axes = statement.indices[-2:]
    found: list[TileCut] = []
    for traced in launch:
        if traced.depth > 1 or traced.scope is None or not set(axes) <= set(traced.scope.extents):
            continue
        extents = [_number(traced.scope.extents[i], sizes) for i in axes]
        if None in extents:
            continue
        rows, columns = (1, 1, *extents)[-2:]  # of fewer axes than two, one row, or one element
        rows, columns = int(rows or 1), int(columns or 1)
        if found:  # a tile larger than what there is holds all of it
            rows, columns = min(rows, found[-1].rows), min(columns, found[-1].columns)
        step = TileCut("whole" if traced.depth == 0 else traced.line, traced.scope.level, rows, columns)
        if not found or (step.rows, step.columns) != (found[-1].rows, found[-1].columns):
            found.append(step)
    return found


def _number(expr, sizes: dict[str, int]) -> int | None:
    if expr.constant is not None:
        return int(expr.constant)
    try:
        return int(expr.evaluate(sizes))
    except (KeyError, ValueError):
        return None


def tiles(op: Op, trace: Sequence[TracedLine], sizes: dict[str, int]) -> str | None:
    """A row for each launch that cuts what it computes; None where nothing is cut."""
    launches = list(launches_of(trace))
    rows = []
    for n, launch in enumerate(launches, 1):
        found = tile_cuts(op, launch, sizes)
        if len(found) >= 2:
            rows.append(_row(op, found, f"launch {n} of {len(launches)}: {launch[0].line}" if len(launches) > 1 else ""))
    if not rows:
        return None
    return rows[0] if len(rows) == 1 else stacked(rows, 18, f"Tiles of the launches of {op.name}")


def _row(op: Op, found: Sequence[TileCut], head: str) -> str:
    """The cuts of one launch, side by side, below its name."""
    inside = [text(0, 14, head, font_style="italic")] if head else []
    below = 24 if head else 0
    panels: list[str] = []
    for n, (step, following) in enumerate(pairwise([*found, None])):
        if step is None:
            continue
        panels += _panel(n * (SIDE + GAP), step, following, HUES[n % len(HUES)], HUES[(n + 1) % len(HUES)])
    inside += [tag("g", *panels, transform=f"translate(0 {below})")] if head else panels
    last = max(SIDE + 2, len(_short(found[-1].line)) * CHARACTER)
    width = max((len(found) - 1) * (SIDE + GAP) + last, len(head) * CHARACTER)
    title = f"Tiles of {op.name}{', ' + head if head else ''}: " + ", ".join(s.line for s in found)
    return picture(width, below + TOP + SIDE + 52, *inside, title=title)


def _shape(step: TileCut) -> tuple[float, float]:
    """Width and height on the page, in proportion, but never a thread."""
    ratio = max(min(step.columns / step.rows, 5.0), 0.2)
    return (SIDE, SIDE / ratio) if ratio >= 1 else (SIDE * ratio, SIDE)


def _panel(x: float, step: TileCut, following: TileCut | None, hue: str, next_hue: str) -> list[str]:
    w, h = _shape(step)
    top = TOP + (SIDE - h) / 2
    out = [
        text(x, 14, _short(step.line), font_weight="bold"),
        text(x, 28, f"one {step.level}" if step.line != "whole" else f"{step.level}", opacity=0.7),
        tag("rect", x=x, y=top, width=w, height=h, fill=hue, fill_opacity=0.18, stroke=hue, stroke_width=1.5),
        text(x, TOP + SIDE + 18, f"{step.rows} x {step.columns}"),
    ]
    if following is None:
        return out
    down, across = -(-step.rows // following.rows), -(-step.columns // following.columns)
    out.append(text(x, TOP + SIDE + 34, f"{down} x {across} tiles", opacity=0.7))
    if max(down, across) <= MOST_LINES:
        out += [_line(x + w * i / across, top, 0, h) for i in range(1, across)]
        out += [_line(x, top + h * i / down, w, 0) for i in range(1, down)]
    tw, th = max(w * following.columns / step.columns, 2.0), max(h * following.rows / step.rows, 2.0)
    out.append(tag("rect", x=x, y=top, width=min(tw, w), height=min(th, h), fill=next_hue, fill_opacity=0.75))
    nh = _shape(following)[1]
    target = x + SIDE + GAP
    ntop = TOP + (SIDE - nh) / 2
    for y1, y2 in ((top, ntop), (top + min(th, h), ntop + nh)):
        out.append(tag("line", x1=x + min(tw, w), y1=y1, x2=target, y2=y2, stroke=next_hue, stroke_dasharray="2 3"))
    return out


def _short(line: str, most: int = 26) -> str:
    """Without its modifiers where it is long: the tile and the level tell it apart."""
    if len(line) > most and "->" in line:
        line = " ".join(line.split()[: line.split().index("->") + 2])
    return line if len(line) <= most else line[: most - 1] + "…"


def _line(x: float, y: float, w: float, h: float) -> str:
    return tag("line", x1=x, y1=y, x2=x + w, y2=y + h, stroke=INK, stroke_opacity=0.25, stroke_width=0.6)
