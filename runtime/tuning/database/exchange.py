"""Files with measurements, by which databases exchange them: `.parquet`, or JSON lines in a file of any other name."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

from ....dsl.errors.module import NoSuchFile
from ...storage.files import replacing
from .database import Database
from .json_lines import read_lines, write_lines
from .measurement import Measurement
from .parquet_file import read_parquet, write_parquet


def export_rows(database: Database, path: str, op: str | None = None, target: str | None = None) -> int:
    """Writes the rows, or those of an op's name and a target, to a file; returns how many. `-` is the output stream.

    The file is there when it is complete. Raises CannotWrite; NoPackage for Parquet without pyarrow; DamagedDatabase before
    anything is written.
    """
    database.expect_sound()
    rows = database.rows(op, target)
    if path == "-":
        return write_lines(sys.stdout.buffer, rows)
    with replacing(path) as file:
        return (write_parquet if _is_parquet(path) else write_lines)(file, rows)


def import_rows(database: Database, path: str, note: Callable[[str], object] | None = None) -> int:
    """Adds the rows of a file; returns how many are new. `-` is the input stream, with JSON lines.

    note  is told where a file does not say how many rows it has

    The file is read twice: nothing of one that is bad is stored. Raises NoSuchFile, DamagedFile, BadMeasurement. NoPackage,
    DamagedDatabase as above.
    """
    database.expect_sound()
    if path == "-":
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
            return _import_lines(database, copy, "the input stream", note)
    if not Path(path).is_file():
        raise NoSuchFile(f"{path}: no such file")
    if _is_parquet(path):
        _read_through(read_parquet(path))
        return database.add(read_parquet(path))
    with open(path, "rb") as file:
        return _import_lines(database, file, path, note)


def _import_lines(database: Database, file: BinaryIO, name: str, note: Callable[[str], object] | None) -> int:
    file.seek(0)
    _read_through(read_lines(file, name, note))
    file.seek(0)
    return database.add(read_lines(file, name))


def _read_through(rows: Iterable[Measurement]) -> None:
    for _ in rows:
        pass


def _is_parquet(path: str) -> bool:
    return path.endswith(".parquet")
