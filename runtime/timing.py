"""Times of calls: warm, repeated, by the median."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from ..dsl.support.amounts import seconds_text

BURSTS = 8  # samples of a candidate, of which the best counts
_REST = 0.2  # seconds; threads of OpenBLAS wait busily for 2^28 cycles after a call: 0.13 at 2.1 GHz


@dataclass(frozen=True)
class Timing:
    """Measured times of a call. Printing it gives the median, and rates.

    samples  seconds for one call, in each sample
    flops    arithmetic operations of one call, as the op is written
    bytes    bytes of all arguments, each once
    """

    samples: tuple[float, ...]
    flops: int
    bytes: int

    @property
    def seconds(self) -> float:
        """The median of the samples, in seconds."""
        return median(self.samples)

    def __repr__(self) -> str:
        return f"<timing {self}>"

    def __str__(self) -> str:
        rates = f"{self.flops / self.seconds / 1e9:.2f} GFLOP/s, {self.bytes / self.seconds / 1e9:.2f} GB/s"
        return f"{seconds_text(self.seconds)}, {rates} (median of {len(self.samples)})"


def seconds(call: Callable[[], Any], count: int = 1, finish: Callable[[], Any] | None = None) -> float:
    """How long `count` calls take together. `finish` waits for those that return before they are done."""
    start = time.perf_counter()
    for _ in range(count):
        call()
    if finish is not None:
        finish()
    return time.perf_counter() - start


def calls_per_sample(call: Callable[[], Any], least: float = 2e-3, finish: Callable[[], Any] | None = None) -> int:
    """How many calls make a sample long enough for the clock; warms up on the way."""
    seconds(call, 1, finish)
    count = 1
    while (took := seconds(call, count, finish)) < least and count < 1 << 20:
        count = max(count * 2, min(count * 100, int(count * least / max(took, 1e-9))))
    return count


def interleaved(
    calls: Sequence[Callable[[], Any]], repeat: int, finish: Callable[[], Any] | None = None, rest: float = _REST
) -> list[list[float]]:
    """Samples of seconds per call for each of `calls`, taken in turns, so that what slows the machine down slows all.

    Before each sample there is a `rest`, of seconds, and a call that is not counted: the threads of a library wait busily for a
    while after a call, and would take the cores from whoever comes next.
    """
    counts = [calls_per_sample(call, finish=finish) for call in calls]
    samples: list[list[float]] = [[] for _ in calls]
    for turn in range(repeat):
        order = range(len(calls)) if turn % 2 == 0 else reversed(range(len(calls)))
        for i in order:
            if len(calls) > 1:
                time.sleep(rest)
                calls[i]()
                if finish is not None:
                    finish()
            samples[i].append(seconds(calls[i], counts[i], finish) / counts[i])
    return samples


def ratio(mine: Sequence[float], theirs: Sequence[float]) -> float:
    """How many times faster than the other: the median of the ratios of samples taken side by side."""
    return median(t / m for m, t in zip(mine, theirs, strict=True))
