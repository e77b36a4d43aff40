"""`record_trials`: what a search has timed goes to the database of measurements.

NEVER_FATAL  A database that cannot be written does not break a search: a warning says so, once for each reason.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ....dsl.errors import UserError
from ..result import Trial
from .describe import fingerprint_of, task_of, toolchain_of
from .measurement import Measurement
from .open_database import open_database

if TYPE_CHECKING:
    from ...compile import CompileRequest

_told: set[str] = set()


def record_trials(request: CompileRequest, dims: Mapping[str, int], trials: Sequence[Trial]) -> None:
    """Adds a row for each trial that was decided. `dims` has the size of each dimension of the arrays. NEVER_FATAL"""
    run = f"tune {os.urandom(8).hex()}"
    try:
        task, machine, toolchain = task_of(request, dims), fingerprint_of(request), toolchain_of(request)
        open_database().add(
            Measurement(task, t.schedule, machine, toolchain, run, t.verdict, tuple(t.samples), t.rejected)
            for t in trials
            if (t.samples or t.rejected) and t.verdict != "unable"
        )
    except (UserError, OSError) as error:
        reason = error.message if isinstance(error, UserError) else str(error)
        if reason not in _told:
            _told.add(reason)
            warnings.warn(f"measurements are not kept: {reason}", RuntimeWarning, stacklevel=2)
