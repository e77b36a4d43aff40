"""The effect of each line of a schedule: the spec after it, and its figures.

MAIN_PATH   a line is shown once, as the author reads it: on the main path for the computations of a launch, in a nested block
            for the copy. Its lowering for initialisation and write-back is not shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from ...dsl import syntax
from ...dsl.device import Device
from ...dsl.index.expr import Expr, ceildiv
from ...dsl.source import Span
from ...dsl.support.amounts import bytes_text
from ...dsl.support.fast_replace import replace
from ...dsl.text.format import format_node
from ..ir.schedule_tree import Materialise, Node, Tile
from ..ir.tile_ir import Buffer
from ..plan.computations import Computation
from ..plan.derived_names import shown_name
from .show_spec import memory_of, places_of, show_spec, shown_extent
from .spec import Focus, View

if TYPE_CHECKING:
    from .lowering_context import LoweringContext

MOST = 4  # specs: of a line that are shown [limit]


@dataclass(frozen=True)
class TraceScope:
    """The focus after a line of a schedule.

    level    the level that executes
    extents  the extent of each index
    places   the memory of each tensor
    """

    level: str
    extents: Mapping[str, Expr]
    places: Mapping[str, str]


@dataclass(frozen=True)
class TracedLine:
    """A line of a schedule, with the specs that it leaves. A launch has a line too, that names what it computes.

    line     the line as text, without its nested block
    depth    how deep the line is nested
    specs    the specs after the line, as text
    effect   the effect of the line in numbers, as text
    scope    the focus after the line, or None
    span     the line's own, by which statements know it; None for a launch
    node     its node of the schedule tree; None for a launch
    targets  what a launch computes
    """

    line: str
    depth: int
    specs: tuple[str, ...]
    effect: str = ""
    scope: TraceScope | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
    node: Node | None = field(default=None, compare=False, repr=False)
    targets: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Moment:
    """A step of lowering, kept until someone asks: of most programs nobody does. `around`: where tensors live in it, and in
    those around it."""

    device: Device
    buffers: tuple[Buffer, ...]
    rotating: dict[str, int]
    around: tuple[Mapping[str, View], ...]
    focus: Focus
    units: dict[str, Expr]

    @property
    def alive(self) -> frozenset[str]:
        """Names of buffers."""
        return frozenset(v.buffer for views in self.around for v in views.values() if v.form != "global")


@dataclass
class _Entry:
    """`node`: None for a launch, and for what is above a block. `before`: what was in focus at the line; `done`: that, and the
    first moment after the line; `after`: all of those. `corrections`: of partial results, as text."""

    node: Node | None
    depth: int
    targets: tuple[str, ...] = ()
    before: Focus | None = None
    done: tuple[Focus, _Moment] | None = None
    corrections: str = ""
    after: list[_Moment] = field(default_factory=list)


class ScheduleTrace:
    """Filled while one program is lowered: `launch` for each launch, then `enter` and `leave` for each step; `result` is the
    text of it, written when it is asked for."""

    def __init__(self) -> None:
        self.entries: list[_Entry] = []
        self._at: dict[object, tuple[_Entry, _Entry, bool]] = {}  # key or span of a node -> (before it, its own, nested?)
        self._names: set[tuple[str, bool]] = set()
        self._around: list[Mapping[str, View]] = []

    def launch(self, computations: tuple[Computation, ...], tree: Node) -> None:
        self._at.clear()
        self._names = {(w.name, w.reduction is None) for w in computations}
        head = _Entry(None, 0, tuple(dict.fromkeys(t for w in computations for t in w.targets)))
        self.entries.append(head)
        self._block(tree, head, 1, False)

    def _block(self, tree: Node, head: _Entry, depth: int, nested: bool, at: int | None = None) -> None:
        before = head
        for x in tree.path():
            if x.line is None:
                continue
            entry = _Entry(x, depth)
            if at is None:
                self.entries.append(entry)
            else:
                self.entries.insert(at, entry)
                at += 1
            for key in (x.key, x.span):
                if key is not None:
                    self._at.setdefault(key, (before, entry, nested))
            if isinstance(x, Materialise) and x.block is not None:
                self._block(x.block, _Entry(None, depth + 1), depth + 1, True)
            before = entry

    # ------------------------------------------------------------ steps of lowering

    def enter(self, ctx: LoweringContext, focus: Focus, node: Node) -> None:
        self._around.append(focus.views)
        if not focus.computations:
            return
        found = self._at.get(node.key) or self._at.get(node.span)
        if found is None:
            found = self._completed(ctx, node)
        if found is None:
            return
        before, own, nested = found
        mine = any(type(w) is Computation and (w.name, w.reduction is None) in self._names for w in focus.computations)
        if mine == nested:
            return
        now = _Moment(ctx.device, tuple(ctx.buffers), dict(ctx.rotating), tuple(self._around), focus, dict(ctx.units))
        if own.before is None:
            own.before = focus
            if before.before is not None:
                before.done = before.before, now
        before.after.append(now)

    def leave(self) -> None:
        self._around.pop()

    def in_loop(self, tile: Node, told: str) -> None:
        """What is done to partial results in the loop of a tile: corrections, or that they go on from tile to tile."""
        found = self._at.get(tile.key) or self._at.get(tile.span)
        if found is not None:
            found[1].corrections = told

    def _completed(self, ctx: LoweringContext, tree: Node):
        """A nested block that completion gave a line only now."""
        parent = next((e for e in self.entries if e.node is not None and ctx.filled_trees.get(e.node.key) is tree), None)
        if parent is None:
            return None
        at = self.entries.index(parent) + 1
        self._block(tree, _Entry(None, parent.depth + 1), parent.depth + 1, True, at)
        return self._at.get(tree.key)

    def result(self) -> tuple[TracedLine, ...]:
        return tuple(_traced(e) for e in self.entries)


def _traced(e: _Entry) -> TracedLine:
    specs = dict.fromkeys(show_spec(now, now.focus) for now in e.after)
    line, span = (", ".join(e.targets), None) if e.node is None else (line_head(e.node.line), e.node.span)
    scope = _scope(e.after[0]) if e.after else None
    return TracedLine(line, e.depth, tuple(specs)[:MOST], _effect(e), scope, span, e.node, e.targets)


def _scope(now: _Moment) -> TraceScope:
    extents = {i: shown_extent(now.focus, i) for i in now.focus.ranges}
    places: dict[str, str] = {}
    for t, memory in places_of(now, now.focus).items():
        places.setdefault(shown_name(t), memory)
    return TraceScope(now.focus.level, extents, places)


def _effect(e: _Entry) -> str:
    if e.done is None:
        return ""
    before, now = e.done
    if isinstance(e.node, Tile):
        tiles = _tiles(before, e.node, now)
        return f"{tiles}; {e.corrections}" if e.corrections else tiles
    return _held(before, now) if isinstance(e.node, Materialise) else ""


def _held(before: Focus, now: _Moment) -> str:
    old, names = {v.buffer for v in before.views.values()}, now.alive
    new = {v.buffer: t for t, v in now.focus.views.items() if v.buffer not in old}
    parts = []
    for name, tensor in new.items():
        memory = now.device.memory(memory_of(now, now.focus, tensor))
        buffer = next((b for b in now.buffers if b.name == name), None)
        if buffer is None:
            continue  # registers: what each unit holds is known once the whole program is
        turns = now.rotating.get(name, 1)
        mine = (buffer.size.constant or 0) * buffer.dtype.bytes
        alive = [b for b in now.buffers if b.name in names and b.memory == memory.name and b.kind == "local"]
        total = sum((b.size.constant or 0) * b.dtype.bytes * now.rotating.get(b.name, 1) for b in alive)
        text = f"{turns} x {bytes_text(mine)}" if turns > 1 else bytes_text(mine)
        text += f" in {memory.name}"
        if memory.capacity is not None:
            text += f" ({bytes_text(total)} of {bytes_text(memory.capacity)})"
        parts.append(text)
    return ", ".join(parts)


def line_head(line) -> str:
    """A line as text, without its nested block."""
    if getattr(line, "block", None):
        line = replace(line, block=None)
    return format_node(line).strip() if isinstance(line, syntax.Node) else ""


def _tiles(before: Focus, tile: Tile, now: _Moment) -> str:
    counts = []
    for a in tile.axes:
        if a.index not in before.ranges:
            continue
        extent = shown_extent(before, a.index)
        if a.every is not None:
            extent = min(extent.constant, a.every) if extent.constant is not None else a.every
        counts.append(str(ceildiv(extent, a.size)))
    shown = " x ".join(f"({c})" if " " in c and len(counts) > 1 else c for c in counts) or "1"
    tiles = "1 tile" if shown == "1" else f"{shown} tiles"
    if tile.level is None:
        return tiles if shown == "1" else f"{tiles}, one after another"
    return f"{tiles}{_over(now, before.level, tile.level, [int(c) if c.isdigit() else None for c in counts])}"


def _over(now: _Moment, outer: str, level: str, counts: list[int | None]) -> str:
    """How tiles are spread over the units of a level below one unit of `outer`: `, one per block` where there are as many."""
    levels, depth = now.device.levels, now.device.depth
    passed = levels[depth(outer) + 1 : depth(level) + 1]
    if any(x.units == "open" for x in passed) or now.device.level(level).units == "open":
        return f", one per {level}"
    units = prod(now.units[x.name].constant or 0 if x.name in now.units else 1 for x in passed)
    if not passed or not units:
        return f" over the {level}s"
    if None in counts:
        return f" over {units} {level}s"
    tiles = prod(c or 1 for c in counts)
    if tiles == units:
        return f", one per {level}"
    each = -(-tiles // units)
    return f" over {units} {level}s" + (
        f": {each} each" if tiles % units == 0 else f": {each} each at most" if each > 1 else ""
    )


def show_trace(trace: tuple[TracedLine, ...]) -> str:
    """The lines as schedule text, each with its effect beside it and the spec it left below, as comments."""
    out: list[str] = []
    width = max((4 * t.depth + len(t.line) for t in trace if t.depth), default=0)
    for t in trace:
        margin = "    " * t.depth
        if t.depth:
            out.append(f"{margin + t.line:<{width}}  # {t.effect}" if t.effect else margin + t.line)
        else:
            out += ([""] if out else []) + [f"# launch: {t.line}"]
        out += [f"{margin}    # {spec}" for spec in t.specs]
    return "\n".join(out) + "\n"
