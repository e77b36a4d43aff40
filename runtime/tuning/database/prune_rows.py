"""`prune_rows`: the only way in which rows go away."""

from __future__ import annotations

from typing import Any

from ....dsl.errors.database import DatabaseFailed
from ....dsl.support.amounts import counted
from ...native.cpu_name import todays_name
from .measurement import NEVER_CHOSEN
from .ranking import ranking
from .read_rows import PAGE, checked_times
from .schema import Storage

_FACTS = "SELECT fingerprint, schedule, verdict, seconds, id, rank_hash, time FROM andiron_measurements WHERE task = :task"
_TASKS = "SELECT task FROM andiron_tasks WHERE task > :after ORDER BY task LIMIT :limit"
_REMOVE_ROW = "DELETE FROM andiron_measurements WHERE id = :id"
_REMOVE_UNUSED = (
    """DELETE FROM andiron_tasks WHERE NOT EXISTS
        (SELECT 1 FROM andiron_measurements m WHERE m.task = andiron_tasks.task)""",
    """DELETE FROM andiron_texts WHERE hash NOT IN (SELECT op FROM andiron_tasks UNION SELECT device FROM andiron_tasks)
        AND NOT EXISTS (SELECT 1 FROM andiron_measurements m WHERE m.schedule = andiron_texts.hash)""",
)


def prune_rows(storage: Storage, before: str | None, keep: int | None) -> int:
    """See `Database.prune`. All in one transaction: where it fails, nothing was removed."""
    removed = 0
    with storage.transaction(alone=True) as session:
        after = ""
        while (before, keep) != (None, None):
            tasks = [key for (key,) in session.execute(_TASKS, after=after, limit=PAGE)]
            for task in tasks:
                facts = session.execute(_FACTS, task=task)
                removed += session.execute_many(_REMOVE_ROW, _removed(storage.name, task, facts, before, keep))
            if len(tasks) < PAGE:
                break
            after = tasks[-1]
        for sql in _REMOVE_UNUSED:
            session.execute(sql)
    try:
        storage.compact()
    except DatabaseFailed as error:
        done = f"{counted(removed, 'row')} were removed, and the space was not given back: {error.message}"
        raise DatabaseFailed(done, help="new rows use that space; to give it back, free some and run it again") from None
    return removed


def _removed(name: str, task: str, facts: list[tuple[Any, ...]], before: str | None, keep: int | None) -> list[dict[str, str]]:
    """The keys of the rows of a task that go."""
    fastest = ranking(checked_times(name, task, [f[:6] for f in facts]))
    stay = {(machine, schedule) for machine, ranked in fastest.items() for _, schedule, _ in ranked[: keep or 0]}
    return [
        {"id": key}
        for machine, schedule, verdict, _, key, _, time in facts
        if (before is None or time < before)
        and (keep is None or (verdict not in NEVER_CHOSEN and (todays_name(machine), schedule) not in stay))
    ]
