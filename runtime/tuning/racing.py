"""Measures candidates alternately, so that disturbances of the machine affect all; slow ones are dropped.

DISTURBED   A round in which the original schedule is several times slower than at best does not count. It would tell those
            that left earlier from the others: their samples are all of a quiet machine.
CUT_SHORT   A sample may take ten times as long as the best one; then its process is ended, and a new one continues without it.
FALLING     After some rounds the fastest sample of a candidate must come near the fastest of all.
INTERVALS   A candidate that is surely slower than the leader is dropped: the interval of the ratio of their times is above 1.
DECIDED     The race ends when one candidate is left beside the original schedule, and by its interval surely wins or does not.
SURELY      The original schedule takes part to the end: a winner is faster by more than noise, both in its best sample and in
            the lower quartile, which stands for a quiet machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from ..timing import BURSTS
from .intervals import ratio_interval
from .result import Trial
from .worker_client import WorkerClient, WorkerFailed

ROUNDS = 20
SAMPLE = 2e-3  # seconds of calls that make a burst: short ones find the moments in which little else is going on
# After so many rounds, so many times the best. One sample says too little: the best candidate is disturbed now and then.
_FALLING = ((2, 4.0), (3, 2.0), (6, 1.4), (10, 1.15))
_DISTURBED = (
    3.0  # times its best: rounds in which all take ten times as long are left out, noise of a busy machine is not [tried]
)
_PATIENCE, _LEAST = 10.0, 2.0  # CUT_SHORT: times the best; seconds that are always given
CUT_SHORT = "cut short: much slower than the best"  # what is said of such a candidate
GAIN = 1.02  # SURELY: as much faster at least


def limit_for(best: float, count: int) -> float:
    """Seconds that a request may take, of `count` calls, when the best takes so long."""
    return _LEAST + _PATIENCE * best * (count + 1) * BURSTS


def first_limit(best: float) -> float:
    """Seconds that a first call may take, when the best takes so long."""
    return _LEAST + 2 * _PATIENCE * best


def race(
    bench: WorkerClient,
    trials: list[Trial],
    load: Callable[[Trial], None],
    deadline: float,
    lead: Callable[[list[Trial], int], None],
) -> bool:
    """Adds samples to the trials until it is clear, or late: whether it was not late. The first trial takes part to the end.

    load  loads a trial into a worker that was made anew      lead  told of those still in the race, after each round
    """
    base = trials[0]
    alive = [t for t in trials if not t.rejected]
    counts = {t.number: max(1, int(SAMPLE / max(t.first, 1e-9))) for t in alive}
    for turn in range(ROUNDS):
        taken: list[Trial] = []
        for t in alive if turn % 2 == 0 else alive[::-1]:
            if time.monotonic() > deadline and (turn or t is not base):
                return False
            best = min((min(x.samples) for x in alive if x.samples), default=t.first)
            try:
                load(t)
                took = bench.ask("time", t.number, counts[t.number], limit=limit_for(best, counts[t.number]))
            except WorkerFailed as error:
                t.reject(error.verdict, CUT_SHORT if error.late else str(error))
                continue
            t.samples.append(took)
            taken.append(t)
            counts[t.number] = max(1, min(1 << 16, int(SAMPLE / max(took, 1e-9))))
        if base in taken and base.samples[-1] > _DISTURBED * min(base.samples):
            for t in taken:
                t.samples.pop()
        alive = still_racing([t for t in alive if not t.rejected], base, turn + 1)
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
    return min(usual, best) >= GAIN


def still_racing(alive: list[T], base: T, turn: int) -> list[T]:
    """Those that go on after so many rounds; only the base where it is decided. FALLING, INTERVALS, DECIDED"""
    if not alive:
        return alive
    best = min(min(t.samples) for t in alive)
    leader = min(alive, key=lambda t: t.seconds or 0.0)
    factor = next((f for least, f in reversed(_FALLING) if turn >= least), float("inf"))
    left = [
        t
        for t in alive
        if t is base or (min(t.samples) <= factor * best and ratio_interval(t.samples, leader.samples)[0] <= 1.0)
    ]
    if len(left) == 2 and left[0] is base:
        least, most = ratio_interval(base.samples, left[1].samples)
        if least >= GAIN or most < GAIN:
            return left[:1]
    return left
