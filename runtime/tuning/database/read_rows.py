"""Rows of the tables, as tasks and measurements.

PAGES    Many rows are read in pages, each in a transaction of its own: a reader does not keep writers waiting.
UNTIMED  Earlier versions stored candidates as right for whose times no time was left. They are read as late, as they are now.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from ....dsl.errors.database import BadMeasurement, DamagedDatabase
from .measurement import Measurement, Task
from .schema import Session, Storage, hash_of

PAGE = 500

_ROWS = """SELECT m.id, m.task, s.text, m.fingerprint, m.toolchain, m.run, m.verdict, m.samples, m.detail, m.version, m.host,
        m.time, m.schedule, m.seconds, m.rank_hash, m.content_hash
    FROM andiron_measurements m LEFT JOIN andiron_texts s ON s.hash = m.schedule WHERE {where} ORDER BY {order} LIMIT :limit"""
_TIMES = "SELECT fingerprint, schedule, verdict, seconds, id, rank_hash FROM andiron_measurements WHERE task = :task"
# By the index: one step for each task, however many rows it has.
_ORPHANS = """WITH RECURSIVE measured(task) AS (SELECT MIN(task) FROM andiron_measurements UNION ALL
        SELECT (SELECT MIN(m.task) FROM andiron_measurements m WHERE m.task > measured.task) FROM measured
        WHERE measured.task IS NOT NULL)
    SELECT task FROM measured WHERE task IS NOT NULL AND NOT EXISTS
        (SELECT 1 FROM andiron_tasks t WHERE t.task = measured.task)"""
# The columns of a row of `task_of_row`.
TASKS = """SELECT t.task, o.text, t.op_name, t.sizes, t.open_sizes, t.target, d.text FROM andiron_tasks t
    LEFT JOIN andiron_texts o ON o.hash = t.op LEFT JOIN andiron_texts d ON d.hash = t.device WHERE """


def pages(
    storage: Storage, order: Sequence[Literal["id", "fingerprint"]] = ("id",), **given: Any
) -> Iterator[tuple[dict[str, Task], list[tuple[Any, ...]]]]:
    """PAGES. Rows with the given values, in the order of these columns, which tell each from the others; and their tasks.

    A row is what `read_measurement` takes. The tasks are by their keys, and stay from page to page.
    """
    tasks: dict[str, Task] = {}
    where = [f"m.{name} = :{name}" for name in given]
    after: dict[str, Any] = {}
    keys = ", ".join(f"m.{name}" for name in order)
    while True:
        beyond = [f"({keys}) > ({', '.join(f':after_{name}' for name in order)})"] if after else []
        sql = _ROWS.format(where=" AND ".join([*where, *beyond]) or "1 = 1", order=keys)
        with storage.transaction() as session:
            found = session.execute(sql, limit=PAGE, **given, **after)
            for row in found:
                if row[1] not in tasks:
                    tasks[row[1]] = read_task(session, storage.name, row[1])
        yield tasks, found
        if len(found) < PAGE:
            return
        last = {"id": found[-1][0], "fingerprint": found[-1][3]}
        after = {f"after_{name}": last[name] for name in order}


def read_task(session: Session, name: str, key: str) -> Task:
    """The task of a key. Raises DamagedDatabase where it is not there."""
    rows = session.execute(f"{TASKS} t.task = :task", task=key)
    if not rows:
        raise damaged(name, f"the task {key} is missing")
    return task_of_row(name, rows[0])


def orphans(session: Session) -> list[str]:
    """The keys of tasks that are missing, while rows of them are there."""
    return sorted(key for (key,) in session.execute(_ORPHANS))


def task_of_row(name: str, row: tuple[Any, ...]) -> Task:
    """A row of `TASKS`. Raises DamagedDatabase where a text is not there, or not what was stored."""
    key, op, op_name, sizes, open_sizes, target, device = row
    if op is None or device is None:
        raise damaged(name, f"a text of the task {key} is missing")
    try:
        task = Task(op, op_name, read_json(name, sizes), target, device, read_json(name, open_sizes))
    except BadMeasurement as error:
        raise damaged(name, f"the task {key}: {error.message}") from None
    if task.key != key:
        raise damaged(name, f"the task {key} is not what its key stands for")
    return task


def read_measurement(name: str, task: Task, row: tuple[Any, ...]) -> Measurement:
    """A row of a page. Raises DamagedDatabase where it is none, or not what was stored. UNTIMED"""
    key, _, schedule, fingerprint, toolchain, run, verdict, samples, detail, version, host, time, *stored = row
    if schedule is None:
        raise damaged(name, f"the schedule of row {key} is missing")
    times = read_json(name, samples)
    try:
        if verdict == "right" and times == []:
            verdict, detail = "late", detail or "not timed"
        m = Measurement(task, schedule, fingerprint, toolchain, run, verdict, times, detail, version, host, time)
    except BadMeasurement as error:
        raise damaged(name, f"row {key}: {error.message}") from None
    if m.key != key:
        raise damaged(name, f"row {key} is not what its key stands for")
    if fault := _fault_of_content(m, row, *stored):
        raise damaged(name, f"row {key} {fault}")
    return m


def _fault_of_content(
    m: Measurement, row: tuple[Any, ...], schedule: Any, seconds: Any, of_rank: Any, of_content: Any
) -> str | None:
    """What of a row does not fit what it was stored with: the hash of its schedule and its three last columns."""
    key, task, _, machine, _, _, verdict, samples, detail, _, host, time = row[:12]
    if schedule != m.schedule_hash:
        return "has the text of another schedule"
    if seconds != m.seconds:
        return f"has {seconds!r} as its seconds, and its samples give {m.seconds!r}"
    if of_rank not in (None, hash_of(key, task, machine, schedule, verdict, seconds)):
        return "has another machine, schedule, verdict or time than it was stored with"
    if of_content not in (None, hash_of(samples, detail, host, time)):
        return "has other samples or words than it was stored with"
    return None


def read_times(session: Session, name: str, task: str) -> list[tuple[Any, ...]]:
    """The machine, the hash of the schedule, the verdict and the seconds of each row of a task. Raises DamagedDatabase."""
    return checked_times(name, task, session.execute(_TIMES, task=task))


def checked_times(name: str, task: str, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The first four columns of rows with these six: those of `read_times`, the key, and its hash. Raises DamagedDatabase."""
    for machine, schedule, verdict, seconds, key, stored in rows:
        texts = isinstance(machine, str) and isinstance(schedule, str) and isinstance(verdict, str)
        if not texts or not (seconds is None or (isinstance(seconds, (float, int)) and 0 < seconds < math.inf)):
            raise damaged(name, f"a row of the task {task} has no times")
        if stored is not None and stored != hash_of(key, task, machine, schedule, verdict, seconds):
            raise damaged(name, f"row {key} has another machine, schedule, verdict or time than it was stored with")
    return [row[:4] for row in rows]


def read_sizes(name: str, text: str) -> dict[str, int]:
    """Sizes by name, of a text of ours. Raises DamagedDatabase."""
    found = read_json(name, text)
    if not isinstance(found, dict) or not all(type(n) is int for n in found.values()):
        raise damaged(name, f"{text[:40]!r} are no sizes")
    return found


def read_json(name: str, text: str) -> Any:
    """The value of a text of ours. Raises DamagedDatabase."""
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        raise damaged(name, f"{str(text)[:40]!r} is no JSON") from None


def damaged(name: str, what: str) -> DamagedDatabase:
    return DamagedDatabase(f"{name} is damaged: {what}", help="`andiron db check` shows the extent; restore a copy")
