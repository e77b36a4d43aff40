"""The line of an author's schedule that each step of the compilation belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..codegen.lower.schedule_trace import TracedLine, line_head
from ..dsl import syntax


def flat_lines(lines: Sequence[syntax.Line], depth: int = 1) -> Iterator[tuple[syntax.Line, int]]:
    """Lines and, below each, those nested under it, with their depth: 1 for those of the schedule itself."""
    for line in lines:
        yield line, depth
        yield from flat_lines(getattr(line, "block", None) or (), depth + 1)


def traced_lines(trace: Sequence[TracedLine], lines: Sequence[syntax.Line]) -> list[tuple[syntax.Line, TracedLine | None]]:
    """Each written line with its step; None for one that took no part.

    The steps of a launch are the written lines in their order with filled-in ones between. Of several launches that one counts
    in which most lines are found: lines act on the launches of the statements that they are about.
    """
    wanted = [(line, depth, line_head(line)) for line, depth in flat_lines(lines)]
    best: list[TracedLine | None] = [None] * len(wanted)
    for launch in launches_of(trace):
        found: list[TracedLine | None] = [None] * len(wanted)
        at = 0
        for n, (_, depth, head) in enumerate(wanted):
            step = next((i for i in range(at, len(launch)) if _same(launch[i], depth, head)), None)
            if step is not None:
                found[n] = launch[step]
                at = step + 1
        if sum(x is not None for x in found) > sum(x is not None for x in best):
            best = found
    return [(line, traced) for (line, _, _), traced in zip(wanted, best, strict=True)]


def _same(traced: TracedLine, depth: int, head: str) -> bool:
    """Whether this is the step of that line; the completed one may name the instruction that the author left open."""
    return traced.depth == depth and (traced.line == head or (head == "compute" and traced.line.startswith("compute with ")))


def launches_of(trace: Sequence[TracedLine]) -> Iterator[list[TracedLine]]:
    """The steps of each launch: its head, then its lines."""
    part: list[TracedLine] = []
    for traced in trace:
        if traced.depth == 0 and part:
            yield part
            part = []
        part.append(traced)
    if part:
        yield part
