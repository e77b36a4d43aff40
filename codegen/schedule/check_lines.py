"""Checks of a schedule's lines by themselves: the places and values of modifiers, and repetitions.

Properties that depend on sizes (units, capacities, `arrange`) are checked where the numbers are known.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...dsl import syntax
from ...dsl.device import Device
from ...dsl.errors import Diagnostics, did_you_mean
from ...dsl.errors.base import Label
from ...dsl.errors.schedule import (
    AfterCompute,
    BadArrange,
    BadLayout,
    BadOrder,
    BadTileSize,
    DuplicateAxis,
    HeldTwice,
    MisplacedModifier,
    ModifierArgument,
    NotYet,
)
from ...dsl.op import Op
from ...dsl.support.fast_replace import replace

# Where each modifier may stand. A name that is missing is not checked here.
_PLACES = {
    "unroll": ("tile", "compute"),
    "vector": ("tile", "move", "keep", "compute"),
    "pipeline": ("tile", "move"),
    "order": ("tile", "compute"),
    "raster": ("tile",),
    "arrange": ("tile",),
    "pad": ("move", "keep"),
    "swizzle": ("move", "keep"),
    "layout": ("move", "keep"),
    "peel": ("tile",),
    "by": ("tile", "move", "keep"),
    "with": ("move", "keep", "compute"),
}
_LOOPS = ("unroll", "pipeline", "peel")  # on a tile: only on one whose tiles come one after another
_UNITS = ("raster", "arrange", "by")  # on a tile: only on one that is dealt to units
ELEMENT_ORDER = ("layout", "pad", "swizzle")
_COMBINE = ("shuffle", "workspace", "atomic")
_ROLES = ("producer", "consumer")
_DEEPEST = 32  # buffers: of a pipeline [limit]


@dataclass
class _State:
    """What the lines above say: loops that are open, and which memories hold a copy of each tensor."""

    loops: int
    held: dict[tuple[str, str], syntax.Line]


def check_lines(op: Op, device: Device, lines: tuple, diagnostics: Diagnostics) -> None:
    """Adds all mistakes to `diagnostics`."""
    _Lines(op, device, diagnostics).block(lines, _State(0, {}))


class _Lines:
    def __init__(self, op: Op, device: Device, diagnostics: Diagnostics) -> None:
        self.op, self.device, self.diagnostics = op, device, diagnostics
        self.registers = {m.name for m in device.memories if m.level == device.levels[-1].name}
        self.reduced = {i for s in op.statements if s.reduction for i in s.reduction.indices}
        self.results = {s.target for s in op.statements if s.reduction}

    def block(self, lines: tuple, state: _State) -> None:
        leaf: syntax.Line | None = None
        state = replace(state)
        written = any(line.span is not None for line in lines)
        for line in lines:
            if leaf is not None and written and line.span is None:
                continue  # put in by completion, below lines that are told already
            if leaf is not None:
                labels = [Label(leaf.span, "the leaf is here")] if leaf.span else []
                self.add(AfterCompute("a line below `compute`", line.span, labels=labels, help="move it above"))
                continue
            self.placed(line)
            match line:
                case syntax.Tile():
                    self.tile(line)
                    state.loops += line.level is None
                case syntax.Fuse():
                    if set(line.indices) & self.reduced:
                        self.reduced.add(line.name)
                case syntax.Move():
                    self.held(line, (line.tensor,), state)
                    self.pipelined(line, state)
                    self.combining(line, self.reduced)
                case syntax.Keep():
                    self.held(line, line.tensors, state)
                    self.combining(line, self.reduced)
                case syntax.Compute():
                    leaf = line
                    self.ordered(line, None)
            block = getattr(line, "block", None)
            if block:
                # what the line holds goes from the block to another memory, or comes from one; a block in the outermost memory
                # is a launch, in which nothing is held yet
                own = line.tensors if isinstance(line, syntax.Keep) else (getattr(line, "tensor", ""),)
                memory = getattr(line, "memory", None) or ""
                launch = isinstance(line, syntax.Keep) and memory == self.device.memories[0].name
                self.block(block, _State(state.loops, {} if launch else {(t, memory): line for t in own}))

    def add(self, error) -> None:
        self.diagnostics.add(error)

    # ------------------------------------------------------------ modifiers

    def placed(self, line: syntax.Line) -> None:
        word = type(line).__name__.lower()
        for m in getattr(line, "modifiers", ()):
            span = m.span or line.span
            allowed = _PLACES.get(m.name)
            if allowed is not None and word not in allowed:
                on = " and ".join(f"`{x}`" for x in allowed)
                self.add(MisplacedModifier(f"`{m.name}` does not apply to a `{word}`", span, help=f"it belongs on {on}"))
            elif isinstance(line, syntax.Tile) and line.level is not None and m.name in _LOOPS:
                self.add(
                    MisplacedModifier(
                        f"`{m.name}` is for loops; these tiles go to units of `{line.level}`", span, help="leave it out"
                    )
                )
            elif isinstance(line, syntax.Tile) and line.level is None and m.name in _UNITS:
                inner = self.device.levels[-1].name
                self.add(
                    MisplacedModifier(
                        f"`{m.name}` is for tiles that go to units; these are loop tiles",
                        span,
                        help=f"distribute them, `-> {inner}`, or leave it out",
                    )
                )
            elif m.name == "vector":
                self.vector(line, m)
            elif m.name == "pipeline" and m.values and (n := _number(m.values[0])) is not None and n > _DEEPEST:
                self.add(ModifierArgument(f"a pipeline of {n} buffers", span, help=f"it may be up to {_DEEPEST} deep"))
            elif m.name in ELEMENT_ORDER and getattr(line, "memory", None) in self.registers:
                self.add(BadLayout(f"registers have no `{m.name}`", span, help="their layout follows from the tiles below"))

    def vector(self, line: syntax.Line, m: syntax.Modifier) -> None:
        n = _number(m.values[0]) if m.values else None
        if n is None:
            return
        span = m.span or line.span
        if n & (n - 1) or n > 64:
            self.add(ModifierArgument(f"no vector has {n} elements", span, help="2, 4, 8 or 16, say"))
            return
        last = _number(line.axes[-1].size) if isinstance(line, syntax.Tile) else None
        if last is not None and last % n:
            index = line.axes[-1].index  # type: ignore[union-attr]
            self.add(
                ModifierArgument(f"a tile of {last} is no whole number of vectors of {n}", span, help=f"`{index}: {n}`, say")
            )

    def pipelined(self, line: syntax.Move, state: _State) -> None:
        m = _modifier(line, "pipeline")
        if m is not None and not state.loops:
            self.add(
                ModifierArgument("no loop above for the pipeline to rotate over", m.span or line.span, help="move it below one")
            )

    def combining(self, line: syntax.Line, reduced: set[str]) -> None:
        m = _modifier(line, "by")
        if m is None:
            return
        word, span = m.words[0], m.span or line.span
        if word in _ROLES:
            self.add(NotYet(f"`by {word}` is not lowered yet", span, help="leave it out: all units do both"))
        elif word not in _COMBINE or isinstance(line, syntax.Move):
            known = _ROLES if isinstance(line, syntax.Move) else (*_COMBINE, *_ROLES)
            self.add(ModifierArgument(f"`by {word}` means nothing here", span, help=did_you_mean(word, known)))
        elif isinstance(line, syntax.Tile) and not any(a.index in reduced for a in line.axes):
            what = ", ".join(f"`{a.index}`" for a in line.axes)
            self.add(ModifierArgument(f"no reduction over {what}: units have nothing to combine", span, help="leave it out"))
        elif isinstance(line, syntax.Keep) and not self.reduces(line.tensors):
            within = sorted(r for r in self.results if r.startswith(f"{line.tensors[0]}."))
            help = f"the reduction in its statement is `{within[0]}`: keep that" if within else "leave it out"
            self.add(ModifierArgument(f"`{line.tensors[0]}` is no reduction", span, help=help))

    def reduces(self, tensors: tuple[str, ...]) -> bool:
        roles = {t.name: t.role for t in self.op.tensors}
        return any(t in self.results or roles.get(t) == "output" for t in tensors)

    # ------------------------------------------------------------ tiles

    def tile(self, line: syntax.Tile) -> None:
        seen: set[str] = set()
        for a in line.axes:
            if a.index in seen:
                self.add(DuplicateAxis(f"`{a.index}` is tiled twice on this line", a.span or line.span, help="write two lines"))
            seen.add(a.index)
            size, every = _number(a.size), _number(a.every)
            if size is not None and every is not None and every % size:
                message = f"chunks of {size} every {every} overlap: {every} is no multiple of {size}"
                self.add(BadTileSize(message, a.span or line.span, help=f"`every {-(-every // size) * size}`, say"))
            if every is not None and line.level is None:
                help = f"add `-> {self.device.levels[-1].name}`, say"
                self.add(
                    BadTileSize(
                        "`every` distributes chunks over units, and the line names none", a.span or line.span, help=help
                    )
                )
        self.ordered(line, seen)
        self.combining(line, self.reduced)
        raster = _modifier(line, "raster")
        if raster is not None and line.level is not None:
            if self.known(line.level) and self.device.level(line.level).units != "open":
                help = "it orders units that the device starts one after another"
                self.add(MisplacedModifier(f"`raster` does not apply to `{line.level}`", raster.span or line.span, help=help))
            elif len(line.axes) < 2:
                self.add(ModifierArgument("`raster` needs two indices", raster.span or line.span, help="leave it out"))
        arrange = _modifier(line, "arrange")
        if arrange is not None:
            self.arranged(line, arrange, seen)

    def known(self, level: str) -> bool:
        return any(x.name == level for x in self.device.levels)

    def arranged(self, line: syntax.Tile, m: syntax.Modifier, axes: set[str]) -> None:
        given = [i for i, _ in m.maps]
        span = m.span or line.span
        for i in given:
            if i not in axes:
                self.add(BadArrange(f"`{i}` is no index of this tile", span, help=did_you_mean(i, axes)))
        if len(set(given)) < len(given):
            self.add(BadArrange("`arrange` maps an index twice", span, help="keep one of the maps"))
        for i in sorted(axes - set(given)):
            self.add(BadArrange(f"`arrange` has no map for `{i}`", span, help=f"add `{i} = ...`"))

    def ordered(self, line: syntax.Line, axes: set[str] | None) -> None:
        m = _modifier(line, "order")
        if m is None:
            return
        names = axes if axes is not None else {i for s in self.op.statements for i, _ in s.ranges} | self.reduced
        span = m.span or line.span
        for w in m.words:
            if w not in names and axes is not None:
                self.add(BadOrder(f"`{w}` is no index of this line", span, help=did_you_mean(w, names)))
        if len(set(m.words)) < len(m.words):
            self.add(BadOrder("`order` names an index twice", span, help="name each once, outermost first"))

    # ------------------------------------------------------------ what is held

    def held(self, line, tensors: tuple[str, ...], state: _State) -> None:
        for t in tensors:
            memory = line.memory
            if memory is None:
                continue
            before = state.held.get((t, memory))
            if before is not None:
                labels = [Label(before.span, "held from here on")] if before.span and before.span != line.span else []
                self.add(HeldTwice(f"`{t}` is in `{memory}` already", line.span, labels=labels, help="leave one out"))
            state.held[t, memory] = line


def _modifier(line, name: str) -> syntax.Modifier | None:
    return next((m for m in getattr(line, "modifiers", ()) if m.name == name), None)


def _number(size) -> int | None:
    return int(size.value) if isinstance(size, syntax.Num) else None
