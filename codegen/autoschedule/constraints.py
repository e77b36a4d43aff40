"""Schedules that the author wrote in part: those lines stay, sizes left `auto` are chosen, `auto` stands for the other lines.

A nest is a sequence of slots, each with the names that its sizes have in a candidate: those of a GPU's template, or one for
each line of a CPU's candidate. An author's line goes into a slot of its kind, level and indices or tensors, in order.

    tile m: 48 -> block                    tile m: 48 -> block
    auto                         -->       tile n: 128 -> block;  keep C in register;  tile k: 32;  ..
    compute with mma                       compute with mma

OPEN    Slots without a line of the author's are the candidate's where an `auto` stands, and are left out otherwise. A nest
        without a slot that it needs is no candidate.
REST    What a tile line leaves out of its slot's indices is a slot of its own, for another line, or for `auto`.
MOVES   Moves to one memory stand in any order.
BLOCKS  The block of a `keep` with an `auto` is some lines of the candidate's block in the same way. Where one of them has no
        place there, the block stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...dsl import syntax
from ...dsl.device import Device
from ...dsl.support.fast_replace import replace
from ..schedule.build_tree import constant_size, modifier
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
    part    whether it is what is left of a tile (REST)
    strided the indices of a tile whose chunks lie apart (`every`)
    online  of a tile: whether its line says so
    """

    name: str
    kind: type
    level: str | None = None
    axes: tuple[tuple[str, str], ...] = ()
    about: tuple[str, ...] = ()
    needed: bool = False
    absent: tuple[tuple[str, int], ...] = ()
    pipeline: tuple[str, int | None] = ("stages", None)
    part: bool = False
    strided: tuple[str, ...] = ()
    online: bool = False


@dataclass(frozen=True)
class PlacedLine:
    """A line of the author's in a slot. No line: the candidate's. No slot: it stands where the nest has none like it."""

    slot: Slot | None
    line: syntax.Line | None = None


Named = Mapping[str, tuple[syntax.Line, ...]]  # a candidate's lines by the slot's name
Placement = tuple[PlacedLine, ...]


def placements(
    device: Device,
    slots: Sequence[Slot],
    lines: Sequence[syntax.Line],
    alone: Callable[[syntax.Line], bool] = lambda line: False,
    opened: bool = False,
) -> Iterator[Placement]:
    """All ways to put lines into slots, the first slots first.

    alone    whether a line may stand where no slot is for it      opened   whether an `auto` stands above the first line
    """
    if not lines:
        if opened or not any(s.needed for s in slots):
            yield tuple(map(PlacedLine, slots)) if opened else ()
        return
    line, *below = lines
    if isinstance(line, syntax.AutoLine):
        yield from placements(device, slots, below, alone, True)
        return
    for n, slot in enumerate((*slots, None)):
        above = tuple(map(PlacedLine, slots[:n])) if opened else ()
        if (opened or n == 0) and alone(line):
            yield from ((*above, PlacedLine(None, line), *x) for x in placements(device, slots[n:], below, alone))
        if slot is not None and suits(device, slot, line):
            before, after = _rest(slot, line)
            # MOVES: those that were skipped may come below
            moves = [s for s in slots[:n] if not opened and slot.kind is s.kind is syntax.Move and s.level == slot.level]
            if opened or not any(s.needed for s in slots[:n] if s not in moves):
                own = (*above, *(map(PlacedLine, before) if opened else ()), PlacedLine(slot, line))
                yield from ((*own, *x) for x in placements(device, (*after, *moves, *slots[n + 1 :]), below, alone))


def _rest(slot: Slot, line: syntax.Line) -> tuple[list[Slot], list[Slot]]:
    """REST: loops over indices that the candidate cuts before those of the line, and what comes after."""
    if not isinstance(line, syntax.Tile):
        return [], []
    own = {a.index for a in line.axes}
    first = next(n for n, (i, _) in enumerate(slot.axes) if i in own) if slot.level is None else 0
    parts = slot.axes[:first], tuple(a for a in slot.axes[first:] if a[0] not in own)
    before, after = ([replace(slot, axes=x, needed=slot.needed or bool(slot.absent), part=True)] if x else [] for x in parts)
    return before, after


