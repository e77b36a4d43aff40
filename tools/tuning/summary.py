"""What a campaign has come to, in figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import quantiles

from ...dsl.support.amounts import counted, seconds_text
from ...runtime.tuning.cluster.campaign import Campaign
from ...runtime.tuning.cluster.task_file import FileTask
from ...runtime.tuning.cluster.task_run import TaskRun


@dataclass(frozen=True)
class TuningSummary:
    """Figures of a campaign.

    tasks, done, failed  counts of distinct tasks       measured  candidates that were measured now, not known before
    gains                quartiles of the gain of a task over the schedule without tuning, None where nothing is done
    weighted             the time of all calls without tuning over that with it; a task's weight says how often it is called
    """

    tasks: int
    done: int
    failed: int
    measured: int
    gains: tuple[float, float, float] | None
    weighted: float | None

    def __str__(self) -> str:
        out = f"{self.done} of {counted(self.tasks, 'task')} done" + (f", {self.failed} failed" if self.failed else "")
        out += f"; {counted(self.measured, 'candidate')} measured"
        if self.gains is not None and self.weighted is not None:
            low, middle, high = self.gains
            out += f"; gain {middle:.2f}x in the median, quartiles {low:.2f}x and {high:.2f}x; weighted {self.weighted:.2f}x"
        return out


def summary_of(campaign: Campaign, tasks: Sequence[FileTask]) -> TuningSummary:
    """The figures of a campaign that ran these tasks."""
    runs = campaign.distinct
    done = [r for r in runs if r.state == "done"]
    gains = [r.gain for r in done]
    middle = None
    if gains:
        low, median, high = quantiles(gains, n=4, method="inclusive") if len(gains) > 1 else gains * 3
        middle = low, median, high
    base = best = 0.0
    for t, r in zip(tasks, campaign.runs, strict=True):
        if r.state == "done" and r.best is not None and r.trials[0].seconds:
            base += t.weight * r.trials[0].seconds
            best += t.weight * (r.best.seconds or 0.0)
    weighted = base / best if best else None
    failed = sum(r.state == "failed" for r in runs)
    return TuningSummary(len(runs), len(done), failed, campaign.measured, middle, weighted)


def task_line(run: TaskRun) -> str:
    """A task that has ended, in a line."""
    best = run.best
    if run.state != "done" or best is None:
        return f"{run.task}: {run.reason or run.state}"
    known = "" if run.measured else ", all known before"
    set_aside = sum(bool(t.rejected) for t in run.trials)
    aside = f", {set_aside} set aside" if set_aside else ""
    count = counted(len(run.trials), "candidate")
    return f"{run.task}: {seconds_text(best.seconds or 0.0)}, {run.gain:.2f}x; {count}{aside}{known}"
