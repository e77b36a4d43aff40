"""`choose_kernel`: the schedule that a database of measurements has for a request to `compile`.

OWN    Only the compiler's own choice is replaced: a schedule of the file, or one that was asked for, is the author's wish.
EXACT  The fastest for the same op, sizes, device and machine comes first.
NEAR   Otherwise the fastest for the nearest sizes that compiles for the asked ones: what does not fit is refused there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ....codegen.schedule.size_bounds import without_decided_bounds
from ....dsl.errors import UserError
from ....dsl.errors.database import DatabaseBusy
from ....dsl.errors.target import NoDevice
from ....dsl.support.amounts import seconds_text
from ....dsl.support.printable import printable
from ..tuning_store import kernel_with
from .database import Choice, Database
from .describe import fingerprint_of, task_of
from .open_database import open_database

if TYPE_CHECKING:
    from ...compile import CompileRequest
    from ...kernel import Kernel

# NEAR: a choice for sizes farther away is worse than the cost model's (`tuning-2026-11`). In doublings: of a size
# twice as large it is 1.
FARTHEST = 1.0
# A text of an earlier version may not be accepted any more. So many are tried for the same sizes, and for each of the nearest.
_EXACT, _EACH = 4, 2
_PATIENCE = 2.0  # seconds for a lock of others: the compiler's own choice takes less


@dataclass(frozen=True)
class DatabaseChoice:
    """A schedule that a database has for a request.

    schedule  its text                      place     which of the request's schedules it takes the place of
    seconds   of a call, as measured        runs      the number of runs, of which these are the median
    sizes     at which it was measured      distance  of them from the asked ones, as in `Choice`; 0 for the same ones
    machine   that measured it              database  the name of the database
    """

    schedule: str
    place: int
    seconds: float
    runs: int
    sizes: dict[str, int]
    distance: float
    machine: str
    database: str

    def __str__(self) -> str:
        runs = f"the median of {self.runs} runs" if self.runs > 1 else "1 run"
        measured = f"{seconds_text(self.seconds)}, {runs} on {printable(self.machine)}"
        if self.distance == 0:
            return f"the schedule is the fastest measured for these sizes: {measured}; from {self.database}"
        sizes = ", ".join(f"{n}={v}" for n, v in self.sizes.items())
        return f"the schedule is the fastest measured for the nearest sizes, {sizes}: {measured}; from {self.database}"

    def kernel(self, request: CompileRequest) -> Kernel | None:
        """The kernel with this schedule; None where it does not fit the request."""
        return kernel_with(request, self.schedule, self.place, self)

    def as_dict(self) -> dict[str, Any]:
        """Its facts, without the text of the schedule."""
        return {"source": "database", **{name: value for name, value in asdict(self).items() if name != "schedule"}}


def choose_kernel(
    request: CompileRequest, where: str | os.PathLike[str], required: bool, stored: Callable[[str], Kernel | None], near: bool
) -> tuple[Kernel | None, str]:
    """The kernel of the first choice that fits: EXACT, then what this machine has `stored` for these sizes, then NEAR.

    stored    with this note, or without one
    required  whether a database that cannot be read is an error; otherwise it is noted, as one is that others lock
    near      whether NEAR is wanted

    Returns the kernel, and a note where the database gave none. Raises what `open_database` raises.
    """
    try:
        database = open_database(where, create=False, patience=_PATIENCE)
        task = task_of(request)
        place = _place(request, {**task.sizes, **task.open_sizes})
        if place is None:
            return stored(""), f"{database.name} was not asked: the schedule is the author's"
        machine = _machine(request)
        kernel = _fitting(request, place, database, database.fastest(task.key, machine, _EXACT)) or stored("")
        if kernel is None and near:
            found = database.nearest(task, machine, each=_EACH, farthest=FARTHEST)
            kernel = _fitting(request, place, database, found)
        return kernel, f"{database.name} has nothing for these sizes or near them: the schedule is the model's choice"
    except UserError as error:
        if required and not isinstance(error, DatabaseBusy):
            raise
        note = f"measurements are not used: {error.message}" + (f"; {error.help}" if error.help else "")
        return stored(note), note


def _fitting(request: CompileRequest, place: int, database: Database, choices: Sequence[Choice]) -> Kernel | None:
    for c in choices:
        sizes = {**c.task.sizes, **c.task.open_sizes}
        found = DatabaseChoice(c.schedule, place, c.seconds, c.runs, sizes, c.distance, c.machine, database.name)
        kernel = found.kernel(request)
        if kernel is not None:
            return kernel
    return None


def _machine(request: CompileRequest) -> str | None:
    """None where it is not here: any that has the device will do."""
    try:
        return fingerprint_of(request)
    except NoDevice:
        return None


def _place(request: CompileRequest, sizes: dict[str, int]) -> int | None:
    """OWN: which of the request's schedules is the first for these sizes; None where an author wrote it."""
    for place, schedule in enumerate(request.schedules):
        if schedule is not None and without_decided_bounds(schedule, sizes) is None:
            continue
        return None if request.is_authored(schedule) else place
    return None
