"""Measurements as a Parquet file, for programs that read tables: a row each, and texts once in each group of rows.

Sizes are JSON, as names and numbers of sizes differ from op to op. `seconds` is what the samples give, and is not read back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, BinaryIO

from ....dsl.errors import UserError
from ....dsl.errors.database import BadMeasurement
from ....dsl.errors.run import DamagedFile, NoPackage
from .json_lines import FIELDS
from .measurement import Measurement, Task

_GROUP = 5000  # rows of a group
_BATCH = 500  # rows that are read at once: each has the whole text of its device
_OF_TASK = ("op", "op_name", "target", "device")
_SIZES = ("sizes", "open_sizes")


def write_parquet(file: BinaryIO, measurements: Iterable[Measurement]) -> int:
    """Writes measurements, and returns how many there were. Raises NoPackage without pyarrow."""
    pa, pq = _pyarrow()
    text = pa.dictionary(pa.int32(), pa.string())
    names = (*_OF_TASK, *_SIZES, *(name for name in FIELDS if name != "samples"))
    schema = pa.schema([*((name, text) for name in names), ("samples", pa.list_(pa.float64())), ("seconds", pa.float64())])
    count, rest = 0, iter(measurements)
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        while group := list(islice(rest, _GROUP)):
            columns = {name: _coded(pa, [getattr(m.task, name) for m in group]) for name in _OF_TASK}
            columns |= {name: _coded(pa, [json.dumps(getattr(m.task, name)) for m in group]) for name in _SIZES}
            columns |= {name: _coded(pa, [getattr(m, name) for m in group]) for name in FIELDS if name != "samples"}
            columns |= {
                name: pa.array([getattr(m, name) for m in group], schema.field(name).type) for name in ("samples", "seconds")
            }
            writer.write_table(pa.table(columns, schema=schema))
            count += len(group)
    return count


def read_parquet(path: str) -> Iterator[Measurement]:
    """The measurements of a file. Raises DamagedFile for another file, BadMeasurement for a row that is none."""
    pa, pq = _pyarrow()
    tasks: dict[tuple[str, ...], Task] = {}
    number = 0
    try:
        with pq.ParquetFile(path, read_dictionary=[*_OF_TASK, *_SIZES]) as file:
            lacking = {*_OF_TASK, *_SIZES, *FIELDS} - set(file.schema_arrow.names)
            if lacking:
                raise DamagedFile(f"{path} is no file of measurements: it has no column {min(lacking)}")
            for batch in file.iter_batches(_BATCH):
                for row in batch.to_pylist():
                    number += 1
                    task = tuple(row[name] for name in (*_OF_TASK, *_SIZES))
                    if task not in tasks:
                        tasks[task] = Task(
                            **{name: row[name] for name in _OF_TASK}, **{name: json.loads(row[name]) for name in _SIZES}
                        )
                    yield Measurement(tasks[task], **{name: row[name] for name in FIELDS})
    except DamagedFile:
        raise
    except UserError as error:
        raise BadMeasurement(f"{path}, row {number}: {error.message}", help=error.help) from None
    except (pa.ArrowException, OSError) as error:
        raise DamagedFile(f"{path} cannot be read as a Parquet file: {str(error).splitlines()[0]}") from None
    except (ValueError, TypeError) as error:
        raise BadMeasurement(f"{path}, row {number} is no measurement: {error}") from None


def _coded(pa: Any, values: list[str]) -> Any:
    """A column in which each different text stands once."""
    index = {text: n for n, text in enumerate(dict.fromkeys(values))}
    return pa.DictionaryArray.from_arrays(pa.array([index[x] for x in values], pa.int32()), pa.array([*index], pa.string()))


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise NoPackage("Parquet files need pyarrow", help="pip install 'andiron[parquet]', or name a file `.jsonl`") from None
    return pyarrow, pyarrow.parquet
