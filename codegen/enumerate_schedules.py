"""The best schedules for an op, in order, as text. The compiler chooses the first of them.

Each launch has its candidates in order (`autoschedule.candidates`). Schedules of several launches combine them, in
the order of the time of all launches. On CPUs, schedules near the completed one follow (`neighbourhood`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..dsl import syntax
from ..dsl.device import Device
from ..dsl.op import Op
from ..dsl.support.fast_replace import replace
from ..dsl.text.parser import parse_schedule
from .autoschedule.candidates import candidate_groups
from .autoschedule.complete import is_open as is_open_line
from .autoschedule.launches.launches_of_op import launches_of_schedule
from .autoschedule.machine_model import block_machine
from .autoschedule.neighbourhood import neighbouring_schedules
from .autoschedule.rank import AUTO
from .lower.lowering_context import LoweringContext
from .pipeline import compile_program
from .plan.computations import Computation
from .schedule.candidate import Candidate, Lines
from .schedule.implicit_auto import lacks_compute
from .schedule.print_schedule import schedule_text

Works = tuple[Computation, ...]


@dataclass(frozen=True)
class CandidateSchedule:
    """A schedule worth a try.

    schedule  to compile                       seconds  predicted, of all launches; None: the model has no opinion
    bound     what the longest launch waits for         about    what tells it from others, for people
    """

    schedule: syntax.ScheduleDecl
    seconds: float | None
    bound: str
    about: str


def candidate_schedules(
    op: Op,
    device: Device,
    schedule: syntax.ScheduleDecl | None = None,
    module: Any = None,
    params: Mapping[str, int] | None = None,
) -> Iterator[CandidateSchedule]:
    """All schedules for the op, by predicted time; those that are alike are there once. Raises the diagnostics of `schedule`.

    schedule  lines that stay, with `params` for its parameters; what it leaves open is chosen. None: all is
    module    where the schedule's strategies and roles are declared
    """
    found = launches_of_schedule(op, device, schedule, module, params)
    op, ctx, parts = found.op, found.context, found.parts
    options = [_launch_candidates(ctx, computations, todo) for computations, todo in parts]
    seen: set[str] = set()
    for chosen in _best_first(options):
        written = [(computations, option.lines) for (computations, _), option in zip(parts, chosen, strict=True)]
        text = schedule_text(op, schedule, device, written, found.apart, found.lines)
        if text in seen:
            continue
        seen.add(text)
        longest = max(chosen, key=lambda x: x.cost.seconds)
        about = "; ".join(x.about for x in chosen if x.about)
        total = sum(x.cost.seconds for x in chosen) if all(x.about for x in chosen) else None
        yield CandidateSchedule(_parsed(text), total, longest.cost.bound, about)
    if block_machine(device) is None and (schedule is None or is_open(schedule, device, module)):
        text = compile_program(module, op, schedule, device, params).schedule
        extents = {i: e.constant for s in op.statements for i, e in s.ranges if e.constant is not None}
        for near, about in neighbouring_schedules(_parsed(text), device, extents):
            yield CandidateSchedule(near, None, "", about)


def _launch_candidates(ctx: LoweringContext, computations: Works, lines: Lines) -> list[Candidate]:
    """The candidates for one launch, the best first; only what is written, where nothing is open or no template is for it."""
    for w in computations:
        ctx.dtypes.setdefault(w.name, w.value.dtype)
    groups = candidate_groups(ctx, computations, lines or AUTO) if not lines or any(map(is_open_line, lines)) else iter(())
    return next(groups, [Candidate(lambda: lines or AUTO)])


def _best_first(options: Sequence[Sequence[Candidate]]) -> Iterator[tuple[Candidate, ...]]:
    """One option of each launch, by how much time is lost against the first of each; the order of each list counts, too."""
    # The order may differ from that of the seconds, by what is alike within the model's precision: it must not go backwards.
    loss = []
    for ways in options:
        worst, row = 0.0, []
        for w in ways:
            worst = max(worst, w.cost.seconds - ways[0].cost.seconds)
            row.append(worst)
        loss.append(row)
    start: tuple[int, ...] = (0,) * len(options)
    queue: list[tuple[float, tuple[int, ...]]] = [(0.0, start)]
    seen: set[tuple[int, ...]] = {start}
    while queue:
        _, at = heapq.heappop(queue)
        yield tuple(ways[i] for ways, i in zip(options, at, strict=True))
        for n, i in enumerate(at):
            near = (*at[:n], i + 1, *at[n + 1 :])
            if i + 1 < len(options[n]) and near not in seen:
                seen.add(near)
                heapq.heappush(queue, (sum(row[k] for row, k in zip(loss, near, strict=True)), near))


def is_open(schedule: syntax.ScheduleDecl, device: Device, module: Any = None) -> bool:
    """Whether it leaves anything to choose: by `auto` in its lines or in the blocks below them, or because they break off."""
    if not schedule.lines or any(map(is_open_line, syntax.all_lines(schedule.lines))):
        return True
    return lacks_compute(schedule.lines, device.memories[0].name, getattr(module, "strategies", None))


def _parsed(text: str) -> syntax.ScheduleDecl:
    return replace(parse_schedule(text), where=())
