"""Checks that the names in a schedule's lines exist: all errors at once, before anything is lowered.

OF_ONE_UNIT   what a block of a `move` or `keep` is for belongs to one unit of the level in focus where the block begins. No
              other unit executes the block, so its lines distribute nothing over units of that level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...dsl import syntax
from ...dsl.device import Device
from ...dsl.errors import Diagnostics, did_you_mean
from ...dsl.errors.schedule import (
    BadFuse,
    BadLayout,
    BadOrder,
    LateInline,
    LevelOrder,
    NameClash,
    NotYet,
    UnknownIndexInSchedule,
    UnknownInstr,
    UnknownLevel,
    UnknownMemoryInSchedule,
    UnknownTensorInSchedule,
)
from ...dsl.module import std_roots
from ...dsl.op import Op
from ...dsl.ops.index_syntax import word_span
from ...dsl.source import Span
from ...dsl.text.format import format_node
from .check_lines import check_lines
from .synthetic_spans import author_of, is_filled_in

NOT_YET = ("persistent", "multicast")


def check_names(op: Op, device: Device, lines: tuple, diagnostics: Diagnostics | None = None) -> None:
    """Names, then what each line says by itself. Raises UserErrors, for what is in `diagnostics` already too."""
    diagnostics = diagnostics or Diagnostics()
    indices = {i for s in op.statements for i, _ in s.ranges}
    tensors = {t.name for t in op.tensors} | {s.target for s in op.statements}
    _Names(op, device, tensors, diagnostics).block(lines, set(indices), device.levels[0].name, None)
    check_lines(op, device, lines, diagnostics)
    diagnostics.raise_if_any()


def check_levels(device: Device, lines: tuple[syntax.Line, ...]) -> None:
    """The order of levels once more, with the lines that were filled in between the author's. Raises LevelOrder."""
    _check_levels(device, lines, None, None, "")


def _check_levels(device: Device, lines: Iterable[syntax.Line], into: syntax.Tile | None, above: Span | None, own: str) -> None:
    """`into`: the line whose level is in focus;  `above`: the place of the author's last line."""
    now = device.levels[0].name if into is None or into.level is None else into.level
    for line in lines:
        above = above if is_filled_in(line.span) else line.span
        if isinstance(line, syntax.Tile) and line.level is not None:
            mistake = _level_mistake(device, line, line.level, now, own)
            if mistake is None:
                into, now = line, line.level
                continue
            other = line if is_filled_in(line.span) else into
            if other is not None and is_filled_in(other.span):
                where = "below" if other is line else "above"
                mistake.note = f"{where} it comes `{format_node(other).strip()}`, which was filled in"
            mistake.span = author_of(mistake.span, above)
            raise mistake
        _check_levels(device, syntax.block_of(line), into, above, now)


