"""`prune_rows`: the only way in which rows go away."""

from __future__ import annotations

from collections.abc import Iterable

from ...native.cpu_name import todays_name
from .measurement import NEVER_CHOSEN
from .ranking import ranking
from .read_rows import checked_times
from .schema import Storage

_FACTS = "SELECT fingerprint, schedule, verdict, seconds, id, rank_hash, time FROM andiron_measurements WHERE task = :task"
_REMOVE_ROW = "DELETE FROM andiron_measurements WHERE id = :id"
_REMOVE_UNUSED = (
    """DELETE FROM andiron_tasks WHERE NOT EXISTS
        (SELECT 1 FROM andiron_measurements m WHERE m.task = andiron_tasks.task)""",
    """DELETE FROM andiron_texts WHERE hash NOT IN (SELECT op FROM andiron_tasks UNION SELECT device FROM andiron_tasks)
        AND NOT EXISTS (SELECT 1 FROM andiron_measurements m WHERE m.schedule = andiron_texts.hash)""",
)


def prune_rows(storage: Storage, tasks: Iterable[str], before: str | None, keep: int | None) -> int:
    """See `Database.prune`. `tasks` are the keys of the tasks that are looked at."""
    removed = 0
    for task in tasks:
        with storage.transaction(alone=True) as session:
            facts = session.execute(_FACTS, task=task)
            fastest = ranking(checked_times(storage.name, task, [f[:6] for f in facts]))
            stay = {(machine, schedule) for machine, ranked in fastest.items() for _, schedule, _ in ranked[: keep or 0]}
            found = [
                {"id": key}
                for machine, schedule, verdict, _, key, _, time in facts
                if (before is None or time < before)
                and (keep is None or (verdict not in NEVER_CHOSEN and (todays_name(machine), schedule) not in stay))
            ]
            removed += session.execute_many(_REMOVE_ROW, found)
    with storage.transaction(alone=True) as session:
        for sql in _REMOVE_UNUSED:
            session.execute(sql)
    storage.compact()
    return removed
