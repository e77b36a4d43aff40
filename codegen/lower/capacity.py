"""The peak use of each memory by a program, against the device's capacity, and the number of units that it needs.

PEAK         buffers whose lifetimes do not overlap share space: those that are live at one time count together
BEGUN        registers count from where something first uses them
EVERY_UNIT   a buffer of an inner level counts once for each unit that shares the memory
SPILL        registers beyond the register file are a note if the compiler of the text spills them, else an error; the
             device's text states how much memory it has for them
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache

from ...dsl import syntax
from ...dsl.device import Device, Memory
from ...dsl.errors import Diagnostics
from ...dsl.errors.base import Label
from ...dsl.errors.schedule import CapacityExceeded, TooManyUnits
from ...dsl.source import Span
from ...dsl.support.amounts import bytes_text
from ...dsl.support.fast_replace import replace
from ..analysis.lifetimes import lifetimes
from ..ir.program import Program
from ..ir.tile_ir import Buffer, Launch
from ..plan.derived_names import buffer_owners
from ..schedule.build_tree import constant_size, modifier

SPILL = 64 << 10  # bytes: spilled registers, if lanes are counted in bytes and the device's text states no size [limit]
_TRIES = 12  # compilations: that the search for a smaller size may take [limit]


@dataclass(frozen=True)
class MemoryShare:
    """One buffer's share of a memory: `bytes` for all units that share it."""

    buffer: Buffer
    bytes: int


@dataclass(frozen=True)
class MemoryPeak:
    """The most that is alive at one time in one instance of a memory, which is in `launch`."""

    memory: Memory
    shares: tuple[MemoryShare, ...]
    launch: str
    spilled: bool = False  # of what registers do not hold, of all units below one of the memory's level

    @property
    def bytes(self) -> int:
        return sum(h.bytes for h in self.shares)

    @property
    def over(self) -> bool:
        return self.memory.capacity is not None and self.bytes > self.memory.capacity


def memory_peaks(program: Program) -> dict[str, MemoryPeak]:
    """By memory, over all launches; memories that hold no local buffer are left out."""
    peaks = ((m.name, _highest(program, m, lambda b, m=m: b.memory == m.name, _bytes)) for m in program.device.memories)
    return {name: peak for name, peak in peaks if peak is not None}


def spill_peaks(program: Program) -> dict[str, MemoryPeak]:
    """By memory of registers: what the compiler of the text may have to hold in memory instead (SPILL)."""
    device = program.device
    found: dict[str, MemoryPeak] = {}
    for m in device.memories:
        if m.registers is None or (limit := _spill_limit(device, m)) is None:
            continue
        memory = replace(m, level=device.levels[max(0, device.depth(m.level) - 1)].name, capacity=limit, registers=None)
        # A unit's own buffers, in whichever memory: variables of the text.
        peak = _highest(program, memory, lambda b, level=m.level: b.level == level, _spilled)
        if peak is not None:
            found[m.name] = replace(peak, spilled=True)
    return found


def _highest(
    program: Program,
    memory: Memory,
    counts: Callable[[Buffer], bool],
    bytes_of: Callable[[Device, Launch, Memory, Buffer], int],
) -> MemoryPeak | None:
    """The highest peak of the buffers that count, over all launches; None where there are none."""
    found = None
    for launch in program.launches:
        for lifetime in lifetimes(launch.body):
            live = [b for b in (lifetime.live if memory.registers is None else lifetime.used) if counts(b)]
            shares = tuple(MemoryShare(b, bytes_of(program.device, launch, memory, b)) for b in live)
            peak = MemoryPeak(memory, shares, launch.name)
            if live and (found is None or peak.bytes > found.bytes):
                found = peak
    return found


def _spilled(device: Device, launch: Launch, memory: Memory, b: Buffer) -> int:
    """Bytes, for all units below one of the memory's level. A bool is a mask."""
    size = b.size.constant or 0
    return size * (4 if b.dtype.kind == "bool" else b.dtype.bytes) * _sharers(device, launch, memory, b)


def _spill_limit(device: Device, memory: Memory) -> int | None:
    """Bytes; None: nothing spills."""
    return memory.spill or (SPILL if device.level(memory.level).bytes is not None else None)


def _same_peak(peak: MemoryPeak, program: Program) -> MemoryPeak | None:
    """What another program has of it."""
    return (spill_peaks if peak.spilled else memory_peaks)(program).get(peak.memory.name)


