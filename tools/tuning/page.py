"""The result of a campaign as one page of HTML, without scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from ... import __version__
from ...dsl.support.amounts import seconds_text
from ...runtime.tuning.cluster.campaign import Campaign
from ...runtime.tuning.cluster.task_file import FileTask
from .summary import summary_of


def tuning_page(campaign: Campaign, tasks: Sequence[FileTask], database: str) -> str:
    """The whole page."""
    weights: dict[int, float] = {}
    for task, run in zip(tasks, campaign.runs, strict=True):
        weights[id(run)] = weights.get(id(run), 0.0) + task.weight
    rows: list[dict[str, Any]] = [{**r.as_dict(), "weight": weights[id(r)]} for r in campaign.distinct]
    longest = max((row["gain"] for row in rows if row["state"] == "done"), default=1.0)
    loader = PackageLoader(__name__.rpartition(".")[0], ".")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["seconds"] = lambda x: "" if x is None else seconds_text(x)
    return environment.get_template("page.html.j2").render(
        version=__version__,
        summary=summary_of(campaign, tasks),
        stopped=campaign.stopped,
        machines=sorted({row["machine"] for row in rows} - {""}),
        rows=rows,
        longest=longest,
        database=database,
    )
