"""`UrlEngine`: a database on a server, through SQLAlchemy Core: PostgreSQL, for teams.

LOCKS  Writers share a lock of the server's that migrating and pruning take alone: a text that a new row needs is not removed.
ALONE  A connection lives for one transaction. None is shared by threads, or inherited by a forked process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ....dsl.errors.database import DatabaseBusy, DatabaseFailed, NoDatabase
from ....dsl.errors.run import NoPackage
from .schema import Session, has_all_steps, migrate

_LOCK = 0x416E4462  # LOCKS: its number on the server
_CONNECT, _PATIENCE = 10, 60  # seconds for a connection, and for a lock


class UrlEngine:
    """The database of a URL."""

    def __init__(self, url: str, create: bool = True, patience: float | None = None) -> None:
        try:
            import psycopg  # noqa: F401 - SQLAlchemy loads it by its name
            import sqlalchemy
            from sqlalchemy import exc
        except ImportError as error:
            raise NoPackage(f"databases on a server need a package: {error}", help="pip install 'andiron[cluster]'") from None
        self._text, self._errors = sqlalchemy.text, exc
        self._given = patience
        try:
            parsed = sqlalchemy.make_url(url).set(drivername="postgresql+psycopg")
            self.name = parsed.set(drivername="postgresql").render_as_string(hide_password=True)
            self._engine = sqlalchemy.create_engine(
                parsed, poolclass=sqlalchemy.NullPool, connect_args={"connect_timeout": _CONNECT}
            )
        except (exc.ArgumentError, ValueError):
            raise NoDatabase("the URL cannot be read", help="postgresql://USER:PASSWORD@HOST:PORT/NAME") from None
        try:
            with self.transaction() as session:
                there = "andiron_schema" in _tables(session)
                current = there and has_all_steps(session, self.name)
        except DatabaseFailed as error:
            raise NoDatabase(error.message, help="see whether the server runs, and who may connect") from None
        if not there and not create:
            raise NoDatabase(f"{self.name} has no measurements", help="`andiron tune` makes the tables; or name another")
        if not current:
            with self.transaction(alone=True) as session:
                migrate(session, _tables(session), self.name)

    @contextmanager
    def transaction(self, write: bool = False, alone: bool = False) -> Iterator[Session]:
        """All of the block's statements, or none where it raises. Raises DatabaseBusy, DatabaseFailed."""
        patience = _PATIENCE if self._given is None else self._given
        try:
            with self._engine.begin() as connection:
                session = _UrlSession(connection, self._text)
                session.execute(f"SET LOCAL lock_timeout = {patience * 1000:.0f}")
                if write or alone:
                    session.execute(f"SELECT pg_advisory_xact_lock{'' if alone else '_shared'}({_LOCK})")
                yield session
        except self._errors.SQLAlchemyError as error:
            said = " ".join(str(getattr(error, "orig", None) or error).split("\n")[0].split())
            if "lock timeout" in said:
                raise DatabaseBusy(f"{self.name} was locked by others for {patience:.0f} s") from None
            raise DatabaseFailed(f"{self.name}: {said}") from None

    def compact(self) -> None:
        """Nothing: the server does it by itself."""

    def faults(self) -> list[str]:
        """None: a server checks its own pages as it reads them."""
        return []


class _UrlSession:
    def __init__(self, connection: Any, text: Any) -> None:
        self._connection, self._text = connection, text

    def execute(self, sql: str, /, **values: Any) -> list[tuple[Any, ...]]:
        result = self._connection.execute(self._text(sql), values)
        return [tuple(row) for row in result] if result.returns_rows else []

    def execute_many(self, sql: str, values: list[dict[str, Any]], /) -> int:
        return self._connection.execute(self._text(sql), values).rowcount if values else 0


def _tables(session: Session) -> set[str]:
    return {name for (name,) in session.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")}
