"""Progress of a campaign: a table on a terminal (with `rich`), or a line for each task that ends."""

from __future__ import annotations

import sys
from typing import Any

from ...dsl.support.amounts import counted, seconds_text
from ...runtime.tuning.cluster.campaign import Campaign
from .summary import task_line

_SHOWN = 12  # tasks of the table


class CampaignProgress:
    """Is told of each change. `lines`: whether a task that ends gets a line on the output stream."""

    def __init__(self, lines: bool = True) -> None:
        self._lines, self._ended = lines, set[int]()
        self._live: Any = _live_table() if sys.stderr.isatty() else None

    def __enter__(self) -> CampaignProgress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def watch(self, campaign: Campaign) -> None:
        """Shows what has changed."""
        for run in campaign.distinct:
            if run.ended and id(run) not in self._ended:
                self._ended.add(id(run))
                if self._lines:
                    self._print(task_line(run))
        if self._live is not None:
            self._live.update(progress_table(campaign))

    def say(self, text: str) -> None:
        """A failure, or what is waited for."""
        if self._live is not None:
            self._live.console.print(text, highlight=False, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def _print(self, text: str) -> None:
        if self._live is not None and sys.stdout.isatty():
            self._live.console.print(text, highlight=False, markup=False)
        else:
            print(text, flush=True)


def progress_table(campaign: Campaign) -> Any:
    """The table: a head of all tasks, and a row for each one under way."""
    from rich.progress_bar import ProgressBar  # type: ignore[import-not-found]
    from rich.table import Table  # type: ignore[import-not-found]

    head = Table.grid(padding=(0, 2))
    workers = campaign.engine.workers()
    left = campaign.seconds_left()
    tasks = counted(len(campaign.distinct), "task")
    facts = [f"{campaign.ended} of {tasks}", f"{counted(campaign.measured, 'candidate')} measured"]
    facts += [counted(workers, "worker")] if workers is not None else []
    facts += [f"{seconds_text(left)} left"] if left is not None else []
    head.add_row(ProgressBar(len(campaign.distinct), campaign.ended, width=30), *facts)
    table = Table(box=None, padding=(0, 2, 0, 0), title_justify="left")
    for name in ("task", "state", "compiled", "measured", "best so far", "gain"):
        table.add_column(name, justify="left" if name in ("task", "state") else "right")
    under_way = [r for r in campaign.distinct if r.state in ("compiling", "measuring")]
    for run in under_way[:_SHOWN]:
        best = run.best
        time, gain = (seconds_text(best.seconds or 0.0), f"{run.gain:.2f}x") if best is not None else ("", "")
        measured = sum(bool(t.verdict) for t in run.trials)
        table.add_row(str(run.task), run.state, str(len(run.accepted)), str(measured), time, gain)
    out = Table.grid()
    out.add_row(head)
    out.add_row(table)
    return out


def _live_table() -> Any:
    """None without `rich`: a line for each task has to do."""
    try:
        from rich.console import Console  # type: ignore[import-not-found]
        from rich.live import Live  # type: ignore[import-not-found]
    except ImportError:
        return None
    return Live(console=Console(stderr=True), refresh_per_second=4, transient=True)
