"""A search outwards on a landscape of times that follow from the schedule: it gets where no first candidate is."""

from __future__ import annotations

import andiron
import pytest
from andiron.runtime.tuning import search
from andiron.runtime.tuning.evolution import evolve
from andiron.runtime.tuning.trial_runs import TrialRuns

from ....support.tuning.landscape import OP, SIZES, seconds_of


@pytest.fixture
def races(monkeypatch):
    """Nothing is built or run; each race is noted. One of a number raises what the test wants."""
    noted, raised = [], {}

    def race(self, trials, deadline, lead):
        noted.append([t.schedule for t in trials])
        if len(noted) in raised:
            raise raised[len(noted)]
        for t in trials:
            t.samples = [seconds_of(t.schedule)] * 9
        return True

    monkeypatch.setattr(TrialRuns, "race", race)
    monkeypatch.setattr(TrialRuns, "check", lambda *_: None)
    monkeypatch.setattr("andiron.runtime.variant.Variant.load", lambda self: None)
    return noted, raised


def tune(trials, **options):
    return andiron.compile(OP, target="cpu:avx2", threads=1, **SIZES).tune(top=4, trials=trials, seconds=600, **options)


def test_the_best_of_a_landscape_is_found(races):
    noted, _ = races
    first = tune(None, keep=False)
    found = tune(36, keep=False)
    assert found.best.about.count("with") == 1
    assert seconds_of(found.schedule) < 0.75 * min(seconds_of(t.schedule) for t in first.trials)
    assert len(found.trials) <= 36
    assert found.ended
    assert found.ended in str(found)
    # Each generation has the best so far, and the last race the schedule as it was.
    for race in noted[2:-1]:
        assert race[0] in {s for earlier in noted[1 : noted.index(race)] for s in earlier}
    assert noted[-1][0] == found.trials[0].schedule
    assert found.schedule in noted[-1]
    # The same once more: new candidates follow from what was measured.
    assert [t.schedule for t in tune(16, keep=False).trials][:12] == [t.schedule for t in found.trials][:12]


def test_the_best_so_far_counts_after_ctrl_c(races):
    noted, raised = races
    raised[3] = KeyboardInterrupt()
    found = tune(32)
    assert len(noted) == 3
    assert found.interrupted == "interrupted"
    assert found.best.seconds == min(t.seconds for t in found.trials if t.samples)
    assert andiron.compile(OP, target="cpu:avx2", threads=1, **SIZES).schedule == found.schedule


def test_a_search_ends_where_nothing_can_be_faster(races, monkeypatch):
    monkeypatch.setattr(f"{__name__}.seconds_of", lambda schedule: 1e-3)
    found = tune(200)
    assert found.ended == "no change can be faster by more than noise"
    assert len(found.trials) < 40


def test_a_ranker_orders_what_is_built(races, monkeypatch):
    """A stand-in for a learned model."""
    asked = []
    plain = evolve.Evolution

    def ranked(*arguments, **options):
        return plain(*arguments[:-1], **options, ranker=lambda v: asked.append(v.schedule) or seconds_of(v.schedule))

    monkeypatch.setattr(search, "Evolution", ranked)
    found = tune(12)
    measured = {t.schedule for t in found.trials[4:]}
    left = [s for s in asked if s not in measured]
    assert measured <= set(asked)
    assert min(map(seconds_of, asked)) == min(map(seconds_of, measured))
    assert left


def test_lines_of_an_author_stay(races):
    text = OP + "\nschedule s for twice:\n    tile i: 8 -> core\n    auto\n"
    found = andiron.compile(text, target="cpu:avx2", threads=1, **SIZES).tune(top=2, trials=20)
    assert len(found.trials) <= 3
    assert all("tile i: 8" in t.schedule for t in found.trials)
