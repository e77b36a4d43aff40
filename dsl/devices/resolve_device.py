"""From the syntax of a device to its meaning: `resolve_device(decl, parents) -> Device`.

An extending device starts with everything of its parent. A level or a memory with a declaration of its own changes only the
declared facts; an instruction with one is replaced; `cost NAME 8 cycles` changes only its cost on this device. `without NAME`
removes an instruction; the parent's instructions for more lanes than the device has are removed, too. New levels are further in
than those of the parent. All errors are collected before any is raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from .. import syntax
from ..device import Device, Instr, Level, Memory
from ..errors import Diagnostics, Label, UserError, did_you_mean
from ..errors.device import (
    ArgumentMemory,
    BadFact,
    DuplicateItem,
    ExtendsCycle,
    TooFewLanes,
    UnknownLevel,
    UnknownMemory,
    UnknownParent,
)
from ..ops.index_syntax import word_span
from ..stdlib_files import std_devices
from . import device_facts as facts
from .instr_templates import expand_kinds
from .resolve_instr import LANE, resolve_instr


def resolve_devices(decls: Iterable[syntax.DeviceDecl], known: Mapping[str, Device]) -> dict[str, Device]:
    """All devices of a text, in any order; `known` are those of imported texts. Raises UserErrors."""
    diagnostics = Diagnostics()
    mine: dict[str, syntax.DeviceDecl] = {}
    for decl in decls:
        if decl.name in mine:
            diagnostics.add(_twice(f"device `{decl.name}`", decl, mine[decl.name]))
        mine.setdefault(decl.name, decl)
    done: dict[str, Device] = dict(known)
    broken: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        decl = mine[name]
        parent = decl.extends
        if parent in path:
            circle = " extends ".join([*path[path.index(parent) :], parent])
            diagnostics.add(
                ExtendsCycle(
                    f"these devices extend each other: {circle}",
                    word_span(decl.span, parent, last=True),
                    help="leave one `extends` out",
                )
            )
            broken.update(path)
            return
        if parent in mine and parent not in resolved:
            visit(parent, (*path, parent))
        if name in broken or parent in broken:  # reported already
            broken.add(name)
            return
        try:
            done[name] = resolve_device(decl, done)
        except UserError as e:
            diagnostics.add(e)
            broken.add(name)
        resolved.add(name)

    resolved: set[str] = set()
    for name in mine:
        if name not in resolved and name not in broken:
            visit(name, (name,))
    diagnostics.raise_if_any()
    return {name: done[name] for name in mine}


def resolve_device(decl: syntax.DeviceDecl, parents: Mapping[str, Device]) -> Device:
    """The resolved device. Raises a UserError of `dsl.errors.device` (or `op`, in instructions), or UserErrors for several."""
    if decl.extends is not None and decl.extends not in parents:
        raise UnknownParent(
            f"there is no device `{decl.extends}` to extend",
            word_span(decl.span, decl.extends, last=True),
            help=did_you_mean(decl.extends, [*parents, *std_devices()]),
        )
    diagnostics = Diagnostics()
    parent = parents[decl.extends] if decl.extends is not None else Device(decl.name, (), (), ())
    items = _unique(decl, diagnostics)
    levels, limits = _levels(items, parent, diagnostics)
    memories = _memories(items, parent, levels, diagnostics)
    instrs: dict[str, Instr] = {i.name: i for i in parent.instrs if _lacks_lanes(i, levels) is None}
    for item in items:
        if isinstance(item, syntax.LimitDecl):
            for name in facts.absent_facts(item, [*(i.name for i in parent.instrs), *dict(parent.limits)], diagnostics):
                instrs.pop(name, None)
                limits.pop(name, None)
            limits |= facts.figures(item, diagnostics)
        elif isinstance(item, syntax.InstrDecl):
            try:
                instrs[item.name] = resolved = resolve_instr(item, tuple(levels.values()), memories)
                _require_lanes(resolved, levels)
            except UserError as e:
                diagnostics.add(e)
    for item in items:
        if isinstance(item, syntax.LimitDecl):
            for name, figures in facts.costs(item, instrs, diagnostics).items():
                instrs[name] = replace(instrs[name], **figures)
    diagnostics.raise_if_any()
    paired = _with_restricted(tuple(instrs.values()))
    return Device(decl.name, tuple(levels.values()), tuple(memories.values()), paired, tuple(limits.items()), decl)


def _with_restricted(instrs: tuple[Instr, ...]) -> tuple[Instr, ...]:
    """Each with the one that does the same of some of its terms."""
    some = [i for i in instrs if i.condition is not None]
    return tuple(replace(i, restricted=next((x for x in some if x.restricts(i)), None)) for i in instrs)


def _lacks_lanes(instr: Instr, levels: Mapping[str, Level]) -> str | None:
    """Why a unit of the instruction's level has not the lanes that its operands are spread over; None if it has."""
    inner = [levels[name] for name in list(levels)[list(levels).index(instr.level) + 1 :]]
    spread = (c.hi for o in instr.operands for c in o.coords if c.name == LANE)
    lanes = left = max((hi for hi in spread if hi is not None), default=0) + 1
    there = " x ".join(f"{x.most} units of `{x.name}`" for x in inner) or "none"
    for level in reversed(inner):
        take = left if level.most is None else min(left, level.most)
        if level.siblings == "lockstep" and level.width is None and take & (take - 1):
            return f"takes {lanes} lanes; units of `{level.name}` come in powers of two where no `width` is stated"
        if left % take:  # some units of this level, and some of those of the next: they are no unit's
            return f"takes {lanes} lanes; below one {instr.level} are {there}"
        left //= take
    return f"takes {lanes} lanes; below one {instr.level} are {there}" if left > 1 else None


