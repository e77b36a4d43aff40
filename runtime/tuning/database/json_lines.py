"""Measurements as JSON, a line each: any program reads it, and it is as long as it likes.

    {"format": "andiron measurements", "form": 1}
    {"device": HASH, "text": TEXT}                                                      before the first task for it
    {"task": KEY, "op": TEXT, "op_name": ..., "sizes": {...}, "open_sizes": {...}, "target": ..., "device": HASH}
    {"of": KEY, "schedule": TEXT, "fingerprint": ..., ..., "samples": [...]}             the fields of a `Measurement`

A task stands before its first measurement. So one pass writes it and one reads it, and only tasks stay in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any, BinaryIO

from ....dsl.errors import UserError
from ....dsl.errors.database import BadMeasurement
from ....dsl.errors.run import DamagedFile
from .measurement import Measurement, Task

HEAD = {"format": "andiron measurements", "form": 1}
_WAY_OUT = "leave the line out, or export the measurements again"
FIELDS = tuple(f.name for f in fields(Measurement) if f.name != "task")


def write_lines(file: BinaryIO, measurements: Iterable[Measurement]) -> int:
    """Writes measurements, and returns how many there were."""
    count, seen = 0, set()
    _put(file, HEAD)
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
    return count


def read_lines(file: BinaryIO, name: str) -> Iterator[Measurement]:
    """The measurements of a file. Raises DamagedFile for another file, BadMeasurement for a line that is none."""
    devices: dict[str, str] = {}
    tasks: dict[str, Task] = {}
    number = 0
    for number, line in enumerate(file, 1):
        try:
            found = json.loads(line)
            if number == 1:
                if found != HEAD:
                    raise ValueError("it begins otherwise")
            elif "of" in found:
                yield Measurement(tasks[found.pop("of")], **{n: found.pop(n) for n in FIELDS}, **found)
            elif "task" in found:
                key, device = found.pop("task"), devices[found.pop("device")]
                tasks[key] = Task(device=device, **found)
                if tasks[key].key != key:
                    raise ValueError("the task is not what its key stands for")
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


def _put(file: BinaryIO, value: dict[str, Any]) -> None:
    file.write(json.dumps(value, ensure_ascii=False).encode() + b"\n")
