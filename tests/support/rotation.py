"""Parts of a product of cases and targets: every case runs, and every target has some of all kinds.

With `FUZZ=N`, each case runs on each target. With that or `ALL_OPS=1`, all combinations run of tests marked `every_second` or
`fewest`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import combinations as subsets
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


def fewest(combinations: Sequence[tuple[Hashable, ...]]) -> list[bool]:
    """Which of the combinations of several lists are taken: as few as have every value, and of three lists or more every pair.

    Taken one after another: the one that has most of what is not yet there, of several the one whose values are taken least, so
    that values of a short list meet equally many of a long one. Not for tests that are skipped where a machine lacks a value.
    """
    size = 1 if not combinations or len(combinations[0]) < 3 else 2
    parts = [frozenset(subsets(enumerate(c), size)) for c in combinations]
    missing, taken, often = frozenset().union(*parts), [False] * len(parts), Counter[tuple[int, Hashable]]()
    while missing:
        n = max(range(len(parts)), key=lambda n: (len(parts[n] & missing), -sum(often[v] for v in enumerate(combinations[n]))))
        missing, taken[n] = missing - parts[n], True
        often.update(enumerate(combinations[n]))
    return taken
