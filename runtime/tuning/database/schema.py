"""The tables of a database of measurements, for SQLite and PostgreSQL alike, and the steps that lead to them.

STEPS  A database states how many of the steps it has taken. Opening an older one takes the others, in one transaction. A step
       that was published is never changed: a new form is a new step.
ONCE   A text (op, device, schedule) is stored once, under its hash. Rows are stored once, under their key.
HASHED The key of a row covers what it is for. Two more hashes cover what came of it: `rank_hash` what ranking reads, and
       `content_hash` the rest. They tell damage, and no intent: who changes a row on purpose can compute them. A row has none
       where a process of an earlier version, which had opened the database before this step, has added it.

Only what both databases understand is used: text, integers and floats; `:name` for values; `ON CONFLICT DO NOTHING`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from hashlib import blake2b
from typing import Any, Protocol

from ....dsl.errors.database import ForeignDatabase

# HASHED: the columns of a row that each of its two hashes covers.
RANKED = ("id", "task", "fingerprint", "schedule", "verdict", "seconds")
REST = ("samples", "detail", "host", "time")
_DIGITS = 16  # of a hash that need not tell rows apart
_HASHED_AT_ONCE = 5000  # rows in memory while a step hashes all


class Session(Protocol):
    """A transaction of one of the databases."""

    def execute(self, sql: str, /, **values: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement."""
        ...

    def execute_many(self, sql: str, values: list[dict[str, Any]], /) -> int:
        """How many rows the statement added or removed, for these values one after another."""
        ...


def hash_of(*columns: Any) -> str:
    """HASHED. Of `RANKED` or `REST` of a row, as they are stored."""
    return blake2b(repr(columns).encode(errors="backslashreplace"), digest_size=_DIGITS // 2).hexdigest()


def _hash_rows(session: Session) -> None:
    """HASHED. Of all rows, as they are."""
    columns, after = (*RANKED, *REST), ""
    while True:
        found = session.execute(
            f"SELECT {', '.join(columns)} FROM andiron_measurements WHERE id > :after ORDER BY id LIMIT :limit",
            after=after,
            limit=_HASHED_AT_ONCE,
        )
        n = len(RANKED)
        session.execute_many(
            "UPDATE andiron_measurements SET rank_hash = :rank, content_hash = :content WHERE id = :id",
            [{"id": row[0], "rank": hash_of(*row[:n]), "content": hash_of(*row[n:])} for row in found],
        )
        if len(found) < _HASHED_AT_ONCE:
            return
        after = found[-1][0]


STEPS: list[tuple[str | Callable[[Session], None], ...]] = [
    (
        "CREATE TABLE andiron_texts (hash TEXT PRIMARY KEY, text TEXT NOT NULL)",
        """CREATE TABLE andiron_tasks (
            task TEXT PRIMARY KEY, op TEXT NOT NULL, op_name TEXT NOT NULL, sizes TEXT NOT NULL, open_sizes TEXT NOT NULL,
            target TEXT NOT NULL, device TEXT NOT NULL)""",
        "CREATE INDEX andiron_tasks_of_op ON andiron_tasks (op, device, target)",
        "CREATE INDEX andiron_tasks_by_name ON andiron_tasks (op_name, task)",
        """CREATE TABLE andiron_measurements (
            id TEXT PRIMARY KEY, task TEXT NOT NULL, schedule TEXT NOT NULL, fingerprint TEXT NOT NULL,
            toolchain TEXT NOT NULL, version TEXT NOT NULL, run TEXT NOT NULL, verdict TEXT NOT NULL,
            seconds DOUBLE PRECISION, samples TEXT NOT NULL, detail TEXT NOT NULL, host TEXT NOT NULL, time TEXT NOT NULL)""",
        # What `best` reads is all in the index.
        """CREATE INDEX andiron_measurements_of_task
            ON andiron_measurements (task, fingerprint, id, schedule, verdict, seconds)""",
        "CREATE INDEX andiron_measurements_of_schedule ON andiron_measurements (schedule)",
    ),
    (
        # Cost models that were trained on the rows (`runtime.tuning.learn`).
        """CREATE TABLE andiron_models (
            id TEXT PRIMARY KEY, target TEXT NOT NULL, fingerprint TEXT NOT NULL, version TEXT NOT NULL, time TEXT NOT NULL,
            facts TEXT NOT NULL, trees TEXT NOT NULL)""",
        "CREATE INDEX andiron_models_of_machine ON andiron_models (target, fingerprint, time)",
    ),
    (
        # HASHED
        "ALTER TABLE andiron_measurements ADD COLUMN rank_hash TEXT",
        "ALTER TABLE andiron_measurements ADD COLUMN content_hash TEXT",
        _hash_rows,
        "DROP INDEX andiron_measurements_of_task",
        """CREATE INDEX andiron_measurements_of_task
            ON andiron_measurements (task, fingerprint, id, schedule, verdict, seconds, rank_hash)""",
    ),
]
TABLES = ("andiron_texts", "andiron_tasks", "andiron_measurements", "andiron_models")


class Storage(Protocol):
    """Where the rows are. Its name is shown in messages."""

    name: str

    def transaction(self, write: bool = False, alone: bool = False) -> AbstractContextManager[Session]:
        """All of a block's statements, or none. `alone`: no other process writes meanwhile."""
        ...

    def faults(self) -> list[str]:
        """What is wrong with the storage itself, in words."""
        ...

    def compact(self) -> None:
        """Gives space that nothing uses back."""
        ...


def migrate(session: Session, tables: set[str], name: str) -> None:
    """Brings the database to today's form. Raises ForeignDatabase for one that is not of Andiron's, or is newer."""
    if "andiron_schema" not in tables:
        if tables & set(TABLES):
            raise ForeignDatabase(f"{name} has tables of these names, and does not state its version")
        session.execute("CREATE TABLE andiron_schema (steps INTEGER NOT NULL)")
        session.execute("INSERT INTO andiron_schema (steps) VALUES (0)")
    taken = _steps_taken(session, name)
    for statements in STEPS[taken:]:
        for step in statements:
            if isinstance(step, str):
                session.execute(step)
            else:
                step(session)
    if taken < len(STEPS):
        session.execute("UPDATE andiron_schema SET steps = :steps", steps=len(STEPS))


def has_all_steps(session: Session, name: str) -> bool:
    """Whether the database has today's form. Raises ForeignDatabase where it is newer."""
    return _steps_taken(session, name) == len(STEPS)


def _steps_taken(session: Session, name: str) -> int:
    """How many steps the database has taken. Raises ForeignDatabase where they are more than this version knows."""
    rows = session.execute("SELECT steps FROM andiron_schema")
    if len(rows) != 1 or not isinstance(rows[0][0], int):
        raise ForeignDatabase(f"{name} does not state its version")
    if rows[0][0] > len(STEPS):
        raise ForeignDatabase(
            f"{name} was made by a newer version of Andiron: form {rows[0][0]}; this version knows {len(STEPS)}",
            help="install that version, or name another database",
        )
    return rows[0][0]
