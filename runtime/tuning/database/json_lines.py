"""Measurements as JSON, a line each: any program reads it, and it is as long as it likes.

    {"format": "andiron measurements", "form": 2}
    {"device": HASH, "text": TEXT}                                                      before the first task for it
    {"task": KEY, "op": TEXT, "op_name": ..., "sizes": {...}, "open_sizes": {...}, "target": ..., "device": HASH}
    {"of": KEY, "schedule": TEXT, "fingerprint": ..., ..., "samples": [...]}             the fields of a `Measurement`
    {"rows": N}                                                                         the last line: how many there are

A task stands before its first measurement. So one pass writes it and one reads it, and only tasks stay in memory.
COUNTED  A file of form 2 ends with the number of its rows, so one that was cut is told. Form 1 has no such line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from typing import Any, BinaryIO

from ....dsl.errors import UserError
from ....dsl.errors.database import BadMeasurement
from ....dsl.errors.run import DamagedFile
from .measurement import Measurement, Task

_FORMAT = "andiron measurements"
_HEADS = [{"format": _FORMAT, "form": form} for form in (1, 2)]
_WAY_OUT = "leave the line out and count one less in the last line, or export the measurements again"
_EXPORT_AGAIN = 'export the measurements again; where this is all that there is, write `"form": 1` in the first line'
FIELDS = tuple(f.name for f in fields(Measurement) if f.name != "task")


def write_lines(file: BinaryIO, measurements: Iterable[Measurement]) -> int:
    """Writes measurements, and returns how many there were."""
    count, seen = 0, set()
    _put(file, _HEADS[-1])
    for m in measurements:
        task = m.task
        if task.device_hash not in seen:
            _put(file, {"device": task.device_hash, "text": task.device})
        if task.key not in seen:
            sizes = {"sizes": task.sizes, "open_sizes": task.open_sizes}
            about = {"op_name": task.op_name, **sizes, "target": task.target, "device": task.device_hash}
            _put(file, {"task": task.key, "op": task.op, **about})
        seen |= {task.key, task.device_hash}
        _put(file, {"of": task.key, **{name: getattr(m, name) for name in FIELDS}})
        count += 1
    _put(file, {"rows": count})
    return count


def read_lines(file: BinaryIO, name: str, note: Callable[[str], object] | None = None) -> Iterator[Measurement]:
    """The measurements of a file. `note` is told where the file does not say how many it has.

    Raises DamagedFile for another file and for one that was cut, BadMeasurement for a line that is none.
    """
    devices: dict[str, str] = {}
    tasks: dict[str, Task] = {}
    number = form = rows = 0
    stated: int | None = None
    for number, line in enumerate(file, 1):
        try:
            found = json.loads(line)
            if number == 1:
                if found not in _HEADS:
                    raise ValueError("it begins otherwise")
                form = found["form"]
            elif stated is not None:
                raise ValueError("the line before it is the last one: it states the number of rows")
            elif "of" in found:
                rows += 1
                yield Measurement(tasks[found.pop("of")], **{n: found.pop(n) for n in FIELDS}, **found)
            elif "task" in found:
                key, device = found.pop("task"), devices[found.pop("device")]
                tasks[key] = Task(device=device, **found)
                if tasks[key].key != key:
                    raise ValueError("the task is not what its key stands for")
            elif "rows" in found and form > 1:
                stated = found["rows"]
            else:
                devices[found["device"]] = found["text"]
        except UserError as error:
            raise BadMeasurement(f"{name}, line {number}: {error.message}", help=error.help) from None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            said = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            if number == 1:
                raise DamagedFile(f"{name} is no file of measurements: {said}") from None
            raise BadMeasurement(f"{name}, line {number} is no measurement: {said}", help=_WAY_OUT) from None
    if not number:
        raise DamagedFile(f"{name} is no file of measurements: it is empty")
    if form > 1 and stated is None:
        raise DamagedFile(f"{name} was cut: the last line, which states the number of rows, is missing", help=_EXPORT_AGAIN)
    if form > 1 and stated != rows:
        raise DamagedFile(f"{name} has {rows:,} rows, and its last line states {stated}", help=_EXPORT_AGAIN)
    if form == 1 and note is not None:
        note(f"{name} does not state how many rows it has (form 1): whether these are all is not known")


def _put(file: BinaryIO, value: dict[str, Any]) -> None:
    file.write(json.dumps(value, ensure_ascii=False).encode() + b"\n")
