"""`Database`: measurements are added, found, and the fastest schedule for a task is chosen.

APPEND_ONLY  A row is never changed. Adding a row that is there does nothing, so what is not sure to be stored is sent again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from ....dsl.support.amounts import counted
from ...native.cpu_name import todays_name
from .check_rows import check_rows
from .measurement import Measurement, Task
from .prune_rows import prune_rows
from .ranking import ranking
from .read_rows import PAGE, TASKS, damaged, orphans, pages, read_measurement, read_sizes, read_task, read_times, task_of_row
from .schema import RANKED, REST, Session, Storage, hash_of

BATCH = 500  # rows of a transaction: others wait for one batch only

_ADD_TEXT = "INSERT INTO andiron_texts (hash, text) VALUES (:hash, :text) ON CONFLICT DO NOTHING"
_ADD_TASK = """INSERT INTO andiron_tasks (task, op, op_name, sizes, open_sizes, target, device)
    VALUES (:task, :op, :op_name, :sizes, :open_sizes, :target, :device) ON CONFLICT DO NOTHING"""
_ADD_ROW = """INSERT INTO andiron_measurements
    (id, task, schedule, fingerprint, toolchain, version, run, verdict, seconds, samples, detail, host, time,
        rank_hash, content_hash)
    VALUES (:id, :task, :schedule, :fingerprint, :toolchain, :version, :run, :verdict, :seconds, :samples, :detail, :host,
        :time, :rank_hash, :content_hash) ON CONFLICT DO NOTHING"""
_MACHINES = "SELECT DISTINCT fingerprint FROM andiron_measurements WHERE task = :task"
_TEXT = "SELECT text FROM andiron_texts WHERE hash = :hash"
# Tasks of an op that were measured, on any machine.
_MEASURED = """SELECT t.task, t.sizes, t.open_sizes FROM andiron_tasks t
    WHERE t.op = :op AND t.device = :device AND t.target = :target AND EXISTS (SELECT 1 FROM andiron_measurements m
        WHERE m.task = t.task AND m.verdict = 'right')"""


@dataclass(frozen=True)
class Choice:
    """The fastest schedule of a task on a machine.

    task      the task          schedule  the text
    seconds   of a call: the median over its runs           runs  how many these are
    machine   where: its fingerprint
    distance  of the task's sizes from the asked ones, the length of the difference of their binary logarithms
    """

    task: Task
    schedule: str
    seconds: float
    runs: int
    machine: str
    distance: float = 0.0


@dataclass(frozen=True)
class TaskSummary:
    """What was measured of a task.

    task  the task         rows  how many rows it has
    best  the seconds of the fastest schedule, by machine; None where none was right
    """

    task: Task
    rows: int
    best: dict[str, float | None]


class Database:
    """A database of measurements. Threads and processes may share it.

    name     the path, or the URL without its password
    storage  where the tables are
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.name = storage.name

    def __repr__(self) -> str:
        return f"<database {self.name}>"

    # ------------------------------------------------------------ adding

    def add(self, measurements: Iterable[Measurement]) -> int:
        """Adds rows, and returns how many of them are new. A batch of rows is stored as a whole or not at all."""
        added, rest = 0, iter(measurements)
        while batch := list(islice(rest, BATCH)):
            # In one order everywhere: two writers of the same rows do not wait for each other.
            rows = sorted({m.key: m for m in batch}.values(), key=lambda m: m.key)
            tasks = {m.task.key: m.task for m in rows}
            texts = {m.schedule_hash: m.schedule for m in rows}
            for task in tasks.values():
                texts |= {task.op_hash: task.op, task.device_hash: task.device}
            with self.storage.transaction(write=True) as session:
                session.execute_many(_ADD_TEXT, [{"hash": h, "text": text} for h, text in sorted(texts.items())])
                session.execute_many(_ADD_TASK, [_task_values(task) for _, task in sorted(tasks.items())])
                added += session.execute_many(_ADD_ROW, [_row_values(m) for m in rows])
        return added

    def merge(self, other: Database) -> int:
        """Adds the rows of another database, and returns how many of them are new.

        Raises DamagedDatabase for one of the two before anything is added.
        """
        self.expect_sound()
        if fault := next(other.check(), None):
            raise damaged(other.name, fault)
        return self.add(other.rows())

    # ------------------------------------------------------------ finding

    def find(self, task_key: str, fingerprint: str | None = None) -> list[Measurement]:
        """The rows of a task, of one machine, under whatever name, or of all."""
        if fingerprint is None:
            found = pages(self.storage, ("fingerprint", "id"), task=task_key)
        else:
            with self.storage.transaction() as session:
                names = [name for (name,) in session.execute(_MACHINES, task=task_key) if todays_name(name) == fingerprint]
            found = chain.from_iterable(pages(self.storage, ("id",), task=task_key, fingerprint=name) for name in names)
        return [read_measurement(self.name, tasks[row[1]], row) for tasks, rows in found for row in rows]

    def rows(self, op: str | None = None, target: str | None = None) -> Iterator[Measurement]:
        """All rows, or those of an op's name and a target."""
        if op is None and target is None:
            for tasks, rows in pages(self.storage):
                yield from (read_measurement(self.name, tasks[row[1]], row) for row in rows)
        else:
            for task in self.tasks(op, target):
                yield from self.find(task.key)

    def tasks(self, op: str | None = None, target: str | None = None, key: str = "") -> Iterator[Task]:
        """The tasks: all, those of an op's name, of a target, or with a key that begins so.

        Raises DamagedDatabase before the first where a task is missing: a list without it would pass for all.
        """
        with self.storage.transaction() as session:
            missing = orphans(session)
        if missing:
            raise damaged(self.name, f"rows are there of {counted(len(missing), 'task')} that it lacks: {missing[0]}")
        given = {name: x for name, x in (("op_name", op), ("target", target)) if x is not None}
        given |= {"first": key, "end": f"{key}g"} if key else {}  # keys are hexadecimal: `g` is behind all of them
        conditions = {"first": "t.task >= :first", "end": "t.task < :end"}
        where = " AND ".join(["t.task > :after", *(conditions.get(name, f"t.{name} = :{name}") for name in given)])
        after = ""
        while True:
            with self.storage.transaction() as session:
                page = session.execute(f"{TASKS} {where} ORDER BY t.task LIMIT :limit", after=after, limit=PAGE, **given)
            yield from (task_of_row(self.name, row) for row in page)
            if len(page) < PAGE:
                return
            after = page[-1][0]

    def summary(self, task: Task) -> TaskSummary:
        """What was measured of a task."""
        with self.storage.transaction() as session:
            times = read_times(session, self.name, task.key)
        fastest = {machine: ranked[0][0] for machine, ranked in ranking(times).items() if ranked}
        machines = sorted({todays_name(t[0]) for t in times})
        return TaskSummary(task, len(times), {machine: fastest.get(machine) for machine in machines})

    def best(self, task_key: str, fingerprint: str | None) -> Choice | None:
        """The fastest schedule of a task on a machine; None where none was right.

        fingerprint  the machine; None is the one that measured the most schedules
        """
        return next(iter(self.fastest(task_key, fingerprint, 1)), None)

    def fastest(self, task_key: str, fingerprint: str | None, limit: int) -> list[Choice]:
        """The fastest schedules of a task, as `best`, the fastest first."""
        with self.storage.transaction() as session:
            return self._fastest(session, task_key, fingerprint, limit)

    def nearest(
        self, task: Task, fingerprint: str | None, limit: int = 8, each: int = 1, farthest: float = math.inf
    ) -> list[Choice]:
        """The fastest schedules of the tasks with the nearest sizes, for the same op, target and device, the nearest first.

        The task itself is not among them. Sizes that are open for the one are open for the other.

        fingerprint  as for `best`          limit, each  how many choices at most, and how many of a task
        farthest     tasks at a larger distance are not looked at
        """
        with self.storage.transaction() as session:
            rows = session.execute(_MEASURED, op=task.op_hash, device=task.device_hash, target=task.target)
            distances = []
            for key, sizes, open_sizes in rows:
                distance = _distance(task, read_sizes(self.name, sizes), read_sizes(self.name, open_sizes))
                if distance is not None and distance <= farthest and key != task.key:
                    distances.append((distance, key))
            found = (c for distance, key in sorted(distances) for c in self._fastest(session, key, fingerprint, each, distance))
            return list(islice(found, limit))

    def _fastest(self, session: Session, task: str, machine: str | None, limit: int, distance: float = 0.0) -> list[Choice]:
        by_machine = ranking(read_times(session, self.name, task))
        if machine is None:
            machine = max(by_machine, key=lambda name: (len(by_machine[name]), name), default="")
        found = []
        for seconds, schedule, runs in by_machine.get(machine, ())[:limit]:
            text = session.execute(_TEXT, hash=schedule)
            if not text:
                raise damaged(self.name, f"the text {schedule} is missing")
            found.append(Choice(read_task(session, self.name, task), text[0][0], seconds, runs, machine, distance))
        return found

    # ------------------------------------------------------------ upkeep

    def prune(self, before: str | None = None, keep: int | None = None) -> int:
        """Removes rows, and the texts and tasks that no row needs any more; returns how many rows were removed.

        before  only rows that ended before this time, as `utc_now` gives it
        keep    for each task and machine, rows of so many of the fastest schedules stay, and rows that exclude a schedule

        Without either, no row is removed. Raises DamagedDatabase before any is; where anything else fails, none was removed,
        unless the message says that they were.
        """
        self.expect_sound()
        for _ in self.tasks():  # all of them are sound
            pass
        return prune_rows(self.storage, before, keep)

    def check(self) -> Iterator[str]:
        """What is wrong in the database, a line each: everything is read, and compared with its hash."""
        return check_rows(self.storage)

    def expect_sound(self) -> None:
        """Raises DamagedDatabase where a part of the storage cannot be read: rows would be missing without a word."""
        if faults := self.storage.faults():
            raise damaged(self.name, faults[0])


def _distance(task: Task, sizes: dict[str, int], open_sizes: dict[str, int]) -> float | None:
    """Between the sizes of a task and others; None where other sizes are open. Open sizes do not count: any may come."""
    if sizes.keys() != task.sizes.keys() or open_sizes.keys() != task.open_sizes.keys():
        return None
    return math.dist(*([math.log2(max(x[n], 1)) for n in sizes] for x in (task.sizes, sizes)))


def _task_values(task: Task) -> dict[str, Any]:
    return {
        "task": task.key,
        "op": task.op_hash,
        "op_name": task.op_name,
        "sizes": json.dumps(task.sizes),
        "open_sizes": json.dumps(task.open_sizes),
        "target": task.target,
        "device": task.device_hash,
    }


def _row_values(m: Measurement) -> dict[str, Any]:
    values = {name: getattr(m, name) for name in ("fingerprint", "toolchain", "version", "run", "verdict", "seconds")}
    values |= {name: getattr(m, name) for name in ("detail", "host", "time")}
    values |= {"id": m.key, "task": m.task.key, "schedule": m.schedule_hash, "samples": json.dumps(m.samples)}
    values["rank_hash"], values["content_hash"] = (hash_of(*(values[name] for name in names)) for names in (RANKED, REST))
    return values
