"""Schedules that the author wrote in part: those lines stay, sizes left `auto` are chosen, `auto` stands for the other lines.

A nest is a sequence of slots, each with the names that its sizes have in a candidate. An author's line goes into the first slot
after that of the line before which has the same kind, level and indices. The numbers in it constrain all candidates. `auto`
stands for the slots between the last line above it and the first below it. A nest without a slot for some line is no candidate.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from ...dsl import syntax
from ...dsl.device import Device
from ...dsl.support.fast_replace import replace
from ..schedule.build_tree import constant_size
from ..schedule.line_modifiers import asks_for_registers
from .line_builders import tile_text


@dataclass(frozen=True)
class Slot:
    """A place for a line: `level` of a tile, or the memory of a move or keep; `about`: tensors, or the instruction of a leaf.

    axes    of a tile: (index, name of its size in the candidates); "" if it is always 1
    needed  the other lines make no sense without it
    absent  the sizes of candidates without a line for it
    pipeline  the name that candidates have for the buffers of a tile's pipeline, and how many there are without the modifier,
              where that says so
    """

    name: str
    kind: type
    level: str | None = None
    axes: tuple[tuple[str, str], ...] = ()
    about: tuple[str, ...] = ()
    needed: bool = False
    absent: tuple[tuple[str, int], ...] = ()
    pipeline: tuple[str, int | None] = ("stages", None)


Named = tuple[tuple[str, syntax.Line], ...]  # lines with the slots they are for


@dataclass
class ParsedConstraints:
    """The author's constraints: `fixed` sizes by name, `auto_sizes` that `auto` leaves open, the slot of each line, the axes of
    the last line's slot that it does not tile."""

    fixed: dict[str, int] = field(default_factory=dict)
    auto_sizes: set[str] = field(default_factory=set)
    places: list[int] = field(default_factory=list)
    left: tuple[tuple[str, str], ...] = ()
    autos: list[int] = field(default_factory=list)  # lines above each `auto`


def parse_constraints(device: Device, slots: Sequence[Slot], lines: Sequence[syntax.Line]) -> ParsedConstraints | None:
    """The author's lines as slots; None where one of them has none here."""
    out = ParsedConstraints()
    at = -1
    for line in lines:
        if isinstance(line, syntax.AutoLine):
            out.autos.append(len(out.places))
            continue
        if out.left and len(out.places) not in out.autos:
            return None  # the rest of a tile would have to be written between two of the author's lines
        found = next((n for n in range(at + 1, len(slots)) if suits(device, slots[n], line)), None)
        if found is None:
            return None
        fixed, out.left = _sizes(slots[found], line)
        if any(out.fixed.get(name, n) != n for name, n in fixed.items()):
            return None
        out.fixed |= fixed
        out.auto_sizes |= _asked(slots[found], line)
        at = found
        out.places.append(found)
    missing = [s for n, s in enumerate(slots) if (s.needed or s.absent) and not _there(out, n)]
    for s in missing:
        out.fixed |= {name: n for name, n in s.absent if name not in out.fixed}
    return None if any(s.needed for s in missing) else out


def _there(r: ParsedConstraints, slot: int) -> bool:
    """Was a line for the slot written, or does an `auto` stand where it would?"""
    return slot in r.places or sum(place < slot for place in r.places) in r.autos


def _asked(slot: Slot, line: syntax.Line) -> set[str]:
    names = dict(slot.axes)
    return {names[a.index] for a in getattr(line, "axes", ()) if isinstance(a.size, syntax.Auto)} - {""}


def suits(device: Device, slot: Slot, line: syntax.Line) -> bool:
    """Whether the author's line is of the slot's kind, level and indices or tensors."""
    if not isinstance(line, slot.kind):
        return False
    match line:
        case syntax.Tile():
            names = dict(slot.axes)
            ones = all(names[a.index] or constant_size(a.size) in (1, None) for a in line.axes if a.index in names)
            return line.level == slot.level and all(a.index in names and a.every is None for a in line.axes) and ones
        case syntax.Move():
            return line.tensor in slot.about and _suits_memory(device, slot, line)
        case syntax.Keep():
            return set(line.tensors) <= set(slot.about) and _suits_memory(device, slot, line)
        case syntax.Fuse():
            return (line.name, *line.indices) == slot.about
        case syntax.Compute():
            if isinstance(line.instr, syntax.Auto):
                return True
            names = {n for i in device.instrs if i.name in slot.about for n in (i.name, i.family)}
            return line.instr in names if line.instr is not None else not slot.about
    return False


def _suits_memory(device: Device, slot: Slot, line: syntax.Move | syntax.Keep) -> bool:
    """Whether the line names the slot's memory, or leaves it open and asks for nothing that the memory cannot have."""
    if line.memory is not None or slot.level is None:
        return line.memory in (None, slot.level)
    return asks_for_registers(device, line) in (None, device.is_register(slot.level))


def _sizes(slot: Slot, line: syntax.Line) -> tuple[dict[str, int], tuple[tuple[str, str], ...]]:
    """Sizes that the line fixes, and the slot's axes that it leaves out."""
    fixed: dict[str, int] = {}
    if not isinstance(line, syntax.Tile):
        return fixed, ()
    names = dict(slot.axes)
    for a in line.axes:
        n = constant_size(a.size)
        if names[a.index] and n is not None:
            fixed[names[a.index]] = n
    buffers, n = slot.pipeline
    for m in line.modifiers:
        if m.name == "pipeline":
            n = constant_size(m.values[0]) if m.values else None
    if n is not None:
        fixed[buffers] = n
    mine = {a.index for a in line.axes}
    return fixed, tuple((i, name) for i, name in slot.axes if i not in mine) if line.level is not None else ()


