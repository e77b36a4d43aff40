"""Candidates of a task as they travel: found, compiled, measured. PURE_DATA, see `task`."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

from ...gpu.device_code import DeviceCode
from ...variant import Variant
from ..result import Trial
from .task import Numbers, TuningTask, machine_kind


@dataclass(frozen=True)
class TaskCandidate:
    """A candidate that is not compiled yet.

    schedule   its text; None: the schedule as it was            values  of the schedule's parameters
    about      how it differs from the others
    predicted  seconds of a call, None where that is not known   bound   what bounds the prediction
    """

    schedule: str | None
    values: Numbers
    about: str
    predicted: float | None = None
    bound: str = ""


@dataclass(frozen=True)
class CompiledCandidate:
    """A candidate, compiled to source code, and built where that is possible.

    schedule   the explicit schedule                          source     the source code
    code       the tile program and the library, pickled      built_for  the kind of machine the library is for; "": none is
    toolchain  that built it                                  refused    why it cannot be compiled; "" where it was
    """

    about: str
    predicted: float | None = None
    bound: str = ""
    schedule: str = ""
    source: str = ""
    code: bytes = b""
    built_for: str = ""
    toolchain: str = ""
    refused: str = ""

    def trial(self, task: TuningTask, number: int) -> tuple[Trial, bytes | DeviceCode | None]:
        """The candidate as a trial, and its library where this machine can load it."""
        program, library = pickle.loads(self.code)
        variant = Variant(program, self.source, self.schedule, task.request().target)
        usable = self.built_for == machine_kind(task)
        return Trial(number, self.about, self.predicted, self.bound, variant), library if usable else None


@dataclass(frozen=True)
class MeasuredCandidate:
    """A candidate that was measured, or rejected.

    schedule  the explicit schedule               verdict  as in `Measurement`
    samples   seconds of a call                   detail   why it was rejected; "" where it was not
    """

    schedule: str
    verdict: str
    samples: tuple[float, ...]
    detail: str
    toolchain: str


@dataclass(frozen=True)
class MeasuredBatch:
    """What a worker says of some candidates of a task, in their order.

    note  how results were checked      fingerprint  of the machine      host  its name      took  seconds
    """

    candidates: tuple[MeasuredCandidate, ...]
    note: str
    fingerprint: str
    host: str
    took: float = 0.0
