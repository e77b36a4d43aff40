"""`PatientDatabase`: a database that may be away for a minute, as a server that is started again.

WAITING  Who asks waits. What workers have measured meanwhile is kept by their futures, and is added afterwards.
TWICE    Adding a row twice does no harm, so what is not sure to be stored is added again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from ....dsl.errors.database import DatabaseFailed
from ..database.database import Database
from ..database.measurement import Measurement

_PATIENCE = 60.0  # seconds to wait for a server that is started again
_PAUSE = 1.0  # seconds between two attempts

Result = TypeVar("Result")


class PatientDatabase(Database):
    """`database`, asked again while it fails. `say` is told of that, once."""

    def __init__(self, database: Database, say: Callable[[str], None]) -> None:
        super().__init__(database.storage)
        self._say = say

    def add(self, measurements: Iterable[Measurement]) -> int:
        """TWICE"""
        return self.patiently(partial(super().add, list(measurements)))

    def find(self, task_key: str, fingerprint: str | None = None) -> list[Measurement]:
        return self.patiently(partial(super().find, task_key, fingerprint))

    def patiently(self, ask: Callable[[], Result]) -> Result:
        """What `ask` gives. Raises DatabaseFailed where the database stays away. WAITING"""
        until = time.monotonic() + _PATIENCE
        said = False
        while True:
            try:
                return ask()
            except DatabaseFailed as error:
                if time.monotonic() > until:
                    raise DatabaseFailed(
                        f"{error.message} (tried again for {_PATIENCE:.0f} s)",
                        help="what was stored counts: give the same command again when the database answers",
                    ) from None
                if not said:
                    self._say(f"the database fails, and is tried again for {_PATIENCE:.0f} s: {error.message}")
                    said = True
            time.sleep(_PAUSE)
