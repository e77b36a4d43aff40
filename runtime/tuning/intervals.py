"""`ratio_interval`: how much slower one candidate is than another, by samples that were taken in turns.

PAIRED             Samples of one turn are compared with each other: a slow phase of the machine slows both.
DISTRIBUTION_FREE  The interval is between two of the ratios, in order. That it holds their median is a matter of coins alone,
                   whatever the noise is like: Conover, Practical Nonparametric Statistics, 3rd edition, 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import comb, inf

ERROR = 0.01  # the probability that a median lies outside of its interval


def ratio_interval(samples: Sequence[float], base: Sequence[float], error: float = ERROR) -> tuple[float, float]:
    """Limits of the median of `samples` over `base`, turn by turn. With few samples nothing is known: 0 and infinity."""
    ratios = sorted(x / y if y else inf for x, y in zip(samples, base, strict=False))
    k = _outside(len(ratios), error)
    return (ratios[k - 1], ratios[-k]) if k else (0.0, inf)


@lru_cache(maxsize=1024)
def _outside(count: int, error: float) -> int:
    """Of so many values in order, the place from either end that bounds their median. DISTRIBUTION_FREE"""
    total, k = 0, 0
    while 2 * (total := total + comb(count, k)) <= error * 2**count:
        k += 1
    return k
