"""The report of a kernel's machine code: its main loop, the instructions by class, and what the cycle model says of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...codegen.abi import programs
from ...codegen.emit.emitted_lines import EmittedLines
from ...codegen.emit.printers import launches, line_spans
from ...codegen.lower.schedule_trace import bytes_text
from ...dsl.device import Device
from ..gpu.resource_usage import ResourceUsage, resource_usage
from ..variant import Variant
from .amdgcn import amdgcn_class
from .classes import CLASSES
from .instruction import Instruction
from .read_machine_code import read_machine_code
from .replay import ISSUED, NOT_SELECTED, Replay, pipe_cycles, replay
from .sass_classes import sass_class
from .schedule_lines import ScheduleLineCost, schedule_line_costs
from .sm_figures import LANES, SmFigures, Work
from .whole_step import InnerLoop, whole_step

MOST_LINES = 3  # instructions: of the costliest stall that are shown [limit]
LEAST_SHARE = 0.01  # share: of the cycles, for a pipe or a stall that is shown [limit]


@dataclass(frozen=True)
class StallLine:
    """An instruction at which warps wait, for how many cycles of an iteration, and the instructions whose results or operands
    it waits for."""

    instruction: str
    cycles: float
    waits_for: tuple[str, ...]


@dataclass(frozen=True)
class CycleCount:
    """What the cycle model says of an iteration.

    warps   resident on an SM
    cycles  of the iteration
    busy    share of the cycles that each pipe is busy, that the SM reads from the L2 cache, and of the issue slots, largest
            first
    stalls  cycles that a warp waits, on average, by reason; with `selected`, those that it issues in, they add up to `cycles`
    worst   the reason that costs most
    lines   where that is, the costliest first
    """

    warps: int
    cycles: float
    busy: dict[str, float]
    stalls: dict[str, float]
    worst: str | None
    lines: tuple[StallLine, ...]


@dataclass(frozen=True)
class MainLoopReport:
    """One kernel.

    blocks     of so many threads, resident on an SM or CU
    loop       the first and last instruction of the loop whose turn is a whole step; None for a kernel without loops, which
               counts as a whole
    addresses  whether that is addresses, as for NVIDIA's GPUs, or lines of the assembly
    outer      how many loops there are around it
    counts     instructions of a step, by class
    per_mma    all of them for each matrix instruction
    read       bytes that all warps of an SM read from global memory in a step
    from_dram  cycles that these take if no cache has them
    model      None where a figure is lacking, as `note` says
    by_line    what the lines of the schedule cost, the costliest first
    inner      loops inside of the main loop that are counted as often as they turn
    """

    kernel: str
    registers: int
    spills: int
    shared: int
    threads: int
    blocks: int
    loop: tuple[int, int] | None
    addresses: bool
    outer: int
    instructions: int
    counts: dict[str, int]
    per_mma: float | None
    read: int
    from_dram: float | None
    model: CycleCount | None
    note: str = ""
    by_line: tuple[ScheduleLineCost, ...] = ()
    inner: tuple[InnerLoop, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def rows(self) -> list[tuple[str, object]]:
        """What people read, each with its name."""
        spilled = f"{bytes_text(self.spills)} a thread spilled" if self.spills else "none spilled"
        residency = f"{_times(self.blocks, 'block')} of {self.threads} threads resident"
        where = "none: the whole kernel is one iteration"
        if self.loop:
            where = self._range(*self.loop) + ("" if self.addresses else " of the assembly")
        where += f", inside {_times(self.outer, 'loop')} whose other instructions are not counted" if self.outer else ""
        where += "".join(f"; {x.turns} turns of {self._range(x.first, x.last)} inside" for x in self.inner)
        each = f", {self.per_mma:.2f} for each mma" if self.per_mma else ""
        rows: list[tuple[str, object]] = [
            ("kernel", self.kernel),
            ("takes", f"{self.registers} registers, {spilled}, {bytes_text(self.shared)} shared; {residency}"),
            ("main loop", where),
            ("instructions", f"{self.instructions}{each}: " + ", ".join(f"{n} {name}" for name, n in self.counts.items())),
        ]
        if self.read:
            dram = f"; {self.from_dram:,.0f} cycles from memory if no cache has them" if self.from_dram else ""
            rows.append(("reads", f"{self.read:,} bytes an SM{dram}"))
        if self.model is None:
            return [*rows, ("note", self.note), *self._line_rows()]
        m = self.model
        rows.append(("iteration", f"{m.cycles:,.0f} cycles of {_times(m.warps, 'warp')}, by the cycle model"))
        rows.append(("busy", ", ".join(f"{name} {share:.0%}" for name, share in m.busy.items())))
        rows.append(("warps", ", ".join(f"{name} {n / m.cycles:.0%}" for name, n in m.stalls.items())))
        for n, line in enumerate(m.lines):
            cause = f" (waits for {', '.join(line.waits_for)})" if line.waits_for else ""
            rows.append(("costs most" if n == 0 else "", f"{m.worst}, {line.cycles:,.0f} cycles at {line.instruction}{cause}"))
        return [*rows, *self._line_rows()]

    def _range(self, first: int, last: int) -> str:
        return f"{first:#06x} to {last:#06x}" if self.addresses else f"lines {first} to {last}"

    def _line_rows(self) -> Iterator[tuple[str, object]]:
        whole = self.model.cycles if self.model else self.instructions
        shown = [c for c in self.by_line if (c.instructions if c.cycles is None else c.cycles) >= LEAST_SHARE * whole]
        for n, c in enumerate(shown):
            share = f"{c.instructions / whole:.0%}" if c.cycles is None else f"{c.cycles / whole:.0%} of the cycles"
            where = f"  ({c.place})" if c.place else ""
            yield "by line" if n == 0 else "", f"{share}, {_times(c.instructions, 'instruction')}: {c.line}{where}"


def _times(n: int, name: str) -> str:
    return f"{n} {name}{'s' * (n != 1)}"


def main_loop_reports(variant: Variant, sizes: Mapping[str, int]) -> list[MainLoopReport]:
    """Of each kernel, in the order of the launches of each of the variant's programs. The variant is built.

    sizes  those that are known: a launch of few blocks does not fill an SM

    Raises NoDisassembler, NoCompiler, CompilerFailed.
    """
    functions = read_machine_code(variant)
    usage = resource_usage(variant)
    grid = _blocks(variant, sizes)
    device = variant.program.device
    emitted = EmittedLines(variant.source, line_spans(variant.program, variant.target.family.dialect))
    class_of, figures = (sass_class, SmFigures(device)) if variant.target.family.toolchain == "cuda" else (amdgcn_class, None)
    return [
        main_loop_report(functions[u.kernel], u, _resident(u, grid.get(u.kernel), device), class_of, figures, emitted)
        for u in usage
    ]


def _blocks(variant: Variant, sizes: Mapping[str, int]) -> dict[str, int]:
    """Of each kernel whose number of blocks is known."""
    found = {}
    for program in programs(variant.program):
        known = dict(sizes)
        for var, expr in program.lets:
            if all(v.name in known for v in expr.variables()):
                known[var.name] = expr.evaluate(known)
        for kernel in launches(program, variant.target.family.dialect):
            if all(v.name in known for v in kernel.blocks.variables()):
                found[kernel.name] = int(kernel.blocks.evaluate(known))
    return found


def _resident(usage: ResourceUsage, grid: int | None, device: Device) -> int:
    """Blocks on an SM: what its resources allow, and no more than its share of a small grid."""
    most = usage.occupancy.blocks if usage.occupancy else 1
    units = device.limit("units")
    return max(1, most if grid is None or not units else min(most, -(-grid // int(units))))


def main_loop_report(
    code: Sequence[Instruction],
    usage: ResourceUsage,
    blocks: int,
    class_of: Callable[[Instruction], str],
    figures: SmFigures | None,
    emitted: EmittedLines,
) -> MainLoopReport:
    """The report of one kernel.

    code      its instructions
    usage     what the compiler says of it
    blocks    resident on an SM or CU
    class_of  an instruction's class
    figures   for the cycle model; None for a GPU whose instructions do not state their schedule
    emitted   the text that was compiled
    """
    step = whole_step(code, class_of)
    path = step.path
    counts = Counter(class_of(i) for i in path)
    model, note, read, dram, spent = None, "", 0, None, None
    if figures is None:
        note = "no cycle model: instructions of AMD's do not state their schedule"
    elif not figures.known:
        note = f"no cycle model: the text of {figures.device.name} lacks clock, units, schedulers or f32"
    else:
        works = [figures.work(i) for i in path]
        known = [w for w in works if w is not None]
        if len(known) < len(works):
            unknown = sorted({i.opcode for i, w in zip(path, works, strict=True) if w is None})
            note = f"no cycle model: {figures.device.name} has no figures for {', '.join(unknown)}"
        else:
            warps = -(-usage.threads // LANES)
            found = replay(path, known, warps, blocks, figures)
            model = cycle_count(path, known, found, warps * blocks, figures)
            spent = [sum(n for (place, _), n in found.stalls.items() if place == p) for p in range(len(path))]
            read, dram = sum(w.l2 for w in known) * warps * blocks, figures.dram_bytes
    return MainLoopReport(
        usage.kernel,
        usage.registers,
        usage.spills,
        usage.shared,
        usage.threads,
        blocks,
        (path[0].address, max(i.address for i in path)) if step.loop else None,
        figures is not None,
        len(step.around),
        len(path),
        {name: counts[name] for name in sorted(CLASSES, key=lambda c: -counts[c]) if counts[name]},
        len(path) / counts["mma"] if counts["mma"] else None,
        read,
        read / dram if read and dram else None,
        model,
        note,
        schedule_line_costs(path, spent, emitted),
        step.inner,
    )


def cycle_count(
    path: Sequence[Instruction], works: Sequence[Work], found: Replay, every: int, figures: SmFigures
) -> CycleCount:
    """What the model says of so many warps."""
    least = LEAST_SHARE * found.cycles
    busy = pipe_cycles(works, every, figures.schedulers)
    busy["issue slots"] = len(path) * -(-every // figures.schedulers)
    busy["l2"] = sum(w.l2 for w in works) * every / figures.l2_bytes
    stalls: dict[str, float] = {}
    for (_, reason), cycles in found.stalls.items():
        stalls[reason] = stalls.get(reason, 0) + cycles
    stalls = dict(sorted(stalls.items(), key=lambda x: -x[1]))
    worst = next((reason for reason in stalls if reason not in (ISSUED, NOT_SELECTED)), None)
    return CycleCount(
        every,
        found.cycles,
        # No more than all: the count begins and ends in the middle of iterations.
        {name: min(1.0, n / found.cycles) for name, n in sorted(busy.items(), key=lambda x: -x[1]) if n >= least},
        {name: n for name, n in stalls.items() if n >= least},
        worst,
        tuple(_lines(path, found, worst)) if worst else (),
    )


def _lines(path: Sequence[Instruction], found: Replay, reason: str) -> list[StallLine]:
    cycles: dict[Instruction, float] = {}  # in all turns of loops inside together
    waits: dict[Instruction, Counter[Instruction]] = {}
    for (place, why), spent in found.stalls.items():
        if why == reason:
            cycles[path[place]] = cycles.get(path[place], 0) + spent
            for other, times in found.waits.get(place, Counter()).items():
                waits.setdefault(path[place], Counter())[path[other]] += times
    lines = []
    for i, spent in sorted(cycles.items(), key=lambda x: -x[1])[:MOST_LINES]:
        after = [_show(x) for x, _ in waits.get(i, Counter()).most_common(2)] if "scoreboard" in reason else []
        lines.append(StallLine(_show(i), spent, tuple(after)))
    return lines


def _show(i: Instruction) -> str:
    return f"{i.address:#06x} {i}"
