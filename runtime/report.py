"""The report of a kernel, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ..codegen.analysis.roofline import bytes_between_launches, carried_results, predict
from ..codegen.analysis.static_traffic import static_traffic
from ..codegen.ir.program import Program
from ..codegen.lower.capacity import memory_peaks
from ..dsl.op import Op, Statement
from ..dsl.support.amounts import bytes_text, seconds_text
from .op_counts import argument_bytes, flops
from .variant import Variant

if TYPE_CHECKING:
    from .emulator.report import EmulationReport


@dataclass(frozen=True)
class Report:
    """The figures of a kernel. A figure that depends on sizes is None, or empty, while a size is open. Printing it gives a
    table.

    op          the name of the op
    target      the name of the target
    device      the name of the device
    sizes       the known sizes, by name
    threads     how many threads of the CPU may take part; None for a GPU
    variants    the number of variants
    compiler    the C++ or GPU compiler; None until a variant is built
    cached      whether the code was in the cache; None until a variant is built
    flops       arithmetic operations of one call, as the op is written
    bytes       bytes of all arguments, each once: the least that a call must move
    footprints  memory -> the most bytes held there at one time, and its capacity in bytes or None
    registers   registers that a unit needs, and how many it has; None where the device does not say
    launches    the number of launches
    barriers    the number of barriers in the tile program
    units       the units of each launch, by level
    read        bytes read in one call, by memory. Accesses that a cache serves count too
    written     bytes written in one call, by memory
    exact       whether `read` and `written` count every access; False where loops were sampled
    between_launches  bytes that launches leave to later ones, and that the caches cannot keep: what the outermost memory must
                move in one call beside `bytes`
    seconds     the least time of a call by this schedule in seconds, by the memory or the arithmetic that needs it
    bound       the key of the largest of `seconds`, which is the prediction
    notes       sentences for people
    counts      the counts of the last call under the emulator, if `Kernel.counting` was set
    """

    op: str
    target: str
    device: str
    sizes: dict[str, int]
    threads: int | None  # of the CPU; None for a GPU
    variants: int
    compiler: str | None
    cached: bool | None
    flops: int | None
    bytes: int | None
    footprints: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    registers: tuple[int, int] | None = None
    launches: int = 1
    barriers: int | None = None
    units: tuple[dict[str, int], ...] = ()
    read: dict[str, int] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    exact: bool = True
    between_launches: int | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    bound: str | None = None
    notes: tuple[str, ...] = ()
    counts: EmulationReport | None = None

    @staticmethod
    def of(op: Op, variants: Sequence[Variant], sizes: Mapping[str, int], threads: int, notes: Iterable[str]) -> Report:
        """Makes the report of a kernel from its parts.

        op        the op
        variants  the variants of the kernel
        sizes     the fixed sizes, by name
        threads   how many threads may take part
        notes     further notes

        Returns a `Report`.

        Raises nothing.
        """
        first = variants[0]
        built = next((v.library for v in variants if v.library), None)
        closed = all(d.name in sizes for d in op.dims)
        known = op.all_sizes(sizes) if closed else dict(sizes)
        if closed:
            first = next((v for v in variants if v.refusal(known) is None), first)
        program = first.program
        device = program.device
        most = memory_peaks(program)
        held = {name: (p.bytes, p.memory.capacity) for name, p in most.items() if p.memory.registers is None}
        files = [(-(-p.bytes // p.memory.registers[1]), p.memory.registers[0]) for p in most.values() if p.memory.registers]
        counted: dict[str, Any] = {}
        if closed:
            finite = {level: min(threads, device.level(level).most or threads) for level, _ in program.finite}
            found = static_traffic(program, known, finite)
            counted = {"barriers": found.barriers, "units": found.units, "read": found.read, "written": found.written}
            counted["exact"] = found.exact
            between = bytes_between_launches(device, found, finite)
            counted["between_launches"] = between
            least = argument_bytes(op, known) + between
            work = flops(op, known, carried_results(program))
            said = predict(device, found, work, least, main_rate(program, op, known), finite)
            if said is not None:
                counted |= {"seconds": said.seconds, "bound": said.bound}
        return Report(
            op=op.name,
            target=first.target.name,
            device=device.name,
            sizes=known,
            threads=threads if first.target.family.launcher != "driver" else None,
            variants=len(variants),
            compiler=built.compiler if built else None,
            cached=built.cached if built else None,
            flops=flops(op, known) if closed else None,
            bytes=argument_bytes(op, known) if closed else None,
            footprints=held,
            registers=files[0] if files else None,
            launches=len(program.launches),
            counts=next((v.counts for v in variants if v.counts), None),
            notes=tuple(dict.fromkeys([*first.facts.get("notes", ()), *sorted(notes)])),
            **counted,
        )

    def as_dict(self) -> dict[str, Any]:
        """Gives the report as dictionaries, lists, strings and numbers.

        Returns a dictionary from field to value.

        Raises nothing.
        """
        return asdict(self)

    def __str__(self) -> str:
        return report_table(self.rows()) + (f"\n\n{self.counts}" if self.counts else "")

    def rows(self) -> list[tuple[str, object]]:
        """Gives the lines of the printed table.

        Returns pairs of a name and a value.

        Raises nothing.
        """
        rows: list[tuple[str, object]] = [("op", self.op), ("target", f"{self.target} ({self.device})")]
        rows.append(("sizes", ", ".join(f"{n}={v}" for n, v in self.sizes.items()) or "open"))
        if self.threads is not None:
            rows.append(("threads", self.threads))
        rows.append(("compiler", self.compiler or "not built yet"))
        if self.variants > 1:
            rows.append(("variants", self.variants))
        if self.flops is not None and self.bytes is not None:
            rows += [("flops", f"{self.flops:,}"), ("bytes", f"{self.bytes:,}")]
        rows.append(("launches", f"{self.launches}" + (f", {self.barriers} barriers" if self.barriers else "")))
        for counts in self.units:
            rows.append(("units", ", ".join(f"{n} {level}" for level, n in counts.items()) or "one"))
        for memory, (most, has) in self.footprints.items():
            rows.append((f"held in {memory}", bytes_text(most) + (f" of {bytes_text(has)}" if has else "")))
        if self.registers is not None:
            rows.append(("registers", f"{self.registers[0]} of {self.registers[1]}"))
        for memory in dict.fromkeys((*self.read, *self.written)):
            about = "" if self.exact else "about "
            read, written = self.read.get(memory, 0), self.written.get(memory, 0)
            rows.append((f"moved in {memory}", f"{about}{read:,} bytes read, {written:,} written"))
        if self.between_launches:
            rows.append(("between launches", f"{self.between_launches:,} bytes at least"))
        if self.bound is not None:
            rows.append(("at least", f"{seconds_text(self.seconds[self.bound])}, bound by {self.bound}"))
        return rows + [("note", note) for note in self.notes]


def report_table(rows: Sequence[tuple[str, object]]) -> str:
    """Rows of a name and a value, aligned."""
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def main_rate(program: Program, op: Op, sizes: Mapping[str, int]) -> str:
    """The rate of the device that most of the arithmetic runs at: that of matrices, where an instruction multiplies them."""
    device = program.device
    for i in program.instrs:
        kind = i.operands[0].dtype.name
        if i.accumulate and i.level != device.levels[-1].name:
            for name in (f"matrix {kind}", f"matrix {kind[:2]}"):
                if device.limit(name):
                    return name
    return main_dtype(op, sizes)


def main_dtype(op: Op, sizes: Mapping[str, int]) -> str:
    """The type that most of the op's arithmetic is in."""
    biggest = max(op.statements, key=lambda s: _points(s, sizes))
    return biggest.value.dtype.compute.name


def _points(statement: Statement, sizes: Mapping[str, int]) -> int:
    total = 1
    for _, extent in statement.ranges:
        total *= int(extent.evaluate(sizes))
    return total
