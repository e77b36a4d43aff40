"""A campaign begins its tasks in their order, however many of them the database already has."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace

import andiron
from andiron.runtime.tuning.cluster.campaign import Campaign
from andiron.runtime.tuning.cluster.task import Machine, task_of
from andiron.runtime.tuning.cluster.task_run import TaskRun

from ....support.gemm_file import GEMM_OP


class OneMachine:
    """An engine whose only worker says what it is."""

    close = interrupt = staticmethod(lambda: None)
    lacking = staticmethod(lambda kind, target: "")
    slots = staticmethod(lambda kind: 1)
    workers = staticmethod(lambda: 1)
    measures_alone = names_worker = False

    def submit(self, kind, target, function, *arguments):
        future = Future()
        future.set_result((Machine("x86", "", 1, "here"), "a machine"))
        return future


def test_a_thousand_known_tasks_end_one_after_the_other(monkeypatch):
    """Each of them ends as it begins. Were the next one begun from there, the stack would overflow."""

    def ends_as_it_begins(self, machine, fingerprint, dispatcher, database, changed):
        self.changed = changed
        began.append(self.task.seed)
        self.end()

    monkeypatch.setattr(TaskRun, "start", ends_as_it_begins)
    request = andiron.compile(GEMM_OP, target="cpu:generic").request
    task = task_of(request, 0, 2, 1.0)
    runs = [TaskRun(replace(task, seed=seed), request, 0) for seed in range(1000)]
    began, ended = [], []
    campaign = Campaign(OneMachine(), runs, watch=lambda c: ended.append(c.ended))
    campaign.run()
    assert began == list(range(1000))
    assert campaign.ended == 1000
    assert set(range(1, 1000)) <= set(ended)  # each end is shown
