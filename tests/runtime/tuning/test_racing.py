"""Early stopping: what is surely slower leaves a race, the best one stays, and a race that is decided ends."""

from __future__ import annotations

import random
import time

from andiron.runtime.tuning import racing
from andiron.runtime.tuning.intervals import ratio_interval
from andiron.runtime.tuning.racing import ROUNDS, still_racing, winner
from andiron.runtime.tuning.result import Trial


class Racer:
    rejected = ""

    def __init__(self, true: float):
        self.true, self.samples = true, []

    @property
    def seconds(self):
        return sorted(self.samples)[len(self.samples) // 4] if self.samples else None


def race(times, rng, heavy):
    """A race under noise with a heavy tail, beside phases in which the machine is slow."""
    racers, slow = [Racer(t) for t in times], 1.0
    alive = list(racers)
    for turn in range(ROUNDS):
        for r in alive:
            slow = rng.choice((1.0, 1.0, 1.3, 2.0)) if rng.random() < 0.1 else slow
            noise = 1 + 0.01 * abs(rng.gauss(0, 1)) + heavy * (rng.random() < 0.4) * (rng.paretovariate(1.1) - 1)
            r.samples.append(r.true * slow * noise)
        alive = still_racing(alive, racers[0], turn + 1)
        if len(alive) < 2:
            break
    return racers


def test_the_best_is_not_dropped_and_time_is_saved():
    rng = random.Random(0)
    samples, dropped, loss = 0, 0, 0.0
    for _ in range(200):
        times = [1.0, *(0.7 + rng.random() for _ in range(9))]
        racers = race(times, rng, 0.05)
        best = min(racers, key=lambda r: r.true)
        surely = best.true < 0.98 * min(r.true for r in racers if r is not best)
        dropped += surely and len(best.samples) < max(len(r.samples) for r in racers)
        samples += sum(len(r.samples) for r in racers)
        loss += winner(racers).true / best.true - 1
    assert dropped <= 1
    assert loss / 200 < 0.01
    assert samples < 0.6 * 200 * 10 * ROUNDS


class SlowLater:
    """A worker whose machine takes ten times as long from the 3rd round on, as one that shares its memory with others may."""

    def __init__(self, times):
        self.times, self.asked = times, [0] * len(times)

    def ask(self, what, number, count, limit):
        self.asked[number] += 1
        return self.times[number] * (10.0 if self.asked[number] > 2 else 1.0)


def test_rounds_in_which_the_machine_is_slow_do_not_count():
    """Those that left the race before are not the faster for it."""
    trials = [Trial(n, "", None, "", None, first=1.0) for n in range(4)]
    worker = SlowLater([1.0, 0.995, 1.005, 1.3])
    assert racing.race(worker, trials, lambda t: None, time.monotonic() + 60, lambda alive, turn: None)
    assert max(t.seconds for t in trials) < 1.4
    assert winner(trials) is trials[0]


def test_a_race_of_two_ends_when_it_is_decided():
    rng = random.Random(1)
    for times in ((1.0, 0.8), (1.0, 0.999)):
        racers = race(times, rng, 0.0)
        assert len(racers[0].samples) < ROUNDS
        assert winner(racers) is racers[times[1] < 0.9]


def test_an_interval_holds_the_median_as_often_as_it_says():
    rng = random.Random(2)
    outside = 0
    for _ in range(2000):
        low, high = ratio_interval([rng.paretovariate(1.0) for _ in range(20)], [2.0] * 20, error=0.05)
        outside += not low <= 1.0 <= high  # the median of that distribution is 2
    assert 0.01 < outside / 2000 < 0.05
    assert ratio_interval([1.0] * 3, [1.0] * 3) == (0.0, float("inf"))
