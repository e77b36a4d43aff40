"""Results of tuning in the cache: a schedule under the hash of everything that it was found for.

The key has the op, its sizes, the schedule that was left open, the device and its model, the number of threads and the version.
It does not have the compiler: the choice of a schedule must not depend on an installed compiler. An entry only claims speed. It
is compiled like any schedule, so one that does not fit any more costs nothing but its gain.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ...dsl import syntax
from ...dsl.errors import UserError
from ...dsl.op import Op
from ...dsl.support.amounts import counted, seconds_text
from ...dsl.text.parser import parse_schedule
from ...dsl.text.print_node import format_node
from ..devices import extended_devices
from ..native import cpu_features
from ..native.build_library import version
from ..storage.cache import cache, key_of
from ..variant import KernelVariants

if TYPE_CHECKING:
    from ..compile import CompileRequest
    from ..kernel import Kernel

KIND = "tuned"  # of cache entries
_FORM = 1


class TunedSchedule(Protocol):
    """Where the schedule of a kernel is from: a search, or a database of measurements. Its text says so to people."""

    @property
    def schedule(self) -> str | None:
        """The text; None where nothing was faster than the schedule as it was."""
        ...

    def kernel(self, request: CompileRequest) -> Kernel | None:
        """The kernel with it; None where it does not fit the request."""
        ...

    def as_dict(self) -> dict[str, Any]:
        """Its facts, for programs; `source` says where it is from."""
        ...


class RecordedTrial(Protocol):
    """A trial, wherever it was measured."""

    @property
    def number(self) -> int: ...
    @property
    def schedule(self) -> str: ...
    @property
    def seconds(self) -> float | None: ...
    @property
    def samples(self) -> Sequence[float]: ...


@dataclass(frozen=True)
class TunedRecord:
    """The winner of a search.

    schedule  its text; None: the schedule as it was          place    which of the request's schedules it takes the place of
    seconds   of one call                                   default  the same of the schedule as it was
    asked     how many candidates were wanted                 measured how many of them were timed to the end
    sizes     at which it was measured                        date     when, as YYYY-MM-DD
    """

    schedule: str | None
    place: int
    seconds: float
    default: float
    asked: int
    measured: int
    sizes: Mapping[str, int]
    date: str

    @staticmethod
    def of(
        trials: Sequence[RecordedTrial], best: RecordedTrial, place: int, asked: int, sizes: Mapping[str, int]
    ) -> TunedRecord:
        """Of a search: its trials, of which the first is the schedule as it was, and the best of them."""
        return TunedRecord(
            best.schedule if best.number else None, place, best.seconds or 0.0, trials[0].seconds or 0.0, asked,
            sum(bool(t.samples) for t in trials), sizes, time.strftime("%Y-%m-%d"),
        )  # fmt: skip

    def __str__(self) -> str:
        if self.schedule is None:
            return f"tuned {self.date}: nothing faster among {counted(self.measured, 'candidate')}"
        gain = f"{seconds_text(self.seconds)} for {seconds_text(self.default)} by default"
        return f"the schedule was found by tuning, {self.date}: {gain}, the best of {counted(self.measured, 'candidate')}"

    def kernel(self, request: CompileRequest) -> Kernel | None:
        """The kernel with this schedule; None where the text is not accepted any more."""
        return kernel_with(request, self.schedule or "", self.place, self)

    def as_dict(self) -> dict[str, Any]:
        """Its facts, without the text of the schedule."""
        return {"source": "tuning", **{name: value for name, value in asdict(self).items() if name != "schedule"}}


def kernel_with(request: CompileRequest, schedule: str, place: int, tuned: TunedSchedule) -> Kernel | None:
    """The kernel of a request with the text of a schedule in this place; None where it is not accepted there."""
    try:
        found = parse_schedule(schedule, "<tuned>")
        base = request.schedules[place]
        # Conditions that sizes decided are gone from the base; the others hold for the winner as well.
        mine = replace(found, where=base.where if base is not None else ())
        schedules = [mine if i == place else s for i, s in enumerate(request.schedules)]
        makers = [partial(request.variant, s, {} if s is mine else None) for s in schedules]
        variants = KernelVariants(makers)
        variants[place]
        return request.kernel(variants, tuned)
    except (UserError, IndexError, ValueError):
        return None


def is_allowed() -> bool:
    """Whether results of tuning are used where nothing else is said: `ANDIRON_TUNED=0` asks for none."""
    return os.environ.get("ANDIRON_TUNED", "1") != "0"


def named_database() -> str | None:
    """The path or URL that `ANDIRON_TUNED` has; None where it has none, but says whether results are used (`0`, `1`)."""
    text = os.environ.get("ANDIRON_TUNED", "")
    return None if text in ("", "0", "1") else text


def record_key(request: CompileRequest) -> str:
    """The hash of what a result is for."""
    module, goal = request.module, request.target
    texts = [op_text(request)]
    for s in request.schedules:
        texts.append(format_node(s) if s is not None else "")
    if request.named is not None:
        texts += [format_node(d) for (kind, _), d in module.declared.items() if kind == "strategy"]
    given = sorted((name, int(n)) for name, n in request.given.items())
    where: list[Any] = [goal.name]
    if goal.device is not None:  # the machine at hand is told by its model
        where += [_device_text(request, name) for name in _lineage(request)]
    if goal.family.launcher == "ctypes":
        where += [cpu_features.identity(), request.threads or cpu_features.usable_cores()]
    return key_of(KIND, _FORM, version(), len(texts), *texts, given, *where)


def op_text(request: CompileRequest) -> str:
    """The text of the op, in the formatter's spelling."""
    op = request.module.declared.get(("op", request.op.name))
    return format_node(op) if op is not None else _plainly(request.op)


def load_record(request: CompileRequest) -> TunedRecord | None:
    """What was found for it before."""
    entry = cache().get(record_key(request))
    if entry is None:
        return None
    try:
        found = TunedRecord(**json.loads((entry.path / "tuned.json").read_text(encoding="utf-8")))
        counts = (found.place, found.asked, found.measured, *dict(found.sizes).values())
        good = all(type(n) is int for n in counts) and all(isinstance(x, (int, float)) for x in (found.seconds, found.default))
        return found if good and isinstance(found.schedule, (str, type(None))) and isinstance(found.date, str) else None
    except (OSError, ValueError, TypeError):
        return None


def store_record(request: CompileRequest, found: TunedRecord) -> None:
    """Stores it, in the place of what was found before."""

    def make(folder: Path) -> dict[str, Any]:
        (folder / "tuned.json").write_text(json.dumps(asdict(found), indent=1), encoding="utf-8")
        sizes = ", ".join(f"{n}={v}" for n, v in request.given.items())
        return {"what": f"tuned {request.op.name} for {request.target.name}" + (f": {sizes}" if sizes else ""), "kind": KIND}

    cache().put(record_key(request), make)


def _lineage(request: CompileRequest) -> list[str]:
    return extended_devices(request.device, request.module)


def _plainly(op: Op) -> str:
    """An op that was declared by no text."""
    return repr([getattr(op, f.name) for f in fields(op) if f.compare])


@lru_cache(maxsize=64)
def _text(decl: syntax.DeviceDecl) -> str:
    return format_node(decl)


def _device_text(request: CompileRequest, name: str) -> str:
    decl = request.module.device(name).decl
    return _text(decl) if decl is not None else name
