"""The report of a run under the emulator: bytes, transactions, bank conflicts, barriers, instructions, by place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ...codegen.schedule.synthetic_spans import is_filled_in
from ...dsl.device import Device, Instr, Memory
from ...dsl.source import Span
from .observer_records import ATOMIC, LOAD, STORE, InstrCount, LaunchCount, Observer, Site
from .source_map import SourceMap

_WORDS = {LOAD: "read", STORE: "written", ATOMIC: "combined"}


@dataclass(frozen=True)
class AccessSite:
    """The accesses of one buffer at one line of the source code, in one direction.

    memory        the memory of the buffer
    buffer        the buffer
    access        `read`, `written` or `combined`
    source        the file of the line of the schedule; None if the compiler filled in the line
    line          the number of that line; None if the compiler filled it in
    said          the text of that line
    text_line     the number of the line of the source code
    accesses      accesses of single threads
    bytes         bytes of all accesses together
    requests      accesses of whole subgroups: lanes at the same place at the same time
    transactions  sectors of global memory that were touched, or cycles that the banks of shared memory took
    least         the least number of transactions that can carry these bytes. For shared memory the difference is bank
                  conflicts
    """

    memory: str
    buffer: str
    access: str
    source: str | None
    line: int | None
    said: str
    text_line: int
    accesses: int
    bytes: int
    requests: int
    transactions: int
    least: int

    @property
    def ways(self) -> float:
        """Transactions divided by the least number of them: 1 is best."""
        return self.transactions / self.least if self.least else 1.0


@dataclass(frozen=True)
class EmulationReport:
    """The counts of one call under the emulator. Printing it gives a table.

    moved      memory -> access (`read`, `written`, `combined`) -> bytes
    carried    memory -> bytes of the transactions of global memory
    conflicts  memory -> cycles that banks took beyond the least
    launches   for each launch: the kernel, its blocks, the threads of a block, and the barriers that blocks reached
    instrs     instruction -> executions. One that a subgroup executes together counts once
    sites      the accesses by place, in the order of the source code
    """

    moved: dict[str, dict[str, int]]
    carried: dict[str, int]
    conflicts: dict[str, int]
    launches: tuple[dict[str, Any], ...]
    instrs: dict[str, int]
    sites: tuple[AccessSite, ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        """Gives the counts as dictionaries, lists, strings and numbers.

        Returns a dictionary from field to value.

        Raises nothing.
        """
        return asdict(self)

    def __str__(self) -> str:
        out = []
        for x in self.launches:
            out.append(f"{x['kernel']}: {x['blocks']:,} blocks of {x['threads']} threads, {x['barriers']:,} barriers")
        for memory, by_access in self.moved.items():
            said = ", ".join(f"{n:,} bytes {word}" for word, n in by_access.items())
            if memory in self.carried:
                said += f"; {self.carried[memory]:,} bytes of transactions"
            if memory in self.conflicts:
                said += f"; {self.conflicts[memory]:,} conflicts of banks"
            out.append(f"{memory}: {said}")
        if self.instrs:
            out.append("instructions: " + ", ".join(f"{n:,} {name}" for name, n in self.instrs.items()))
        out += ["", *_table(self.sites)] if self.sites else []
        return "\n".join(out)


_HEAD: tuple[str, ...] = ("schedule", "buffer", "access", "bytes", "requests", "transactions", "least", "ways", "worst")


def _table(sites: Sequence[AccessSite]) -> list[str]:
    """A row for each line of the schedule, buffer and direction; `worst`: of the lines of the text, and which one that is."""
    groups: dict[tuple[str, str, str], list[AccessSite]] = {}
    for s in sites:
        place = f"{s.source}:{s.line}" if s.source else s.said or "-"
        groups.setdefault((place, f"{s.buffer} ({s.memory})", s.access), []).append(s)
    rows = [_HEAD]
    for key, group in groups.items():
        sums = [sum(getattr(s, n) for s in group) for n in ("bytes", "requests", "transactions", "least")]
        worst = max(group, key=lambda s: s.ways)
        ways = sums[2] / sums[3] if sums[3] else 1.0
        where = f"{worst.ways:.2f} (line {worst.text_line})" if worst.ways > ways + 0.005 else ""
        rows.append((*key, *(f"{n:,}" for n in sums), f"{ways:.2f}", where))
    widths = [max(len(r[i]) for r in rows) for i in range(len(_HEAD))]
    return ["  ".join(_cell(r[i], i, widths[i]) for i in range(len(_HEAD))).rstrip() for r in rows]


def _cell(text: str, column: int, width: int) -> str:
    return text.rjust(width) if 3 <= column <= 7 else text.ljust(width)


def configure_observer(observer: Observer, device: Device, counting: bool = True) -> None:
    """Tells the observer what counts and limits depend on, before a call."""
    shared = _banked(device)
    observer.clear()
    sector = device.memories[0].transaction or 0
    observer.watch(counting, sector, shared and shared.banks, most_threads(device), most_shared(device))


def most_threads(device: Device) -> int:
    """Threads that one block may have; 0 when the device does not say."""
    outer = next((x for x in reversed(device.levels) if x.units == "open"), None)
    return int(device.limit(f"{outer.name} {device.levels[-1].name}") or 0) if outer else 0


def most_shared(device: Device) -> int:
    """Bytes of shared memory that one block may have; 0 when the device does not say."""
    shared = _banked(device)
    return shared.capacity or 0 if shared else 0


def emulation_report(observer: Observer, device: Device, origin: SourceMap) -> EmulationReport:
    """What was counted since `configure_observer`."""
    outer, shared = device.memories[0], _banked(device)
    names = {False: outer.name, True: shared.name if shared else "shared"}
    sites = _by_line(observer.sites(), origin, names)
    moved: dict[str, dict[str, int]] = {}
    carried: dict[str, int] = {}
    conflicts: dict[str, int] = {}
    for s in sites:
        by_access = moved.setdefault(s.memory, {})
        by_access[s.access] = by_access.get(s.access, 0) + s.bytes
        if s.memory == outer.name and outer.transaction:
            carried[s.memory] = carried.get(s.memory, 0) + s.transactions * outer.transaction
        elif s.memory != outer.name and shared and shared.banks:
            conflicts[s.memory] = conflicts.get(s.memory, 0) + s.transactions - s.least
    return EmulationReport(moved, carried, conflicts, _launches(observer.launches()), _instrs(observer.instrs(), device), sites)


def _banked(device: Device) -> Memory | None:
    """The memory inside of the outermost one that units share through banks."""
    return next((m for m in device.memories[1:] if m.banks), None)


def _by_line(found: Sequence[Site], origin: SourceMap, names: dict[bool, str]) -> tuple[AccessSite, ...]:
    """Places of the code that are one line of the text are one."""
    sums: dict[tuple, list[int]] = {}
    for s in found:
        where = origin.of(s.site)
        buffer = origin.settled(where.line, s.buffer, 0)[0] if s.shared else s.buffer
        key = (names[s.shared], buffer, _WORDS[s.access], *_place(where.span), where.line)
        row = sums.setdefault(key, [0] * 5)
        for i, n in enumerate((s.accesses, s.bytes, s.requests, s.transactions, s.least_transactions)):
            row[i] += n
    rows = [AccessSite(*key, *row) for key, row in sums.items()]
    return tuple(sorted(rows, key=lambda s: (s.text_line, s.memory, s.access)))


def _place(span: Span | None) -> tuple[str | None, int | None, str]:
    if span is None:
        return None, None, ""
    said = span.source.line(span.line).strip()
    if is_filled_in(span):
        return None, None, said
    return span.source.name.replace("\\", "/").rsplit("/", 1)[-1], span.line + span.source.line_offset, said


def _launches(found: Sequence[LaunchCount]) -> tuple[dict[str, Any], ...]:
    sums: dict[str, dict[str, Any]] = {}
    for x in found:
        at = sums.setdefault(x.kernel, {"kernel": x.kernel, "blocks": 0, "threads": x.threads, "barriers": 0})
        at["blocks"] += x.blocks
        at["barriers"] += x.barriers
    return tuple(sums.values())


def _instrs(found: Sequence[InstrCount], device: Device) -> dict[str, int]:
    together = {i.name: _width(i, device) for i in device.instrs}
    sums: dict[str, int] = {}
    for x in found:
        sums[x.name] = sums.get(x.name, 0) + x.count
    return {name: n // together.get(name, 1) for name, n in sorted(sums.items())}


def _width(instr: Instr, device: Device) -> int:
    """Threads that execute it together; of levels further out, whose units are as many as a schedule says, not known."""
    inner = device.levels[-1]
    return inner.width or 1 if device.depth(instr.level) == len(device.levels) - 2 else 1
