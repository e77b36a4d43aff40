"""Mistakes with a database of measurements."""

from __future__ import annotations

from .base import UserError


class NoDatabase(UserError):
    """There is no database of measurements at the path, the file is empty, or the server of the URL does not answer.

    A database is a path, `sqlite:///PATH`, or `postgresql://USER@HOST/NAME`. `andiron tune` creates the one of a path.
    """

    id = "no-database"


class ForeignDatabase(UserError):
    """The file is no database of Andiron's, or a newer version of Andiron made it.

    Nothing in it was read or written. Name another file, or install the newer version.
    """

    id = "foreign-database"


class DamagedDatabase(UserError):
    """The file of a database is damaged: parts of it cannot be read.

    Nothing in it was changed, and nothing was taken from it. `andiron db check` shows the extent. Restore a copy, or move the
    file away: a new one is created.
    """

    id = "damaged-database"


class DatabaseBusy(UserError):
    """Another process kept the database locked for longer than this one waited.

    Run it again. A process that holds the lock for long has stopped, or the file system has no working locks.
    """

    id = "database-busy"


class DatabaseFailed(UserError):
    """The database refused a request, for a reason that the message quotes: no space, no permission, a broken connection.

    What was not confirmed was not stored.
    """

    id = "database-failed"


class BadMeasurement(UserError):
    """A row that is no measurement: a field is missing, or has a value that it cannot have.

    The message names the field, and in a file that is imported the line.
    """

    id = "bad-measurement"


class TooFewMeasurements(UserError):
    """A database has too few measurements to learn from.

    A cost model that learns takes measured schedules of several ops on one kind of machine. The message counts those that there
    are. `andiron tune --tasks FILE` measures more.
    """

    id = "too-few-measurements"
