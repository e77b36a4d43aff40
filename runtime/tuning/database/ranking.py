"""`ranking`: the schedules of a task by their times, on each machine that measured it."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Any

from ...native.cpu_name import todays_name
from .measurement import NEVER_CHOSEN


def ranking(times: Iterable[tuple[Any, ...]]) -> dict[str, list[tuple[float, str, int]]]:
    """Of (machine, schedule, verdict, seconds): for each machine (seconds, schedule, runs), the fastest first.

    Machines have today's names. The seconds of a schedule are the median over its runs. What was wrong anywhere, or ended its
    process, is left out.
    """
    runs: dict[str, dict[str, list[float]]] = {}
    excluded: set[str] = set()
    for machine, schedule, verdict, seconds in times:
        if verdict in NEVER_CHOSEN:
            excluded.add(schedule)
        elif verdict == "right" and seconds is not None:
            runs.setdefault(todays_name(machine), {}).setdefault(schedule, []).append(seconds)
    return {
        machine: sorted((median(s), schedule, len(s)) for schedule, s in found.items() if schedule not in excluded)
        for machine, found in runs.items()
    }
