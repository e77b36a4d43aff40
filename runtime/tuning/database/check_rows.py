"""`check_rows`: everything in a database, against the hashes that it is stored under."""

from __future__ import annotations

from collections.abc import Iterator

from ....dsl.errors import UserError
from ...storage.cache import key_of
from .read_rows import PAGE, orphans, pages, read_measurement, read_task
from .schema import Storage

_TEXTS = "SELECT hash, text FROM andiron_texts WHERE hash > :after ORDER BY hash LIMIT :limit"
_MODELS = "SELECT id, facts, trees FROM andiron_models WHERE id > :after ORDER BY id LIMIT :limit"
_TASKS = "SELECT task FROM andiron_tasks WHERE task > :after ORDER BY task LIMIT :limit"


def check_rows(storage: Storage) -> Iterator[str]:
    """What is wrong, a line each. Where a part cannot be read at all, it raises DamagedDatabase, as any use does."""
    faults = storage.faults()
    yield from faults
    if faults:
        return
    for key, text in _paged(storage, _TEXTS):
        if key_of(text) != key:
            yield f"text {key} has another hash"
    for key, facts, trees in _paged(storage, _MODELS):
        if key_of(facts, trees) != key:
            yield f"model {key} is not what its key stands for"
    broken = set()
    for (key,) in _paged(storage, _TASKS):
        try:
            with storage.transaction() as session:
                sound = read_task(session, storage.name, key).key == key
        except UserError:
            sound = False
        if not sound:
            broken.add(key)
            yield f"task {key} is not what its key stands for"
    with storage.transaction() as session:
        missing = orphans(session)
    yield from (f"task {key} is missing, and rows of it are there" for key in missing)
    if broken or missing:
        return  # rows cannot be read without their tasks
    for tasks, rows in pages(storage):
        for row in rows:
            try:
                read_measurement(storage.name, tasks[row[1]], row)
            except UserError as error:
                yield error.message.removeprefix(f"{storage.name} is damaged: ")


def _paged(storage: Storage, sql: str) -> Iterator[tuple[str, ...]]:
    after = ""
    while True:
        with storage.transaction() as session:
            found = session.execute(sql, after=after, limit=PAGE)
        yield from found
        if len(found) < PAGE:
            return
        after = found[-1][0]
