"""Files with measurements, by which databases exchange them: `.parquet`, or JSON lines in a file of any other name."""

from __future__ import annotations

import sys
from pathlib import Path

from ....dsl.errors.module import NoSuchFile
from ...storage.files import replacing
from .database import Database
from .json_lines import read_lines, write_lines
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


def import_rows(database: Database, path: str) -> int:
    """Adds the rows of a file; returns how many are new. `-` is the input stream, with JSON lines.

    Raises NoSuchFile, DamagedFile, BadMeasurement; what stands before a bad row is stored. NoPackage, DamagedDatabase as above.
    """
    database.expect_sound()
    if path == "-":
        return database.add(read_lines(sys.stdin.buffer, "the input stream"))
    if not Path(path).is_file():
        raise NoSuchFile(f"{path}: no such file")
    if _is_parquet(path):
        return database.add(read_parquet(path))
    with open(path, "rb") as file:
        return database.add(read_lines(file, path))


def _is_parquet(path: str) -> bool:
    return path.endswith(".parquet")
