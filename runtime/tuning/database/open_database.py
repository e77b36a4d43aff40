"""`open_database`: the database of a path or a URL, or the one in the cache directory."""

from __future__ import annotations

import os
from pathlib import Path

from ....dsl.errors.database import NoDatabase
from ...storage.cache import default_root
from ..tuning_store import named_database
from .database import Database
from .sqlite_file import SqliteFile
from .url_engine import UrlEngine


def default_path() -> Path:
    """The file of the database in the cache directory."""
    return default_root() / "measurements.db"


def open_database(where: str | os.PathLike[str] | None = None, create: bool = True, patience: float | None = None) -> Database:
    """Opens a database of measurements, and brings an older one to today's form.

    where     a path, `sqlite:///PATH`, or `postgresql://USER:PASSWORD@HOST/NAME`; None is the one that `ANDIRON_TUNED` names,
              otherwise the file in the cache directory
    create    whether what is not there, or empty, is created; otherwise it raises NoDatabase
    patience  how long others may lock it, in seconds; None is a minute

    Raises NoDatabase, ForeignDatabase, DamagedDatabase, DatabaseBusy, DatabaseFailed. Raises NoPackage without the package that
    a URL needs.
    """
    text = os.fspath(where if where is not None else named_database() or default_path())
    if not text:
        raise NoDatabase("the name of the database is empty", help="a path, `sqlite:///PATH` or `postgresql://...`")
    scheme, separator, rest = text.partition("://")
    if not separator:
        return Database(SqliteFile(_absolute(text), create, patience))
    if scheme == "sqlite":
        return Database(SqliteFile(_absolute(rest.removeprefix("/")), create, patience))
    if scheme.partition("+")[0] in ("postgresql", "postgres"):
        return Database(UrlEngine(text, create, patience))
    raise NoDatabase(f"`{scheme}:` is no database that Andiron knows", help="a path, `sqlite:///PATH` or `postgresql://...`")


def _absolute(path: str) -> Path:
    """A later connection may find the process in another folder."""
    return Path(os.path.abspath(os.path.expanduser(path)))