def suits(device: Device, slot: Slot, line: syntax.Line) -> bool:
    """Whether the author's line is of the slot's kind, level and indices or tensors."""
    if not isinstance(line, slot.kind):
        return False
    match line:
        case syntax.Tile():
            names = dict(slot.axes)
            ones = all(names[a.index] or constant_size(a.size) in (1, None) for a in line.axes if a.index in names)
            online = modifier(line, "online") is not None
            return line.level == slot.level and online == slot.online and _lie_alike(slot, line) and ones
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


def _lie_alike(slot: Slot, line: syntax.Tile) -> bool:
    """Whether the slot has each of the line's axes, with chunks next to each other, or apart, as there."""
    names = dict(slot.axes)
    return all(a.index in names and (a.every is None) == (a.index not in slot.strided) for a in line.axes)


def _suits_memory(device: Device, slot: Slot, line: syntax.Move | syntax.Keep) -> bool:
    """Whether the line names the slot's memory, or leaves it open and asks for nothing that the memory cannot have."""
    if line.memory is not None or slot.level is None:
        return line.memory in (None, slot.level)
    return asks_for_registers(device, line) in (None, device.is_register(slot.level))


def slots_of_lines(way: Sequence[syntax.Line]) -> tuple[tuple[Slot, ...], Named, dict[str, int]]:
    """Each line of a candidate as a slot, the lines by the slot's name, and the candidate's sizes."""
    slots: list[Slot] = []
    at: dict[str, int] = {}
    for n, line in enumerate(way):
        slot = Slot(str(n), type(line), pipeline=("", None))
        match line:
            case syntax.Tile():
                at |= {f"{n} {a.index}": constant_size(a.size) or 1 for a in line.axes}
                strided = tuple(a.index for a in line.axes if a.every is not None)
                axes = tuple((a.index, f"{n} {a.index}") for a in line.axes)
                online = modifier(line, "online") is not None
                first = online and line.level is None and not any(s.needed and s.kind is syntax.Tile for s in slots)
                slot = replace(slot, level=line.level, axes=axes, strided=strided, needed=first, online=online)
            case syntax.Move() | syntax.Keep():
                slot = replace(slot, level=line.memory, about=syntax.tensors_of(line))
            case syntax.Fuse():  # lines below speak of what it makes
                slot = replace(slot, about=(line.name, *line.indices), needed=True)
            case syntax.Compute():
                slot = replace(slot, about=(line.instr,) if isinstance(line.instr, str) else (), needed=True)
        slots.append(slot)
    return tuple(slots), {slot.name: (line,) for slot, line in zip(slots, way, strict=True)}, at


# ---------------------------------------------------------------- sizes


@dataclass(frozen=True)
class ParsedConstraints:
    """The author's lines in a nest's slots, the sizes that they fix, and those that `auto` leaves open, by name."""

    placement: Placement
    fixed: Mapping[str, int]
    auto_sizes: frozenset[str]


def parse_constraints(device: Device, slots: Sequence[Slot], lines: Sequence[syntax.Line]) -> ParsedConstraints | None:
    """The first placement of the author's lines whose sizes go together; None where there is none."""
    for placement in placements(device, slots, lines):
        fixed = _fixed_sizes(placement)
        if fixed is not None:
            there = {x.slot.name for x in placement if x.slot is not None}
            absent = {name: n for s in slots if s.name not in there for name, n in s.absent}
            return ParsedConstraints(placement, absent | fixed, frozenset(_auto_sizes(placement)))
    return None


def _fixed_sizes(placement: Placement) -> dict[str, int] | None:
    """None where two lines differ in one."""
    fixed: dict[str, int] = {}
    for slot, line in _tiles(placement):
        names = dict(slot.axes)
        buffers, n = slot.pipeline
        for m in line.modifiers:
            if m.name == "pipeline":
                n = constant_size(m.values[0]) if m.values else None
        for name, size in (*((names[a.index], constant_size(a.size)) for a in line.axes), (buffers, n)):
            if name and size is not None and fixed.setdefault(name, size) != size:
                return None
    return fixed


