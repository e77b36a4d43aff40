"""`Database`: measurements are added, found, and the fastest schedule for a task is chosen.

APPEND_ONLY  A row is never changed. Adding a row that is there does nothing, so what is not sure to be stored is sent again.
PAGES        Many rows are read in pages, each in a transaction of its own: a reader does not keep writers waiting.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from statistics import median
from typing import Any, Literal, Protocol

from ....dsl.errors.database import DamagedDatabase
from .measurement import NEVER_CHOSEN, Measurement, Task
from .schema import Session

BATCH = 500  # rows of a transaction: others wait for one batch only

_ADD_TEXT = "INSERT INTO andiron_texts (hash, text) VALUES (:hash, :text) ON CONFLICT DO NOTHING"
_ADD_TASK = """INSERT INTO andiron_tasks (task, op, op_name, sizes, open_sizes, target, device)
    VALUES (:task, :op, :op_name, :sizes, :open_sizes, :target, :device) ON CONFLICT DO NOTHING"""
_ADD_ROW = """INSERT INTO andiron_measurements
    (id, task, schedule, fingerprint, toolchain, version, run, verdict, seconds, samples, detail, host, time)
    VALUES (:id, :task, :schedule, :fingerprint, :toolchain, :version, :run, :verdict, :seconds, :samples, :detail, :host,
        :time) ON CONFLICT DO NOTHING"""
_ROWS = """SELECT m.id, m.task, s.text, m.fingerprint, m.toolchain, m.run, m.verdict, m.samples, m.detail, m.version, m.host,
        m.time
    FROM andiron_measurements m LEFT JOIN andiron_texts s ON s.hash = m.schedule WHERE {where} ORDER BY {order} LIMIT :limit"""
_TASK = """SELECT o.text, t.op_name, t.sizes, t.open_sizes, t.target, d.text FROM andiron_tasks t
    LEFT JOIN andiron_texts o ON o.hash = t.op LEFT JOIN andiron_texts d ON d.hash = t.device WHERE t.task = :task"""
_TIMES = "SELECT fingerprint, schedule, verdict, seconds FROM andiron_measurements WHERE task = :task"
_TEXT = "SELECT text FROM andiron_texts WHERE hash = :hash"
# Tasks of an op that were measured on this machine.
_MEASURED = """SELECT t.task, t.sizes, t.open_sizes FROM andiron_tasks t
    WHERE t.op = :op AND t.device = :device AND t.target = :target AND EXISTS (SELECT 1 FROM andiron_measurements m
        WHERE m.task = t.task AND m.fingerprint = :fingerprint AND m.verdict = 'right')"""


class Storage(Protocol):
    """Where the rows are. Its name is shown in messages."""

    name: str

    def transaction(self, write: bool = False) -> AbstractContextManager[Session]: ...


@dataclass(frozen=True)
class Choice:
    """The fastest schedule of a task on a machine.

    task      the task          schedule  the text
    seconds   of a call: the median over its runs           runs  how many these are
    distance  of the task's sizes from the asked ones, the length of the difference of their binary logarithms
    """

    task: Task
    schedule: str
    seconds: float
    runs: int
    distance: float = 0.0


class Database:
    """A database of measurements. Threads and processes may share it.

    name  the path, or the URL without its password
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
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
            with self._storage.transaction(write=True) as session:
                session.execute_many(_ADD_TEXT, [dict(hash=h, text=text) for h, text in sorted(texts.items())])
                session.execute_many(_ADD_TASK, [_task_values(task) for _, task in sorted(tasks.items())])
                added += session.execute_many(_ADD_ROW, [_row_values(m) for m in rows])
        return added

    def merge(self, other: Database) -> int:
        """Adds the rows of another database, and returns how many of them are new."""
        return self.add(other.rows())

    # ------------------------------------------------------------ finding

    def find(self, task_key: str, fingerprint: str | None = None) -> list[Measurement]:
        """The rows of a task, of one machine or of all."""
        values = {"task": task_key} | ({} if fingerprint is None else {"fingerprint": fingerprint})
        return list(self._pages(("fingerprint", "id"), **values))

    def rows(self, op: str | None = None, target: str | None = None) -> Iterator[Measurement]:
        """All rows, or those of an op's name and a target."""
        if op is None and target is None:
            yield from self._pages(("id",))
        else:
            for task in self.tasks(op, target):
                yield from self.find(task.key)

    def tasks(self, op: str | None = None, target: str | None = None) -> Iterator[Task]:
        """The tasks, those of an op's name and a target."""
        given = {name: x for name, x in (("op_name", op), ("target", target)) if x is not None}
        where = " AND ".join(["task > :after", *(f"{name} = :{name}" for name in given)])
        after = ""
        while True:
            sql = f"SELECT task FROM andiron_tasks WHERE {where} ORDER BY task LIMIT :limit"
            with self._storage.transaction() as session:
                found = session.execute(sql, after=after, limit=BATCH, **given)
                page = [self._task(session, key) for (key,) in found]
            yield from page
            if len(page) < BATCH:
                return
            after = page[-1].key

    def best(self, task_key: str, fingerprint: str) -> Choice | None:
        """The fastest schedule of a task on a machine; None where none was right."""
        with self._storage.transaction() as session:
            return self._best(session, task_key, fingerprint)

    def nearest(self, task: Task, fingerprint: str, limit: int = 8) -> list[Choice]:
        """The fastest schedules of the tasks with the nearest sizes, for the same op, target and device, the nearest first.

        The task itself is not among them. Sizes that are open for the one are open for the other.
        """
        with self._storage.transaction() as session:
            rows = session.execute(
                _MEASURED, op=task.op_hash, device=task.device_hash, target=task.target, fingerprint=fingerprint
            )
            distances = []
            for key, sizes, open_sizes in rows:
                distance = _distance(task, self._sizes(sizes), self._sizes(open_sizes))
                if distance is not None and key != task.key:
                    distances.append((distance, key))
            found = (self._best(session, key, fingerprint, distance) for distance, key in sorted(distances))
            return list(islice((choice for choice in found if choice is not None), limit))

    def _best(self, session: Session, task: str, fingerprint: str, distance: float = 0.0) -> Choice | None:
        times: dict[str, list[float]] = {}
        excluded: set[str] = set()
        for machine, schedule, verdict, seconds in session.execute(_TIMES, task=task):
            if verdict in NEVER_CHOSEN:
                excluded.add(schedule)
            elif verdict == "right" and machine == fingerprint and seconds is not None:
                times.setdefault(schedule, []).append(seconds)
        ranked = sorted((median(found), schedule) for schedule, found in times.items() if schedule not in excluded)
        if not ranked:
            return None
        seconds, schedule = ranked[0]
        text = session.execute(_TEXT, hash=schedule)
        if not text:
            raise self._damaged(f"the text {schedule} is missing")
        return Choice(self._task(session, task), text[0][0], seconds, len(times[schedule]), distance)

    # ------------------------------------------------------------ rows to values

    def _pages(self, order: Sequence[Literal["id", "fingerprint"]], **given: Any) -> Iterator[Measurement]:
        """PAGES. Rows with the given values, in the order of these columns, which tell each from the others."""
        tasks: dict[str, Task] = {}
        where = [f"m.{name} = :{name}" for name in given]
        after: dict[str, Any] = {}
        keys = ", ".join(f"m.{name}" for name in order)
        while True:
            beyond = [f"({keys}) > ({', '.join(f':after_{name}' for name in order)})"] if after else []
            sql = _ROWS.format(where=" AND ".join([*where, *beyond]) or "1 = 1", order=keys)
            with self._storage.transaction() as session:
                found = session.execute(sql, limit=BATCH, **given, **after)
                for row in found:
                    if row[1] not in tasks:
                        tasks[row[1]] = self._task(session, row[1])
            yield from (self._measurement(tasks[row[1]], row) for row in found)
            if len(found) < BATCH:
                return
            last = {"id": found[-1][0], "fingerprint": found[-1][3]}
            after = {f"after_{name}": last[name] for name in order}

    def _task(self, session: Session, key: str) -> Task:
        rows = session.execute(_TASK, task=key)
        if not rows or None in rows[0]:
            raise self._damaged(f"the task {key} is missing, or one of its texts")
        op, name, sizes, open_sizes, target, device = rows[0]
        return Task(op, name, self._sizes(sizes), target, device, self._sizes(open_sizes))

    def _measurement(self, task: Task, row: tuple[Any, ...]) -> Measurement:
        key, _, schedule, fingerprint, toolchain, run, verdict, samples, detail, version, host, time = row
        if schedule is None:
            raise self._damaged(f"the schedule of row {key} is missing")
        times = self._json(samples)
        return Measurement(task, schedule, fingerprint, toolchain, run, verdict, times, detail, version, host, time)

    def _sizes(self, text: str) -> dict[str, int]:
        return self._json(text)

    def _json(self, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError:
            raise self._damaged(f"{text[:40]!r} is no JSON") from None

    def _damaged(self, what: str) -> DamagedDatabase:
        return DamagedDatabase(f"{self.name} is damaged: {what}", help="`andiron db check` shows the extent; restore a copy")


def _distance(task: Task, sizes: dict[str, int], open_sizes: dict[str, int]) -> float | None:
    """Between the sizes of a task and others; None where other sizes are open. Open sizes count little: any may come."""
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
    return {"id": m.key, "task": m.task.key, "schedule": m.schedule_hash, "samples": json.dumps(m.samples), **values}
