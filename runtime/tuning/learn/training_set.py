"""The rows of a database as a training set: for each kind of machine, its tasks with features and times.

HERE  For the target `cpu`, programs are made for the machine at hand. So rows of a CPU of another kind are left out: they train
      a model on a machine of their own kind. Devices with a name are the same everywhere.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ....dsl.errors import AndironError
from ...storage.cache import key_of
from ..database.database import Database
from ..database.describe import fingerprint_of, task_of
from ..database.measurement import Task
from ..database.ranking import ranking
from .schedule_features import features_of_texts

if TYPE_CHECKING:
    from ...compile import CompileRequest

_FEWEST = 2  # schedules of a task: one has no order
_THREADS = re.compile(r", (\d+) threads?$")


@dataclass(frozen=True)
class MeasuredTask:
    """A task on a machine, with its schedules in an order that their times do not decide.

    op        the hash of its text, and its name
    features  [schedules, features]           predicted, seconds  of each schedule
    """

    op: tuple[str, str]
    key: str
    features: np.ndarray
    predicted: np.ndarray
    seconds: np.ndarray


Kind = tuple[str, str]  # a target, and the fingerprint of a machine


@dataclass(frozen=True)
class TrainingSet:
    """What a database has for each kind of machine. `left_out`: how many rows are of no use, by the reason."""

    kinds: dict[Kind, list[MeasuredTask]]
    left_out: Counter[str]


def training_set(
    database: Database, resolve: Callable[..., CompileRequest], target: str | None, say: Callable[[str], None]
) -> TrainingSet:
    """Reads the tasks, and computes the features that the cache does not have.

    resolve  `CompileRequest.from_text`     target  only tasks for it     say  is told of progress
    """
    kinds: dict[Kind, list[MeasuredTask]] = {}
    left_out: Counter[str] = Counter()
    tasks = list(database.tasks(target=target))
    for number, task in enumerate(tasks, 1):
        say(f"features of task {number:,} of {len(tasks):,}: {task.op_name}")
        rows = database.find(task.key)
        by_machine = ranking((m.fingerprint, m.schedule, m.verdict, m.seconds) for m in rows)
        for machine, ranked in sorted(by_machine.items()):
            if len(ranked) < _FEWEST:
                left_out["no other schedule of the task was measured"] += len(ranked)
                continue
            request, reason = _request(task, machine, resolve)
            if request is None:
                left_out[reason] += len(ranked)
                continue
            made = _measured(task, machine, request, ranked)
            left_out["this version does not accept the schedule"] += len(ranked) - len(made.seconds)
            if len(made.seconds) >= _FEWEST:
                kinds.setdefault((task.target, machine), []).append(made)
    return TrainingSet(kinds, +left_out)


def _measured(task: Task, machine: str, request: CompileRequest, ranked: list[tuple[float, str, int]]) -> MeasuredTask:
    sizes = {**task.sizes, **task.open_sizes}
    dims = {v.name: sizes[v.name] for v in request.op.dims}
    found = features_of_texts(request, f"{task.key} {machine}", (text for _, text, _ in ranked), dims)
    # The order of hashes: that of times would decide among equal predictions.
    rows = sorted((key_of(text), seconds, s) for seconds, text, _ in ranked if (s := found[text]) is not None and seconds > 0)
    return MeasuredTask(
        (task.op_hash, task.op_name),
        task.key,
        np.array([s.features for _, _, s in rows]),
        np.array([s.seconds for _, _, s in rows]),
        np.array([seconds for _, seconds, _ in rows]),
    )


def _request(task: Task, machine: str, resolve: Callable[..., CompileRequest]) -> tuple[CompileRequest | None, str]:
    """What was asked of the compiler, if that can be asked here. HERE"""
    threads = _THREADS.search(machine)
    try:
        request = resolve(task.op, task.op_name, "auto", task.target, int(threads[1]) if threads else None, dict(task.sizes))
        if task_of(request, {**task.sizes, **task.open_sizes} if task.open_sizes else None).key != task.key:
            return None, "the op or the device has another text in this version"
        if request.target.device is None and fingerprint_of(request) != machine:
            return None, "they are of a CPU of another kind: train on such a machine"
        return request, ""
    except AndironError as error:
        return None, f"the task is not accepted: {error.message}"


def by_op(tasks: list[MeasuredTask]) -> Iterator[tuple[str, list[MeasuredTask]]]:
    """The tasks of each op, by its hash."""
    for op in sorted({t.op[0] for t in tasks}):
        yield op, [t for t in tasks if t.op[0] == op]