def _require_lanes(instr: Instr, levels: Mapping[str, Level]) -> None:
    """Raises TooFewLanes where no unit of the instruction's level can execute it."""
    if (why := _lacks_lanes(instr, levels)) is not None:
        help = "take other lanes and more registers, or say that there are more units"
        raise TooFewLanes(f"`{instr.name}` {why}", instr.span, help=help)


Item = syntax.LevelDecl | syntax.MemoryDecl | syntax.LimitDecl | syntax.InstrDecl


def _unique(decl: syntax.DeviceDecl, diagnostics: Diagnostics) -> list[Item]:
    """The items; of those with one name, the first."""
    seen: dict[tuple[type, str], Item] = {}
    out: list[Item] = []
    for item in (x for i in decl.items for x in _meant(i, diagnostics)):
        if not isinstance(item, syntax.LimitDecl):
            key = (type(item), item.name)
            if key in seen:
                word = {syntax.LevelDecl: "level", syntax.MemoryDecl: "memory"}.get(type(item), "instruction")
                diagnostics.add(_twice(f"{word} `{item.name}`", item, seen[key]))
                continue
            seen[key] = item
        out.append(item)
    return out


def _meant(item: Item, diagnostics: Diagnostics) -> tuple[Item, ...]:
    if not isinstance(item, syntax.InstrDecl):
        return (item,)
    try:
        return expand_kinds(item)
    except UserError as e:
        diagnostics.add(e)
        return ()


def _twice(what: str, second: syntax.Node, first: syntax.Node) -> DuplicateItem:
    labels = [Label(first.span, "first here")] if first.span is not None else []
    return DuplicateItem(f"{what} is declared twice", second.span, labels=labels, help="leave one out, or rename it")


def _levels(items: list[Item], parent: Device, diagnostics: Diagnostics) -> tuple[dict[str, Level], dict[str, float]]:
    levels = {x.name: x for x in parent.levels}
    limits = dict(parent.limits)
    stated = [x for x in items if isinstance(x, syntax.LevelDecl)]
    names = list(dict.fromkeys([*levels, *(x.name for x in stated)]))
    for item in stated:
        deeper = set(names[names.index(item.name) + 1 :])
        levels[item.name], more = facts.level(item, levels.get(item.name), deeper, diagnostics)
        limits |= dict(more)
        if item.name == names[0] and (levels[item.name].units == "shaped" or levels[item.name].most not in (None, 1)):
            diagnostics.add(BadFact(
                f"a program runs on one `{item.name}`, the outermost level of the device",
                item.span, help=f"`level {item.name}: finite 1, ...`, and several of what it is made of in a level below",
            ))  # fmt: skip
    return levels, limits


def _memories(items: list[Item], parent: Device, levels: dict[str, Level], diagnostics: Diagnostics) -> dict[str, Memory]:
    memories = {x.name: x for x in parent.memories}
    stated = [x for x in items if isinstance(x, syntax.MemoryDecl)]
    for item in stated:
        memories[item.name] = facts.memory(item, memories.get(item.name), diagnostics)
        if item.level not in levels:
            diagnostics.add(UnknownLevel(
                f"there is no level `{item.level}` to share `{item.name}`",
                word_span(item.span, item.level), help=did_you_mean(item.level, levels),
            ))  # fmt: skip
    for item in stated:
        backing = memories[item.name].backing
        if backing is not None and backing not in memories:
            diagnostics.add(UnknownMemory(
                f"there is no memory `{backing}` behind `{item.name}`",
                word_span(item.span, backing, last=True), help=did_you_mean(backing, memories),
            ))  # fmt: skip
    first, outermost = next(iter(memories.values()), None), next(iter(levels), None)
    if stated and first is not None and first.level in levels and first.level != outermost:
        diagnostics.add(ArgumentMemory(
            f"arguments live in `{first.name}`, the first memory, so it belongs to `{outermost}`, not to `{first.level}`",
            first.span, help=f"`memory {first.name} of {outermost}: ...`",
        ))  # fmt: skip
    # outermost first: one that a device adds to its parent's lies outside of those of deeper levels
    depth = {name: n for n, name in enumerate(levels)}
    return {x.name: x for x in sorted(memories.values(), key=lambda x: depth.get(x.level, 0))}