def exceeds_alone(device: Device, b: Buffer) -> bool:
    """Whether a buffer by itself is larger than its memory, so that `check_capacity` refuses the program."""
    memory = device.memory(b.memory)
    refused = memory.backing is None or b.span is not None
    return refused and memory.capacity is not None and (b.size.constant or 0) * b.dtype.bytes > memory.capacity


def _bytes(device: Device, launch: Launch, memory: Memory, b: Buffer) -> int:
    size = b.size.constant or 0
    if memory.registers is not None and device.level(memory.level).bytes:
        return size * memory.registers[1]  # a vector register holds a lane's share, whatever the type
    return size * b.dtype.bytes * _sharers(device, launch, memory, b)


def _sharers(device: Device, launch: Launch, memory: Memory, b: Buffer) -> int:
    """How many units that own a `b` each share one instance of the memory."""
    counts = {u.level: u.count.constant for u in launch.units}
    total = 1
    for level in device.levels[device.depth(memory.level) + 1 : device.depth(b.level) + 1]:
        if level.units == "finite" and level.name in counts:
            total *= level.most or 1
        elif level.name in counts:
            total *= counts[level.name] or int(device.limit("units") or 1)
    return total


# ---------------------------------------------------------------- mistakes


def check_capacity(
    program: Program,
    lines: tuple,
    at: Span | None,
    notes: list[str],
    again: Callable[[tuple], Program | None],
    tensors: Collection[str],
) -> None:
    """Raises CapacityExceeded and TooManyUnits. `again` compiles other lines, for the proposal; None where they do not fit.

    `at` is where the schedule begins, for what no line of its own asks for; None: there is no schedule. `tensors`: those that
    lines may name, which are what messages speak of.
    """
    diagnostics = Diagnostics()
    again = cache(again)  # what is tried for one memory is tried for others
    for launch in program.launches:
        _check_units(program.device, launch, lines, at, diagnostics)
    refused: set[str] = set()
    for peak in (*memory_peaks(program).values(), *spill_peaks(program).values()):
        if not peak.over or (peak.spilled and refused.issuperset(h.buffer.name for h in peak.shares)):
            continue
        text = f"{_whose(peak, tensors)} need {_amount(program.device, peak)}"
        spills = peak.memory.registers is not None and _spill_limit(program.device, peak.memory) is not None
        asked = any(h.buffer.span for h in peak.shares)
        if spills or (peak.memory.backing is not None and not asked):
            notes.append(text)
            continue
        refused.update(h.buffer.name for h in peak.shares)
        diagnostics.add(_exceeded(peak, lines, at, text, again))
    diagnostics.raise_if_any()


def _amount(device: Device, peak: MemoryPeak) -> str:
    m = peak.memory
    if m.registers is not None:
        return f"{_need(peak)}; a {m.level} of {device.name} has {m.registers[0]}"
    what = "spill memory" if peak.spilled else f"{m.name} memory" if m.backing is None else m.name
    return f"{bytes_text(peak.bytes)} of {what}; a {m.level} of {device.name} has {bytes_text(m.capacity or 0)}"


def _need(peak: MemoryPeak) -> str:
    """In the unit of the memory: bytes, or registers."""
    size = None if peak.memory.registers is None else peak.memory.registers[1]
    return bytes_text(peak.bytes) if size is None else f"{-(-peak.bytes // size)} registers"


def _whose(peak: MemoryPeak, tensors: Collection[str]) -> str:
    owners = dict.fromkeys(buffer_owners((h.buffer.name for h in peak.shares), tensors))
    names = sorted(owners, key=lambda x: x not in tensors)
    shown = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    return f"the tiles of {shown}"


def _exceeded(peak: MemoryPeak, lines: tuple, at: Span | None, text: str, again) -> CapacityExceeded:
    held = sorted(peak.shares, key=lambda h: -h.bytes)
    first = next((h for h in held if h.buffer.span), None)
    shown = {first.buffer.span} if first else set()
    labels = []
    for h in held:
        if h.buffer.span is not None and h.buffer.span not in shown:
            shown.add(h.buffer.span)
            labels.append(Label(h.buffer.span, _here(peak, h)))
    error = CapacityExceeded(
        text,
        first.buffer.span if first else at,
        note=_here(peak, first) if first else "",
        labels=labels,
        help=_proposal(peak, lines, again)
        or ("take smaller tiles above this line, or another memory" if peak.spilled else "take smaller tiles, or move less"),
    )
    error.launch = peak.launch
    return error


