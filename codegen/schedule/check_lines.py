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
    BadOrder,
    BadTileSize,
    DuplicateAxis,
    HeldTwice,
    MisplacedModifier,
    ModifierArgument,
    NotYet,
    UnknownMemoryInSchedule,
)
from ...dsl.op import Op
from ...dsl.support.fast_replace import replace
from .build_tree import constant_size, modifier
from .line_modifiers import OWN_LAUNCH, asks_for_registers, kinds_of, refused_modifiers

_COMBINE = ("shuffle", "workspace", "atomic")
_ROLES = ("producer", "consumer")
_DEEPEST = 32  # buffers: of a pipeline [limit]


@dataclass
class _State:
    """What the lines above say: loops that are open, which memories hold a copy of each tensor, and which indices are reduced.

    within: the line in whose block they stand
    """

    loops: int
    held: dict[tuple[str, str], syntax.Line]
    reduced: set[str]
    within: syntax.Line | None = None


def check_lines(op: Op, device: Device, lines: tuple, diagnostics: Diagnostics) -> None:
    """Adds all mistakes to `diagnostics`."""
    reduced = {i for s in op.statements if s.reduction for i in s.reduction.indices}
    _Lines(op, device, diagnostics).block(lines, _State(0, {}, reduced))


class _Lines:
    def __init__(self, op: Op, device: Device, diagnostics: Diagnostics) -> None:
        self.op, self.device, self.diagnostics = op, device, diagnostics
        self.registers = frozenset(m.name for m in device.memories if device.is_register(m.name))
        self.reductions = {s.target: set(s.reduction.indices) for s in op.statements if s.reduction}

    def block(self, lines: tuple, state: _State) -> None:
        leaf: syntax.Line | None = None
        state = replace(state, reduced=set(state.reduced))
        written = any(line.span is not None for line in lines)
        for line in lines:
            if leaf is not None and written and line.span is None:
                continue  # put in by completion, below lines that are told already
            if leaf is not None:
                labels = [Label(leaf.span, "the leaf is here")] if leaf.span else []
                self.add(AfterCompute("a line below `compute`", line.span, labels=labels, help="move it above"))
                continue
            self.placed(line, state)
            match line:
                case syntax.Tile():
                    self.tile(line, state.reduced)
                    state.loops += line.level is None
                case syntax.Fuse():
                    if set(line.indices) & state.reduced:
                        state.reduced.add(line.name)
                case syntax.Move():
                    self.held(line, (line.tensor,), state)
                    self.pipelined(line, state)
                    self.combining(line, state.reduced)
                case syntax.Keep():
                    self.held(line, line.tensors, state)
                    self.combining(line, state.reduced)
                case syntax.Compute():
                    leaf = line
                    self.ordered(line, None)
            block = getattr(line, "block", None)
            if block:
                # what the line holds goes from the block to another memory, or comes from one; a block in the outermost memory
                # is a launch, in which nothing is held yet
                own = line.tensors if isinstance(line, syntax.Keep) else (getattr(line, "tensor", ""),)
                memory = getattr(line, "memory", None) or ""
                launch = self.is_launch(line)
                held: dict[tuple[str, str], syntax.Line] = {} if launch else {(t, memory): line for t in own}
                self.block(block, _State(state.loops, held, self.reduced_in_block(own, launch), line))

    def is_launch(self, line: syntax.Line) -> bool:
        return isinstance(line, syntax.Keep) and line.memory == self.device.memories[0].name and line.block is not None

    def reduced_in_block(self, own: tuple[str, ...], launch: bool) -> set[str]:
        """The block of an intermediate computes it, with the reductions of its statement. A copy or write-back has none."""
        inner = {t.name for t in self.op.tensors if t.role == "intermediate"}
        computed = {r for r in self.reductions for t in own if launch or (t in inner and r.partition(".")[0] == t)}
        return {i for r in computed for i in self.reductions[r]}

    def add(self, error) -> None:
        self.diagnostics.add(error)

    # ------------------------------------------------------------ modifiers

    def placed(self, line: syntax.Line, state: _State) -> None:
        kinds = (OWN_LAUNCH,) if self.is_launch(line) and state.within is None else kinds_of(line, self.registers)
        for error in refused_modifiers(line, kinds, self.device.levels[-1].name):
            self.add(error)
        for m in getattr(line, "modifiers", ()):
            span = m.span or line.span
            if m.name == "vector" and isinstance(line, syntax.Tile | syntax.Compute):
                self.vector(line, m)
            elif m.name == "pipeline" and m.values and (n := constant_size(m.values[0])) is not None and n > _DEEPEST:
                self.add(ModifierArgument(f"a pipeline of {n} buffers", span, help=f"it may be up to {_DEEPEST} deep"))

    def vector(self, line: syntax.Line, m: syntax.Modifier) -> None:
        n = constant_size(m.values[0]) if m.values else None
        if n is None:
            return
        span = m.span or line.span
        if n & (n - 1) or n > 64:
            self.add(ModifierArgument(f"no vector has {n} elements", span, help="2, 4, 8 or 16, say"))
            return
        last = constant_size(line.axes[-1].size) if isinstance(line, syntax.Tile) else None
        if last is not None and last % n:
            index = line.axes[-1].index  # type: ignore[union-attr]
            self.add(
                ModifierArgument(f"a tile of {last} is no whole number of vectors of {n}", span, help=f"`{index}: {n}`, say")
            )

    def pipelined(self, line: syntax.Move, state: _State) -> None:
        m = modifier(line, "pipeline")
        if m is not None and not state.loops:
            self.add(
                ModifierArgument("no loop above for the pipeline to rotate over", m.span or line.span, help="move it below one")
            )

    def combining(self, line: syntax.Line, reduced: set[str]) -> None:
        m = modifier(line, "by")
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
        elif isinstance(line, syntax.Tile) and word == "shuffle" and self.never_wait(line.level):
            message = f"units of `{line.level}` do not wait for each other, so none gets the others' parts"
            self.add(ModifierArgument(message, span, help="`by workspace` combines the parts in a launch that follows"))
        elif isinstance(line, syntax.Keep) and not self.reduces(line.tensors):
            within = sorted(r for r in self.reductions if r.startswith(f"{line.tensors[0]}."))
            help = f"the reduction in its statement is `{within[0]}`: keep that" if within else "leave it out"
            self.add(ModifierArgument(f"`{line.tensors[0]}` is no reduction", span, help=help))
        elif isinstance(line, syntax.Keep) and word != "shuffle":
            help = f"write it there: `tile ... -> {self.device.levels[1].name} by {word}`"
            self.add(ModifierArgument(f"`by {word}` is for the tile that distributes a reduction", span, help=help))

    def never_wait(self, level: str | None) -> bool:
        """A level that does not exist is another mistake."""
        return any(x.name == level and x.siblings == "nothing" for x in self.device.levels)

    def reduces(self, tensors: tuple[str, ...]) -> bool:
        roles = {t.name: t.role for t in self.op.tensors}
        return any(t in self.reductions or roles.get(t) == "output" for t in tensors)

    # ------------------------------------------------------------ tiles

    def tile(self, line: syntax.Tile, reduced: set[str]) -> None:
        seen: set[str] = set()
        for a in line.axes:
            if a.index in seen:
                self.add(DuplicateAxis(f"`{a.index}` is tiled twice on this line", a.span or line.span, help="write two lines"))
            seen.add(a.index)
            size, every = constant_size(a.size), constant_size(a.every)
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
        self.combining(line, reduced)
        self.online(line, reduced)
        self.carried(line)
        raster = modifier(line, "raster")
        if raster is not None and line.level is not None:
            if self.known(line.level) and self.device.level(line.level).units != "open":
                help = "it orders units that the device starts one after another"
                self.add(MisplacedModifier(f"`raster` does not apply to `{line.level}`", raster.span or line.span, help=help))
            elif len(line.axes) < 2:
                self.add(ModifierArgument("`raster` needs two indices", raster.span or line.span, help="leave it out"))
        self.within(line)
        arrange = modifier(line, "arrange")
        if arrange is not None:
            self.arranged(line, arrange, seen)

    def within(self, line: syntax.Tile) -> None:
        m = modifier(line, "within")
        if m is None or line.level is None or not self.known(line.level):
            return
        span = m.span or line.span
        memory = next((x for x in self.device.memories if x.name == m.words[0]), None)
        if memory is None:
            help = did_you_mean(m.words[0], [x.name for x in self.device.memories if x.slices > 1])
            self.add(UnknownMemoryInSchedule(f"`{self.device.name}` has no memory `{m.words[0]}`", span, help=help))
        elif self.device.level(line.level).units != "open":
            help = "it orders units that the device starts one after another"
            self.add(MisplacedModifier(f"`within` does not apply to `{line.level}`", span, help=help))
        elif memory.slices == 1:
            message = f"`{memory.name}` has no slices on `{self.device.name}`: all units of `{line.level}` share it"
            self.add(ModifierArgument(message, span, help="leave it out"))

    def online(self, line: syntax.Tile, reduced: set[str]) -> None:
        m = modifier(line, "online")
        if m is None:
            return
        span, indices = m.span or line.span, [a.index for a in line.axes]
        if len(indices) > 1:
            help = "write a line for each, and the word on one of them"
            self.add(NotYet("`online` tiles of several indices are not lowered yet", span, help=help))
        elif not reduced.issuperset(indices):
            message = f"no reduction over `{indices[0]}`: there are no running values"
            self.add(ModifierArgument(message, span, help="leave it out"))

    def carried(self, line: syntax.Tile) -> None:
        m = modifier(line, "carry")
        if m is not None and len(line.axes) > 1:
            help = "write a line for each, and the word on the one of the rows"
            self.add(NotYet("`carry` tiles of several indices are not lowered yet", m.span or line.span, help=help))

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
        m = modifier(line, "order")
        if m is None:
            return
        span = m.span or line.span
        for w in m.words:
            if axes is not None and w not in axes:
                self.add(BadOrder(f"`{w}` is no index of this line", span, help=did_you_mean(w, axes)))
        if len(set(m.words)) < len(m.words):
            self.add(BadOrder("`order` names an index twice", span, help="name each once, outermost first"))

    # ------------------------------------------------------------ what is held

    def held(self, line, tensors: tuple[str, ...], state: _State) -> None:
        """A `move` may copy the result of a launch within its memory, as it may copy an input. Without a memory: registers, if
        they can have what the line asks for; if not, it is not known yet."""
        if line.memory is None and asks_for_registers(self.device, line) is False:
            return
        for t in tensors:
            memory = line.memory or self.device.memories[-1].name
            before = state.held.get((t, memory))
            if before is not None and not (isinstance(line, syntax.Move) and self.is_launch(before)):
                labels = [Label(before.span, "held from here on")] if before.span and before.span != line.span else []
                self.add(HeldTwice(f"`{t}` is in `{memory}` already", line.span, labels=labels, help="leave one out"))
            state.held[t, memory] = line