class _Names:
    def __init__(self, op: Op, device: Device, tensors: set[str], diagnostics: Diagnostics) -> None:
        self.op, self.device, self.tensors, self.diagnostics = op, device, tensors, diagnostics
        self.levels = [x.name for x in device.levels]
        self.memories = [x.name for x in device.memories]

    def block(self, lines: tuple, indices: set[str], level: str, staged: str | None, own: str = "") -> None:
        """`own`: the level in focus where a block of a `move` or `keep` begins (OF_ONE_UNIT)."""
        for line in lines:
            match line:
                case syntax.Tile():
                    for a in line.axes:
                        self.known(a.index, indices, UnknownIndexInSchedule, "index", a.span or line.span)
                    level = self.level(line, level, own)
                case syntax.Fuse():
                    self.fuse(line, indices, staged)
                case syntax.Move():
                    self.known(line.tensor, self.tensors, UnknownTensorInSchedule, "tensor", word_span(line.span, line.tensor))
                    self.memory(line)
                    self.view(line, indices)
                    if line.block is not None:
                        self.block(line.block, indices | self.axes_of(line.tensor), level, line.tensor, level)
                case syntax.Keep():
                    for t in line.tensors:
                        self.known(t, self.tensors, UnknownTensorInSchedule, "tensor", word_span(line.span, t))
                    self.memory(line)
                    if line.block is not None:
                        self.block(line.block, set(indices), level, None, level)
                case syntax.Compute(instr=str() as name):
                    self.instr(name, line.span)
                case syntax.Inline():
                    for t in line.tensors:
                        self.known(t, self.tensors, UnknownTensorInSchedule, "tensor", word_span(line.span, t))
                        self.inlined(t, line)
                    if own:
                        message = "`inline` is a line of the schedule, not of a block"
                        self.diagnostics.add(LateInline(message, line.span, help="move it up, out of the block"))
            for m in getattr(line, "modifiers", ()):
                if m.name == "with":
                    for w in m.words:
                        self.instr(w, m.span or line.span)
                if m.name == "order" and isinstance(line, syntax.Compute):
                    for w in m.words:
                        self.known(w, indices, BadOrder, "index", word_span(m.span or line.span, w))
                if m.name in NOT_YET:
                    self.diagnostics.add(NotYet(f"`{m.name}` is not lowered yet", m.span or line.span, help="leave it out"))

    def view(self, line: syntax.Move, indices: set[str]) -> None:
        """The indices of `as (...)`: each is there, and stands once."""
        seen: set[str] = set()
        for i in line.view or ():
            self.known(i, indices, UnknownIndexInSchedule, "index", word_span(line.span, i))
            if i in seen:
                help = "name each once, outermost first"
                self.diagnostics.add(BadLayout(f"`as (...)` names `{i}` twice", word_span(line.span, i, last=True), help=help))
            seen.add(i)

    def fuse(self, line: syntax.Fuse, indices: set[str], staged: str | None) -> None:
        for i in line.indices:
            self.known(i, indices, BadFuse, "index", word_span(line.span, i))
        if len(set(line.indices)) < len(line.indices):
            self.diagnostics.add(BadFuse("`fuse` names an index twice", line.span, help="name each once, outermost first"))
        mine = set(line.indices)
        where = [s for s in self.op.statements if mine <= {i for i, _ in s.ranges}]
        if staged is None and where and not any(mine <= set(s.indices) or not mine & set(s.indices) for s in where):
            help = "fuse free indices with each other, and reduced ones with each other"
            self.diagnostics.add(BadFuse("fused indices are all free or all reduced", line.span, help=help))
        taken = "an index" if line.name in indices - set(line.indices) else self.taken(line.name)
        if taken:
            message = f"`{line.name}` is {taken} already"
            self.diagnostics.add(NameClash(message, line.span, help="give the fused index a name of its own"))
        indices.add(line.name)

    def taken(self, name: str) -> str | None:
        """What of the op or the device goes by that name."""
        if name in {v.name for v in self.op.dims} | {v.name for v, _ in self.op.derived} | {n for n, _ in self.op.params}:
            return "a size of the op"
        kinds = (("a tensor", self.tensors), ("a level", self.levels), ("a memory", self.memories))
        return next((what for what, names in kinds if name in names), None)

    def axes_of(self, tensor: str) -> set[str]:
        """Names that axes of a staged copy go by."""
        t = next((t for t in self.op.tensors if t.name == tensor), None)
        return {f"{tensor}.{d}" for d in range(len(t.shape))} if t else set()

    def known(self, name: str, names: set[str], error: type, what: str, span) -> None:
        if name not in names:
            self.diagnostics.add(error(f"there is no {what} `{name}` here", span, help=did_you_mean(name, names)))

    def level(self, line: syntax.Tile, now: str, own: str) -> str:
        if line.level is None:
            return now
        at = word_span(line.span, line.level, last=True)
        if line.level not in self.levels:
            help = _or_elsewhere(line.level, self.levels, lambda d: [x.name for x in d.levels])
            self.diagnostics.add(UnknownLevel(f"`{self.device.name}` has no level `{line.level}`", at, help=help))
            return now
        mistake = _level_mistake(self.device, line, line.level, now, own)
        if mistake is not None:
            self.diagnostics.add(mistake)
            return now
        return line.level

    def inlined(self, name: str, line: syntax.Inline) -> None:
        if any(s.target == name and s.reduction is not None for s in self.op.statements):
            self.diagnostics.add(LateInline(f"`{name}` is a reduction", line.span, help="keep it, or leave the line out"))
        elif any(t.name == name and t.role != "intermediate" for t in self.op.tensors):
            role = self.op.tensor(name).role
            article = "an" if role[0] in "io" else "a"
            self.diagnostics.add(LateInline(f"`{name}` is {article} {role}", line.span, help="leave the line out"))

    def memory(self, line) -> None:
        if line.memory is not None and line.memory not in self.memories:
            help = _or_elsewhere(line.memory, self.memories, lambda d: [m.name for m in d.memories])
            self.diagnostics.add(
                UnknownMemoryInSchedule(
                    f"`{self.device.name}` has no memory `{line.memory}`", word_span(line.span, line.memory), help=help
                )
            )

    def instr(self, name: str, span) -> None:
        span = word_span(span, name)
        names = {n for i in self.device.instrs for n in (i.name, i.family) if n}
        if name not in names:
            message = f"`{self.device.name}` has no instruction `{name}`"
            self.diagnostics.add(UnknownInstr(message, span, help=did_you_mean(name, names)))


def _level_mistake(device: Device, line: syntax.Tile, level: str, now: str, own: str) -> LevelOrder | None:
    """What is wrong with the level of a line, where `now` is in focus, in a block of one unit of `own` ("": in none)."""
    levels = [x.name for x in device.levels]
    at = word_span(line.span, level, last=True)
    if levels.index(level) < levels.index(now):
        return LevelOrder(f"the focus is a {now} already; `{level}` is outside it", at, help="move this line up")
    if level == own != levels[0]:
        message = f"this block is for one {own}, and no other takes part in it"
        inner = levels[levels.index(own) + 1 :]
        help = f"leave `-> {own}` out" + (f", or deal to {', '.join(f'`{x}`' for x in inner)}" if inner else "")
        return LevelOrder(message, at, help=help)
    if level == levels[0]:
        message = f"`{level}` is the outermost level: the focus is there from the start"
        return LevelOrder(message, at, help=f"tiles go to {', '.join(levels[1:])}")
    return None


def _or_elsewhere(word: str, known: Iterable[str], names: Callable[[Device], Iterable[str]]) -> str | None:
    """What may be meant: a name of this device, or devices of the library that have it."""
    said = did_you_mean(word, known)
    others = [d for d in std_roots() if word in names(d)]
    if not others or (said and said.startswith("did you mean")):
        return said
    have = " and ".join(f"`{d.name}`" for d in others) + (" has it" if len(others) == 1 else " have it")
    return f"{said}; {have}: a schedule for one says so, `for OP on {others[0].name}`"
