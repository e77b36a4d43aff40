"""`Task`: what is measured. `Measurement`: a schedule of it that was tried once, with the result.

UNCHANGED  Both are values: a key is a hash of all that it stands for, so the same row has the same key in every database.
"""

from __future__ import annotations

import json
import math
import platform
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from numbers import Real
from typing import Any

from ....dsl.errors.database import BadMeasurement
from ....dsl.support.cached import cached_property
from ...native.build_library import version
from ...storage.cache import key_of

VERDICTS = ("right", "wrong", "refused", "failed to build", "died", "late")
# A schedule with such a verdict is not chosen, whatever its times are.
NEVER_CHOSEN = ("wrong", "died")
_WAY_OUT = "leave the row out, or write a verdict that says what became of it"

# Less than any machine takes for a call: light goes 0.3 mm.
LEAST = 1e-12  # seconds

# Of one length: texts have the order of the times.
_TIME = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)Z", re.ASCII)


def utc_now() -> str:
    """The time as measurements state it: UTC, ISO 8601, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


@dataclass(frozen=True)
class Task:
    """An op at some sizes, for a target on a device: everything that a time depends on but the schedule and the machine.

    op          the text of the op                       op_name   its name
    sizes       the fixed sizes and the values of parameters, by name
    open_sizes  the sizes that were open when it was compiled, with the values that they had in the measurement
    target      the name of the target, as `cpu` or `cuda:sm_90a`
    device      the text of the device, with the devices that it extends
    """

    op: str
    op_name: str
    sizes: Mapping[str, int]
    target: str
    device: str
    open_sizes: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        texts = (self.op, self.op_name, self.target, self.device)
        if not all(isinstance(x, str) and "\0" not in x for x in texts):
            raise BadMeasurement("the texts of a task must be strings without NUL")
        for name in ("op", "op_name", "target", "device"):
            _expect_utf8(f"the {name} of a task", getattr(self, name))
        for name in ("sizes", "open_sizes"):
            values = getattr(self, name)
            if not isinstance(values, Mapping) or not all(type(n) is str and type(v) is int for n, v in values.items()):
                raise BadMeasurement(f"the {name} of a task are no mapping of names to integers: {values!r}")
            for size in values:
                _expect_utf8(f"a name among the {name} of a task", size)
            object.__setattr__(self, name, dict(sorted(values.items())))

    def __hash__(self) -> int:
        return hash(self.key)

    @cached_property
    def op_hash(self) -> str:
        """The hash of the op's text."""
        return key_of(self.op)

    @cached_property
    def device_hash(self) -> str:
        """The hash of the device's text."""
        return key_of(self.device)

    @cached_property
    def key(self) -> str:
        """The key of the task: a hash of all of it."""
        sizes = json.dumps([self.sizes, self.open_sizes], sort_keys=True)
        return key_of("task", self.op_hash, self.op_name, sizes, self.target, self.device_hash)


@dataclass(frozen=True)
class Measurement:
    """A schedule that was tried once for a task.

    task         what was measured
    schedule     the complete schedule, as text
    fingerprint  the machine: the model of its CPU or GPU, and what else changes times there (`describe.fingerprint_of`)
    toolchain    the compiler of the emitted text, with its version
    run          a name for the search or submission. The same schedule has one row in a run: adding it twice does no harm
    verdict      one of `VERDICTS`
    samples      times of a call in seconds, as they were taken; what is right has at least one
    detail       more about the verdict, in words
    version      the version of Andiron
    host         the name of the machine          time  when it ended: UTC, as `utc_now` gives it
    """

    task: Task
    schedule: str
    fingerprint: str
    toolchain: str
    run: str
    verdict: str
    samples: tuple[float, ...] = ()
    detail: str = ""
    version: str = field(default_factory=version)
    host: str = field(default_factory=platform.node)
    time: str = field(default_factory=utc_now)

    def __post_init__(self) -> None:
        if not isinstance(self.verdict, str) or self.verdict not in VERDICTS:
            raise BadMeasurement(f"`{self.verdict}` is no verdict", help=f"a verdict is one of {', '.join(VERDICTS)}")
        texts = ("schedule", "fingerprint", "toolchain", "run", "detail", "version", "host", "time")
        for name in texts:
            if not isinstance(getattr(self, name), str):
                raise BadMeasurement(f"the {name} of a measurement is no text: {getattr(self, name)!r}")
            object.__setattr__(self, name, getattr(self, name).replace("\0", ""))  # servers do not take it
            _expect_utf8(f"the {name} of a measurement", getattr(self, name))
        samples = _seconds(self.samples)
        if not _TIME.fullmatch(self.time) or not _is_day(self.time[:10]):
            raise BadMeasurement(f"`{self.time}` is no time in UTC", help="a time is as 2026-11-01T12:00:00Z")
        if self.verdict == "right" and not samples:
            raise BadMeasurement("the verdict is `right`, and there are no samples", help=_WAY_OUT)
        object.__setattr__(self, "samples", samples)

    @cached_property
    def schedule_hash(self) -> str:
        """The hash of the schedule's text."""
        return key_of(self.schedule)

    @cached_property
    def key(self) -> str:
        """The key of the row: the task, the schedule, the machine, the toolchain, the version and the run."""
        return key_of(self.task.key, self.schedule_hash, self.fingerprint, self.toolchain, self.version, self.run)

    @property
    def seconds(self) -> float | None:
        """The lower quartile of the samples, in seconds; None without samples. Other work on the machine disturbs it little."""
        return sorted(self.samples)[len(self.samples) // 4] if self.samples else None


def _is_day(text: str) -> bool:
    """Whether a year, a month and a day, each in its range, are a day of the calendar."""
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _seconds(samples: Any) -> tuple[float, ...]:
    """Samples as numbers. Raises BadMeasurement for what is no time of a call."""
    if isinstance(samples, (str, bytes)) or not isinstance(samples, Iterable):
        raise BadMeasurement(f"samples are a list of numbers of seconds, and not {samples!r}")
    found = []
    for x in samples:
        if isinstance(x, bool) or not isinstance(x, Real):
            raise BadMeasurement(f"a sample is no number of seconds: {x!r}")
        try:
            seconds = float(x)
        except OverflowError:
            raise BadMeasurement("a sample is larger than any number of seconds", help=_WAY_OUT) from None
        if not LEAST <= seconds < math.inf:  # nor is what is not a number
            raise BadMeasurement(f"a sample is no time of a call: {x} s; it is {LEAST} s or more, and finite", help=_WAY_OUT)
        found.append(seconds)
    return tuple(found)


def _expect_utf8(what: str, text: str) -> None:
    """Databases and files store UTF-8, which has no halves of pairs. Raises BadMeasurement."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = ord(text[error.start])
        raise BadMeasurement(
            f"{what} has half of a character: \\u{half:04x} at {error.start}", help="write both halves of the pair, or none"
        ) from None


def sizes_text(sizes: Mapping[str, Any]) -> str:
    """Sizes as the command line spells them."""
    return ",".join(f"{name}={value}" for name, value in sizes.items())
