"""Machine code by lines of the schedule: what each one costs in the main loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...codegen.emit.emitted_lines import EmittedLines
from ...codegen.schedule.synthetic_spans import is_filled_in
from ...dsl.source import Span
from .instruction import Instruction

_UNKNOWN = "no line of the schedule"


@dataclass(frozen=True)
class ScheduleLineCost:
    """What was made of a line of the schedule, or of the op.

    line          as the compiler completed it
    place         its file and line; "" where the compiler filled the line in
    instructions  of one iteration
    cycles        that a warp spends on them on average, waits included; None without a cycle model
    """

    line: str
    place: str
    instructions: int
    cycles: float | None


def schedule_line_costs(
    path: Sequence[Instruction], cycles: Sequence[float] | None, emitted: EmittedLines
) -> tuple[ScheduleLineCost, ...]:
    """Of the instructions of an iteration, the costliest line first.

    cycles   for each of the instructions
    emitted  the text that they were made from
    """
    found: dict[tuple[str, str], list[int]] = {}
    for n, i in enumerate(path):
        found.setdefault(_line(emitted.of(i.lines).span), []).append(n)
    costs = [
        ScheduleLineCost(line, place, len(at), sum(cycles[n] for n in at) if cycles else None)
        for (line, place), at in found.items()
    ]
    return tuple(sorted(costs, key=lambda c: (-(c.cycles or 0), -c.instructions)))


def _line(span: Span | None) -> tuple[str, str]:
    if span is None:
        return _UNKNOWN, ""
    text = " ".join((span.said or span.text).split())
    return text, "" if is_filled_in(span) else f"{span.source.name}:{span.line}"
