"""`SqliteFile`: a database in a file, for many processes of machines that share the file.

JOURNAL  The rollback journal, not the write-ahead log: the log needs memory that processes share, which network file systems do
         not have. A process that is killed leaves a journal, from which the next one restores the file.
LOCKED   Writers take the lock at the start, so none has to give up half-way. They wait for each other, so often and so long.
WHOLE    A file that is shorter than the pages that it states was cut. SQLite reads a page that is cut as if zeros followed.
FOREIGN  The first bytes of a file say that it is one of ours, before SQLite opens it: a foreign file is not touched.
ALONE    A connection lives for one transaction. None is shared by threads, or inherited by a forked process.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from ....dsl.errors.database import DamagedDatabase, DatabaseBusy, DatabaseFailed, ForeignDatabase, NoDatabase
from .schema import Session, has_all_steps, migrate

_APPLICATION = 0x416E4462  # "AnDb"; SQLite stores it in bytes 68 to 71 of a file
_TRIES, _PATIENCE = 6, 10.0  # LOCKED: so often; seconds each time

# What SQLite says of a file whose pages, tables or texts are not what was stored.
_DAMAGE = ("malformed", "not a database", "Could not decode", "no such table", "no such column", "database corruption")

_LONGEST = 100  # characters of a fault in the words of SQLite
_RESTORE = "restore a copy, or move the file away"

T = TypeVar("T")


class SqliteFile:
    """A file, created at the first write."""

    def __init__(self, path: Path, create: bool = True, patience: float | None = None) -> None:
        self.path, self.name = path, str(path)
        self._tries, self._patience = (_TRIES, _PATIENCE) if patience is None else (1, patience)
        try:
            if not create and (not path.exists() or (path.is_file() and not path.stat().st_size)):
                missing = f"{path} is empty" if path.exists() else f"there is no database {path}"
                raise NoDatabase(missing, help="`andiron tune` creates one; or name another")
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise NoDatabase(f"there can be no database {path}: {error.strerror}", help="name another path") from None
        self._refuse_foreign()
        with self._connection(create) as session:
            session.execute("BEGIN")
            there = bool(_tables(session))  # from here on nobody else writes
            self._refuse_cut(session)
            current = there and has_all_steps(session, self.name)
            session.execute("COMMIT")
        if not current:
            if there and (faults := self.faults()):  # nothing is written to what is damaged
                raise DamagedDatabase(f"{self.path} is damaged: {faults[0]}", help=_RESTORE)
            with self.transaction(write=True) as session:
                migrate(session, _tables(session), self.name)
                session.execute(f"PRAGMA application_id = {_APPLICATION}")

    @contextmanager
    def transaction(self, write: bool = False, alone: bool = False) -> Iterator[Session]:
        """All of the block's statements, or none where it raises. Raises DatabaseBusy, DamagedDatabase, DatabaseFailed."""
        with self._connection() as session:
            session.execute("BEGIN IMMEDIATE" if write or alone else "BEGIN")
            yield session
            session.execute("COMMIT")

    def compact(self) -> None:
        """Gives space that nothing uses back to the system."""
        with self._connection() as session:
            session.execute("VACUUM")

    def faults(self) -> list[str]:
        """What SQLite finds wrong with the file."""
        with self._connection() as session:
            said = [line for (text,) in session.execute("PRAGMA integrity_check(20)") for line in text.split("\n")]
        return [line[:_LONGEST] for line in said if line not in ("ok", "") and not line.startswith("***")]

    @contextmanager
    def _connection(self, create: bool = False) -> Iterator[_SqliteSession]:
        connection, uri = None, f"file:{quote(str(self.path))}?mode={'rwc' if create else 'rw'}"
        try:
            connection = sqlite3.connect(uri, uri=True, timeout=self._patience, isolation_level=None)
            yield _SqliteSession(connection, self._tries)
        except sqlite3.Error as error:
            raise self._explained(error) from None
        finally:
            if connection is not None:
                with suppress(sqlite3.Error):
                    connection.close()  # ends what was not committed

    def _refuse_foreign(self) -> None:
        """FOREIGN"""
        try:
            with self.path.open("rb") as file:
                head = file.read(100)
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:  # no file can have some names
            raise NoDatabase(f"{str(self.path)!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None
        ours = head[:16] == b"SQLite format 3\0" and int.from_bytes(head[68:72], "big") == _APPLICATION
        if head and not ours:
            raise ForeignDatabase(f"{self.path} is no database of Andiron's", help="it was not touched; name another file")

    def _refuse_cut(self, session: Session) -> None:
        """WHOLE"""
        ((size,),), ((count,),) = (session.execute(f"PRAGMA {name}") for name in ("page_size", "page_count"))
        there = os.stat(self.path).st_size
        if there < size * count:
            cut = f"the file was cut: it has {there:,} bytes, and states {count:,} pages of {size:,}"
            raise DamagedDatabase(f"{self.path} is damaged: {cut}", help=_RESTORE)

    def _explained(self, error: sqlite3.Error) -> Exception:
        said = str(error)
        what = said.partition(" with text")[0]  # what cannot be decoded is nothing to show
        if any(sign in said for sign in _DAMAGE):
            return DamagedDatabase(f"{self.path} is damaged: {what}", help=_RESTORE)
        if "locked" in said:
            return DatabaseBusy(f"{self.path} was locked by others for {self._tries * self._patience:.0f} s")
        way_out = None
        if "readonly" in said or "unable to open" in said:
            way_out = f"see who may write {self.path} and its folder {os.path.dirname(self.path) or '.'}"
        if "full" in said:
            folder = os.path.dirname(self.path) or "."
            return DatabaseFailed(
                f"{self.path}: no space is left on its disk, and what was asked for was not done: {said}",
                help=f"free space on the disk of {folder} (also removing takes some, until it is done), and run it again; or "
                "`andiron db export` to another disk, and `import` there",
            )
        return DatabaseFailed(f"{self.path}: {said}", help=way_out)


class _SqliteSession:
    def __init__(self, connection: sqlite3.Connection, tries: int) -> None:
        self._connection, self._tries = connection, tries

    def execute(self, sql: str, /, **values: Any) -> list[tuple[Any, ...]]:
        return _patiently(lambda: self._connection.execute(sql, values).fetchall(), self._tries)

    def execute_many(self, sql: str, values: list[dict[str, Any]], /) -> int:
        return _patiently(lambda: self._connection.executemany(sql, values).rowcount, self._tries)


def _patiently(call: Callable[[], T], tries: int) -> T:
    """LOCKED. SQLite itself waits each time."""
    for _ in range(tries - 1):
        try:
            return call()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
    return call()


def _tables(session: Session) -> set[str]:
    return {name for (name,) in session.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
