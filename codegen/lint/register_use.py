"""More registers than the device has, so that a compiler would spill."""

from __future__ import annotations

from collections.abc import Iterator

from ...dsl.errors.warning import Caution, TooManyRegisters
from ...dsl.source import Span
from ..ir.program import Program
from ..lower.capacity import memory_peaks


def excess_registers(program: Program, mine: tuple[Span, ...]) -> Iterator[tuple[Span | None, Caution]]:
    """At the line of the largest tile that is held there."""
    for peak in memory_peaks(program).values():
        memory = peak.memory
        if memory.registers is None or not peak.over:
            continue
        count, size = memory.registers
        asked = [h for h in sorted(peak.shares, key=lambda h: -h.bytes) if h.buffer.span in mine]
        need = -(-peak.bytes // size)
        largest = asked[0] if asked else max(peak.shares, key=lambda h: h.bytes)
        yield (
            largest.buffer.span if asked else None,
            TooManyRegisters(
                f"the tiles held in {memory.name}s need {need} of them; a {memory.level} of {program.device.name} has {count}",
                note=f"{-(-largest.bytes // size)} here",
                help="smaller tiles fit, and so do vectors: an instruction of vectors takes one register for several elements",
            ),
        )
