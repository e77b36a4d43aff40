"""Measures candidates alternately, so that disturbances of the machine affect all; slow ones are dropped.

CUT_SHORT   A sample may take ten times as long as the best one; then its process is ended, and a new one continues without it.
FALLING     After some rounds the fastest sample of a candidate must come near the fastest of all.
SURELY      The original schedule takes part to the end: a winner is faster by more than noise, both in its best sample and in
            the lower quartile, which stands for a quiet machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from ..timing import BURSTS
from .result import Trial
from .worker_client import WorkerClient, WorkerFailed

ROUNDS = 20
_SAMPLE = 2e-3  # seconds of calls that make a burst: short ones find the moments in which little else is going on
_FALLING = ((1, 4.0), (3, 2.0), (6, 1.4), (10, 1.15))  # after so many rounds, so many times the best
_PATIENCE, _LEAST = 10.0, 2.0  # CUT_SHORT: times the best; seconds that are always given
CUT_SHORT = "cut short: much slower than the best"  # what is said of such a candidate
_GAIN = 1.02  # SURELY: as much faster at least


def limit_for(best: float, count: int) -> float:
    """Seconds that a request may take, of `count` calls, when the best takes so long."""
    return _LEAST + _PATIENCE * best * (count + 1) * BURSTS


def race(
    bench: WorkerClient,
    trials: list[Trial],
    load: Callable[[Trial], None],
    deadline: float,
    lead: Callable[[list[Trial], int], None],
) -> bool:
    """Adds samples to the trials until it is clear, or late: whether all rounds were done.

    load  loads a trial into a worker that was made anew      lead  told of those still in the race, after each round
    """
    alive = [t for t in trials if not t.rejected]
    counts = {t.number: max(1, int(_SAMPLE / max(t.first, 1e-9))) for t in alive}
    for turn in range(ROUNDS):
        for t in alive if turn % 2 == 0 else alive[::-1]:
            if time.monotonic() > deadline and (turn or t.number):
                return False
            best = min((min(x.samples) for x in alive if x.samples), default=t.first)
            try:
                load(t)
                took = bench.ask("time", t.number, counts[t.number], limit=limit_for(best, counts[t.number]))
            except WorkerFailed as error:
                t.reject(error.verdict, CUT_SHORT if error.late else str(error))
                continue
            t.samples.append(took)
            counts[t.number] = max(1, min(1 << 16, int(_SAMPLE / max(took, 1e-9))))
        alive = _still(alive, turn + 1)
        lead(alive, turn + 1)
        if len(alive) < 2:
            break
    return True


class TimedTrial(Protocol):
    """What `winner` looks at."""

    @property
    def samples(self) -> Sequence[float]: ...
    @property
    def seconds(self) -> float | None: ...
    @property
    def rejected(self) -> str: ...


T = TypeVar("T", bound=TimedTrial)


def winner(trials: Sequence[T]) -> T:
    """SURELY. The fastest of those that are surely faster than the first; else the first."""
    base = trials[0]
    good = [t for t in trials if t.samples and not t.rejected]
    if base.rejected or not base.samples:
        return min(good, key=lambda t: t.seconds or 0.0, default=base)
    longest = max((len(t.samples) for t in good), default=0)
    found = [t for t in good if t is not base and 2 * len(t.samples) > longest and _beats(t, base)]
    return min(found, key=lambda t: t.seconds or 0.0, default=base)


def _beats(t: TimedTrial, base: TimedTrial) -> bool:
    usual, best = (base.seconds or 0.0) / (t.seconds or 1.0), min(base.samples) / min(t.samples)
    return min(usual, best) >= _GAIN


def _still(alive: list[Trial], turn: int) -> list[Trial]:
    """FALLING"""
    alive = [t for t in alive if not t.rejected]
    factor = next((f for least, f in reversed(_FALLING) if turn >= least), None)
    if factor is None or not alive:
        return alive
    best = min(min(t.samples) for t in alive)
    return [t for t in alive if t.number == 0 or min(t.samples) <= factor * best]
