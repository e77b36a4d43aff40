"""Cases that run on one of several targets each, in rotation: every case runs, and every target has some of all kinds.

With `FUZZ=N`, each case runs on each target.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

C = TypeVar("C", bound=Hashable)
T = TypeVar("T")
LONG = bool(os.environ.get("FUZZ"))


def rotated(cases: Iterable[C], targets: Sequence[T], every: bool = LONG) -> list[tuple[C, T]]:
    """Each case with a target, the next one each time; with all of them where `every`."""
    return [(c, t) for n, c in enumerate(cases) for m, t in enumerate(targets) if every or m == n % len(targets)]
