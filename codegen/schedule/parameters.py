"""The parameters of a schedule: its lines `param ...`."""

from __future__ import annotations

from collections.abc import Mapping

from ...dsl.syntax import Param, ScheduleDecl


def parameters(schedule: ScheduleDecl | None) -> dict[str, Param]:
    """The lines `param ...` of a schedule, by name."""
    return {line.name: line for line in schedule.lines if isinstance(line, Param)} if schedule else {}


def schedule_parameters(schedule: ScheduleDecl | None, values: Mapping[str, int]) -> dict[str, int]:
    """Of values by name those of the schedule's parameters."""
    known = parameters(schedule)
    return {n: v for n, v in values.items() if n in known}