def _auto_sizes(placement: Placement) -> Iterator[str]:
    for slot, line in _tiles(placement):
        yield from (
            name for i, name in slot.axes for a in line.axes if a.index == i and name and isinstance(a.size, syntax.Auto)
        )


def _tiles(placement: Placement) -> Iterator[tuple[Slot, syntax.Tile]]:
    return ((x.slot, x.line) for x in placement if x.slot is not None and isinstance(x.line, syntax.Tile))


# ---------------------------------------------------------------- lines


def merged_lines(
    device: Device, placement: Placement, chosen: Named, at: Mapping[str, int]
) -> Iterator[tuple[PlacedLine, syntax.Line]]:
    """The author's lines with the candidate's sizes in place of `auto`, and its lines where that stands, each with its place.

    chosen   the candidate's lines      at   its sizes
    """
    written = {x.slot.name for x in placement if x.slot is not None and x.line is not None}
    last = {x.slot.name: x for x in placement if x.slot is not None}
    for x in placement:
        theirs = chosen.get(x.slot.name, ()) if x.slot is not None else ()
        if x.line is not None:
            yield x, _filled(device, x.line, (*theirs, line_of(x.slot, at))) if x.slot is not None else x.line
        elif x.slot is not None and x.slot.part:
            yield from ((x, line) for line in _part(theirs, x.slot))
        elif x.slot is not None and x.slot.name not in written and last[x.slot.name] is x:  # the later of two places
            yield from ((x, line) for line in theirs)


def _part(lines: Sequence[syntax.Line], slot: Slot) -> Iterator[syntax.Line]:
    """REST: of a candidate's tile, what it has of these axes."""
    for x in lines:
        axes = tuple(a for a in x.axes if a.index in dict(slot.axes)) if isinstance(x, syntax.Tile) else ()
        if axes:
            yield syntax.Tile(axes, slot.level)


def _filled(device: Device, line: syntax.Line, theirs: Sequence[syntax.Line]) -> syntax.Line:
    """The author's line, whose open parts are those of the first of the candidate's lines. Axes that one unit has all of may
    stand in the last one only."""
    match line, theirs[0]:
        case syntax.Tile(), syntax.Tile():
            known = {a.index: a.size for x in reversed(theirs) if isinstance(x, syntax.Tile) for a in x.axes}
            axes = (replace(a, size=known[a.index]) if isinstance(a.size, syntax.Auto) else a for a in line.axes)
            return replace(line, axes=tuple(axes))
        case syntax.Move(), syntax.Move() as move:  # with only a memory: layout, instruction and block of the candidate's
            plain = not line.modifiers and line.block is None and line.view is None
            return replace(move, span=line.span) if plain else replace(line, memory=move.memory)
        case syntax.Keep(), syntax.Keep() as keep:  # with only a memory: the block of the candidate's, or what of it is open
            block = _filled_block(device, line.block, keep.block) if not line.modifiers else line.block
            return replace(line, memory=keep.memory, block=block)
        case syntax.Compute(instr=syntax.Auto()), syntax.Compute() as compute:
            return replace(line, instr=compute.instr)
    return line


def _filled_block(
    device: Device, own: tuple[syntax.Line, ...] | None, theirs: tuple[syntax.Line, ...] | None
) -> tuple[syntax.Line, ...] | None:
    """BLOCKS"""
    if own is None or theirs is None or not any(isinstance(x, syntax.AutoLine) for x in own):
        return theirs if own is None else own
    slots, chosen, at = slots_of_lines(theirs)
    written = parse_constraints(device, slots, own)
    if written is None:
        return own
    return tuple(line for _, line in merged_lines(device, written.placement, chosen, at))


def line_of(slot: Slot, at: Mapping[str, int], modifiers: tuple[syntax.Modifier, ...] = ()) -> syntax.Line:
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
    """A candidate's lines: none for slots in `without`, those that are `given` by the slot's name, others with `modifiers`."""
    return {x.name: given.get(x.name) or (line_of(x, at, modifiers.get(x.name, ())),) for x in slots if x.name not in without}
