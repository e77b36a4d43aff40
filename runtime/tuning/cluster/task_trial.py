"""`TaskTrial`: a candidate of a task with its measurements. The names of its runs say what the database has of a task.

FIRST        Rows of the first candidates are named after their number: there are that many when they are complete.
GENERATIONS  Rows of a race of a search outwards are named after its place among the races.
LAST         Rows of a search's last race name how many trials were asked for. A search whose last race is there is complete.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..candidates import AS_IT_WAS
from ..database.measurement import Measurement
from .task import TuningTask

DEATHS = 2  # workers that a candidate may kill


@dataclass
class TaskTrial:
    """A candidate of a task, with its measurements, which another process made. The fields are those of `Trial`."""

    number: int
    schedule: str
    about: str
    predicted: float | None = None
    bound: str = ""
    samples: Sequence[float] = ()
    rejected: str = ""
    verdict: str = ""

    @property
    def seconds(self) -> float | None:
        """The lower quartile of the samples."""
        return sorted(self.samples)[len(self.samples) // 4] if self.samples else None


def known_trial(number: int, m: Measurement) -> TaskTrial:
    """A trial that the database has."""
    right = m.verdict == "right"
    about, rejected = (m.detail, "") if right else ("", m.detail)
    return TaskTrial(number, m.schedule, about, samples=m.samples, rejected=rejected, verdict=m.verdict)


def set_aside(how: str, reason: str) -> str:
    """Why a candidate is that was given out often enough: `unanswered` where perhaps no worker had it."""
    return f"set aside: {how} {f'{DEATHS} times' if how == 'unanswered' else f'on {DEATHS} workers'}: {reason}"


def run_name(key: str, count: int) -> str:
    """FIRST. The name of the rows of a task with so many candidates."""
    return f"{key} of {count}"


def generation_name(key: str, number: int) -> str:
    """GENERATIONS. The name of the rows of a race."""
    return f"{key} generation {number}"


def last_name(key: str, count: int, trials: int) -> str:
    """LAST. The name of the rows of the last race, of so many candidates, of a search for so many trials."""
    return f"{key} last race of {count} for {trials}"


def complete_run(key: str, rows: Sequence[Measurement]) -> list[Measurement] | None:
    """FIRST. The rows of a run of the task that has all of its candidates, the schedule as it was first; None if no run has."""
    complete = (found for run, found in _by_run(rows).items() if run == run_name(key, len(found)))
    return next((_default_first(found) for found in complete), None)


def generations(key: str, rows: Sequence[Measurement]) -> list[list[Measurement]]:
    """GENERATIONS. The rows of each race, in the order of the races, each in the same order every time."""
    named = {run.removeprefix(f"{key} generation "): found for run, found in _by_run(rows).items()}
    return [sorted(named[n], key=lambda m: m.schedule) for n in sorted((n for n in named if n.isdigit()), key=int)]


def last_race(task: TuningTask, rows: Sequence[Measurement]) -> list[Measurement] | None:
    """LAST. The rows of the last race of a search that was at least as long, the schedule as it was first; or None."""
    for run, found in _by_run(rows).items():
        named = re.fullmatch(re.escape(task.key) + r" last race of (\d+) for (\d+)", run)
        if named and len(found) == int(named[1]) and int(named[2]) >= task.trials:
            return _default_first(found)
    return None


def _by_run(rows: Sequence[Measurement]) -> dict[str, list[Measurement]]:
    """The rows of each run, each schedule once."""
    runs: dict[str, dict[str, Measurement]] = {}
    for m in rows:
        runs.setdefault(m.run, {})[m.schedule] = m
    return {run: list(found.values()) for run, found in runs.items()}


def _default_first(rows: Sequence[Measurement]) -> list[Measurement]:
    return sorted(rows, key=lambda m: not m.detail.startswith(AS_IT_WAS))