def _here(peak: MemoryPeak, h: MemoryShare) -> str:
    shape = " x ".join(str(e) for e in h.buffer.shape)
    if peak.memory.registers is not None:
        return f"{-(-h.bytes // peak.memory.registers[1])} here ({shape or 1} x {h.buffer.dtype})"
    times = h.bytes // max(1, (h.buffer.size.constant or 0) * h.buffer.dtype.bytes)
    return f"{bytes_text(h.bytes)} here ({shape or 1} x {h.buffer.dtype}{f', {times} times' if times > 1 else ''})"


# ---------------------------------------------------------------- the way out


def _proposal(peak: MemoryPeak, lines: tuple, again: Callable[[tuple], Program | None]) -> str | None:
    """Fewer buffers in turn; else the first tile that, made smaller, makes the rest fit: loops first, least change first."""
    shallow = _shallower(peak, lines, again)
    if shallow is not None:
        return shallow
    tiles = [(n, k) for n, x in enumerate(lines) if isinstance(x, syntax.Tile) for k in range(len(x.axes))]
    tiles.sort(key=lambda nk: lines[nk[0]].level is not None)
    tries = 0
    for n, k in tiles:
        size = lines[n].axes[k].size
        value = constant_size(size) or 1
        before = peak.bytes
        while value > 1 and tries < _TRIES:
            value, tries = value // 2, tries + 1
            program = again(_resized(lines, n, k, value))
            now = _same_peak(peak, program) if program is not None else None
            if now is not None and now.bytes >= before:
                break  # this size does not matter here
            if program is not None and (now is None or not now.over):
                need = f"would need {_need(now)}" if now is not None else "would fit"
                return f"`tile {lines[n].axes[k].index}: {value}` {need}"
            before = now.bytes if now is not None else before
    return None


def _shallower(peak: MemoryPeak, lines: tuple, again: Callable[[tuple], Program | None]) -> str | None:
    """The deepest pipeline that fits, if one does."""
    for n, x in enumerate(lines):
        depth = _depth(x)
        fits = min(depth - 1, depth * (peak.memory.capacity or 0) // peak.bytes)
        if fits < 2:
            continue
        less = tuple(replace(m, values=(syntax.Num(fits),)) if m.name == "pipeline" else m for m in x.modifiers)
        program = again((*lines[:n], replace(x, modifiers=less), *lines[n + 1 :]))
        now = _same_peak(peak, program) if program is not None else None
        if now is not None and not now.over and now.bytes < peak.bytes:
            return f"`pipeline {fits}` would need {_need(now)}"
    return None


def _depth(line: syntax.Line) -> int:
    """The buffers that `pipeline` asks for; 1 where it does not say how many."""
    m = modifier(line, "pipeline")
    return (constant_size(m.values[0]) or 1) if m is not None and m.values else 1


def _resized(lines: tuple, n: int, k: int, value: int) -> tuple:
    axes = list(lines[n].axes)
    axes[k] = replace(axes[k], size=syntax.Num(value))
    return (*lines[:n], replace(lines[n], axes=tuple(axes)), *lines[n + 1 :])


# ---------------------------------------------------------------- units


def _check_units(device: Device, launch: Launch, lines: tuple, at: Span | None, diagnostics: Diagnostics) -> None:
    counts = {u.level: u.count.constant for u in launch.units}
    for u in launch.units:
        level = device.level(u.level)
        count = counts[u.level]
        if level.units == "shaped" and level.most is not None and count is not None and count > level.most:
            limit = f"{device.name} has {level.most}"
            diagnostics.add(_too_many(f"{count} units of `{level.name}`", limit, level.name, lines, at))
    for outer in device.levels:
        for inner in device.levels[device.depth(outer.name) + 1 :]:
            most = device.limit(f"{outer.name} {inner.name}")
            if most is None:
                continue
            total = 1
            for level in device.levels[device.depth(outer.name) + 1 : device.depth(inner.name) + 1]:
                total *= counts.get(level.name) or 1
            if total > most:
                below = {name: n for name, n in counts.items() if n and device.depth(name) > device.depth(outer.name)}
                shape = " x ".join(f"{n} {name}s" for name, n in below.items())
                message = f"{total} {inner.name}s in a {outer.name} ({shape})"
                diagnostics.add(_too_many(message, f"{device.name} has {most:.0f}", inner.name, lines, at))


def _too_many(what: str, limit: str, level: str, lines: tuple, at: Span | None) -> TooManyUnits:
    tile = next((x for x in syntax.all_lines(lines) if isinstance(x, syntax.Tile) and x.level == level), None)
    tile = tile or next((x for x in syntax.all_lines(lines) if isinstance(x, syntax.Tile) and x.level is not None), None)
    span = tile.span if tile is not None else at
    return TooManyUnits(f"{what}; {limit}", span or at, help="larger tiles take fewer units")
