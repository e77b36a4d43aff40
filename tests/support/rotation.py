"""Parts of a product of cases and targets: every case runs, and every target has some of all kinds.

With `FUZZ=N`, each case runs on each target. With that or `ALL_OPS=1`, all combinations run of tests marked `every_second`.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

C = TypeVar("C", bound=Hashable)
T = TypeVar("T")
LONG = bool(os.environ.get("FUZZ"))
ALL_OPS = bool(os.environ.get("ALL_OPS"))


def rotated(cases: Iterable[C], targets: Sequence[T], every: bool = LONG) -> list[tuple[C, T]]:
    """Each case with a target, the next one each time; with all of them where `every`."""
    return [(c, t) for n, c in enumerate(cases) for m, t in enumerate(targets) if every or m == n % len(targets)]


def every_second(combinations: Sequence[tuple[Hashable, ...]]) -> list[bool]:
    """Which of the combinations of several lists are taken: those whose numbers in the lists add up to an even number.

    So a value of a list meets every second value of each other list where there are two lists, and all of them where there are
    more; every value is taken.
    """
    numbers: list[dict[Hashable, int]] = [{} for _ in combinations[0]] if combinations else []
    sums = [sum(known.setdefault(v, len(known)) for known, v in zip(numbers, c, strict=True)) for c in combinations]
    return [s % 2 == 0 for s in sums]