def complete_lines(
    slots: Sequence[Slot], lines: Sequence[syntax.Line], r: ParsedConstraints, chosen: Named, at: Mapping[str, int]
) -> tuple:
    """The author's lines with sizes in place of `auto`, and the chosen lines where it stands; `at`: the candidate's sizes."""
    by_slot: dict[str, list[syntax.Line]] = {}
    for name, line in chosen:
        by_slot.setdefault(name, []).append(line)
    written = [x for x in lines if not isinstance(x, syntax.AutoLine)]
    theirs = [_with_all_axes((*by_slot.get(slots[n].name, ()), _line_of(slots[n], at))[0], slots[n], at) for n in r.places]
    filled = [filled_line(*x) for x in zip(written, theirs, strict=True)]
    out: list[syntax.Line] = []
    used = {slots[n].name for n in r.places}
    for n in range(len(filled) + 1):
        if n in r.autos:
            first = r.places[n - 1] + 1 if n else 0
            last = r.places[n] if n < len(filled) else len(slots)
            if r.left and n == r.autos[0]:
                rest = tuple(syntax.TileAxis(i, syntax.Num(at[name] if name else 1)) for i, name in r.left)
                out.append(syntax.Tile(rest, slots[first - 1].level))
            # moves stand in any order: what was not written of those before comes too
            before = slots[:first] if n and slots[first - 1].kind is syntax.Move else ()
            early = [s for s in before if s.kind is syntax.Move and s.level == slots[first - 1].level]
            names = [s.name for s in (*early, *slots[first:last]) if s.name not in used]
            for k, name in enumerate(names):  # a slot that may stand in two places is taken at the later one
                out += by_slot.get(name, []) if name not in names[k + 1 :] else []
            used.update(names)
        out += filled[n : n + 1]
    return tuple(out)


def _with_all_axes(line: syntax.Line, slot: Slot, at: Mapping[str, int]) -> syntax.Line:
    """The candidate's line with all axes of its slot: it leaves out those that one unit has all of."""
    if not isinstance(line, syntax.Tile):
        return line
    own = {a.index for a in line.axes}
    others = tile_text(*((i, at[name] if name else 1) for i, name in slot.axes if i not in own))
    return replace(line, axes=(*line.axes, *others.axes))


def filled_line(line: syntax.Line, theirs: syntax.Line) -> syntax.Line:
    """The author's line, whose open parts are those of the candidate's line."""
    match line, theirs:
        case syntax.Tile(), syntax.Tile():
            known = {a.index: a.size for a in theirs.axes}
            axes = (replace(a, size=known[a.index]) if isinstance(a.size, syntax.Auto) else a for a in line.axes)
            return replace(line, axes=tuple(axes))
        case syntax.Move(), syntax.Move():  # with only a memory: layout, instruction and block of the candidate's
            plain = not line.modifiers and line.block is None and line.view is None
            return replace(theirs, span=line.span) if plain else replace(line, memory=theirs.memory)
        case syntax.Keep(), syntax.Keep():
            return replace(line, memory=theirs.memory)
        case syntax.Compute(instr=syntax.Auto()), syntax.Compute():
            return replace(line, instr=theirs.instr)
    return line


# ---------------------------------------------------------------- slots and lines


def slot_of(line: syntax.Line) -> Slot:
    """The slot that only this line is for; each size has the name of its index."""
    match line:
        case syntax.Tile():
            return Slot("", syntax.Tile, line.level, tuple((a.index, a.index) for a in line.axes))
        case syntax.Move():
            return Slot("", syntax.Move, line.memory, about=(line.tensor,))
        case syntax.Keep():
            return Slot("", syntax.Keep, line.memory, about=line.tensors)
        case syntax.Fuse():
            return Slot("", syntax.Fuse, about=(line.name, *line.indices))
    return Slot("", type(line), about=(line.instr,) if isinstance(line, syntax.Compute) and isinstance(line.instr, str) else ())


def _line_of(slot: Slot, at: Mapping[str, int], modifiers: tuple[syntax.Modifier, ...] = ()) -> syntax.Line:
    """The line of a slot for a candidate's sizes."""
    if slot.kind is syntax.Tile:
        return tile_text(*((i, at[name] if name else 1) for i, name in slot.axes), level=slot.level, modifiers=modifiers)
    if slot.kind is syntax.Move:
        return syntax.Move(slot.about[0], slot.level, modifiers=modifiers)
    return syntax.Keep(slot.about[:1], slot.level) if slot.kind is syntax.Keep else syntax.Compute(next(iter(slot.about), None))


def lines_of_slots(
    slots: Sequence[Slot],
    at: Mapping[str, int],
    without: Container[str],
    modifiers: Mapping[str, tuple[syntax.Modifier, ...]],
    given: Mapping[str, tuple[syntax.Line, ...]],
) -> Named:
    """A candidate's lines: none for slots in `without`, those that are `given` by the slot's name, otherwise with `modifiers`.
    A slot that may stand in two places is taken at the later one."""
    last = {x.name: n for n, x in enumerate(slots)}
    return tuple(
        (x.name, line)
        for n, x in enumerate(slots)
        if last[x.name] == n and x.name not in without
        for line in given.get(x.name) or (_line_of(x, at, modifiers.get(x.name, ())),)
    )
