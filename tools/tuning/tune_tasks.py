"""`andiron tune --tasks`: all tasks of a file, on this machine or on a cluster."""

from __future__ import annotations

import argparse
from functools import partial

from ...runtime.storage.files import expect_place, write_text
from ...runtime.tuning.cluster.campaign import Campaign
from ...runtime.tuning.cluster.open_engine import open_engine
from ...runtime.tuning.cluster.task_file import read_task_file
from ...runtime.tuning.cluster.tune_remotely import store_run
from ...runtime.tuning.database.open_database import open_database
from ..terminal import say_json
from .page import tuning_page
from .progress import CampaignProgress
from .summary import summary_of


def tune_tasks(args: argparse.Namespace) -> int:
    """The exit status: 0 if all tasks are done, 1 if one failed, 130 if it was interrupted."""
    tasks = read_task_file(args.tasks)
    if args.report:
        expect_place(args.report)
    database = None if args.dry_run else open_database(args.db)
    engine = open_engine(args.cluster)
    stored: set[int] = set()
    try:
        with CampaignProgress(lines=not args.json) as progress:
            campaign = Campaign(engine, [t.run for t in tasks], database, progress.say)
            campaign.watch = partial(_watch, progress, stored, not args.dry_run)
            campaign.run()
    finally:
        engine.close()
    summary = summary_of(campaign, tasks)
    if args.report:
        write_text(args.report, tuning_page(campaign, tasks, "nothing: a dry run" if database is None else database.name))
    if args.json:
        say_json({"tasks": [r.as_dict() for r in campaign.distinct], "summary": vars(summary), "stopped": campaign.stopped})
    else:
        print(summary)
    if campaign.failed is not None:
        raise campaign.failed
    if campaign.stopped:
        return 130
    return 1 if summary.failed else 0


def _watch(progress: CampaignProgress, stored: set[int], store: bool, campaign: Campaign) -> None:
    """Each result goes to the cache as soon as it is there."""
    for run in campaign.distinct:
        if store and run.state == "done" and id(run) not in stored:
            stored.add(id(run))
            store_run(run, run.task.top)
    progress.watch(campaign)
