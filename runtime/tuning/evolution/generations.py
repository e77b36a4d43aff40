"""`Generations`: what a search outwards has measured, what it proposes next, and when it ends.

OUTWARDS    The first generation are the constructed candidates. Each later one are mutations of the best ones so far.
LINKED      Generations are timed at different times. In each, the best so far, the incumbent, is timed again among the others,
            and their times are scaled by it.
STALLED     By the intervals of their times, no candidate of a generation can be faster than the incumbent as a winner must be.
            After a few such generations the search ends.
REPEATABLE  What is proposed follows from what was measured and a seed. So a search that was cut off goes on as if it was not.
FINAL       The fastest ones and the schedule as it was are timed together in the end: the fastest of many was also lucky.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol, TypeVar

from ....dsl import syntax
from ....dsl.support.fast_replace import replace
from ....dsl.text.parser import parse_schedule
from ....dsl.text.print_node import format_node
from ..intervals import ratio_interval
from ..racing import GAIN, TimedTrial, winner
from .crossover import crossover
from .mutation_space import MutationSpace
from .mutations import mutate

OUTLINED = 2  # times as many as are measured are compiled to text, and the best of them by prediction taken
FIRST_SHARE, FINAL_SHARE = 0.4, 0.25  # of the time: the first race and the last one get no more
FINALISTS = 3  # beside the schedule as it was
_STALLED = 3  # generations
_PARENTS = 8  # the best of those measured
_CROSSED, _TWICE = 0.15, 0.3  # how often two parents are crossed, and how often a mutation is mutated again
_DRAWS = 20  # for a new candidate: many repeat what was tried
_EXPLORED = 0.25  # of a batch is drawn without looking at predictions


class MeasuredTrial(TimedTrial, Protocol):
    """A candidate with its number and its text, beside its times."""

    @property
    def number(self) -> int: ...
    @property
    def schedule(self) -> str: ...


@dataclass(frozen=True)
class NewCandidate:
    """A schedule to try, as a tree, and how it came about."""

    schedule: syntax.ScheduleDecl
    about: str


T = TypeVar("T")


@dataclass
class Generations:
    """What was measured so far.

    incumbent  the schedule that is surely the best so far; "" before the first generation
    estimates  seconds by schedule, as if all were timed together with the first generation. LINKED
    count      generations that were added
    """

    space: MutationSpace
    seed: int = 0
    incumbent: str = ""
    estimates: dict[str, float] = field(default_factory=dict)
    count: int = 0
    _numbers: dict[str, int] = field(default_factory=dict)
    _stalled: int = 0

    def add(self, trials: Sequence[MeasuredTrial]) -> None:
        """Trials that were timed in turns. The first is the incumbent of that time, or the schedule as it was."""
        base = trials[0]
        for t in trials:
            self._numbers.setdefault(t.schedule, t.number)
        self.count += 1
        if not base.samples and self.incumbent:
            return  # nothing to compare with
        known = self.estimates.get(base.schedule)
        scale = known / base.seconds if known and base.seconds else 1.0
        for t in trials:
            if t.seconds and not t.rejected:
                self.estimates.setdefault(t.schedule, scale * t.seconds)
        best = winner(trials)
        self._stalled = 0 if best is not base or any(_may_win(t, base) for t in trials[1:]) else self._stalled + 1
        if not self.incumbent or self._seconds(best.schedule) < self._seconds(self.incumbent):
            self.incumbent = best.schedule

    def _seconds(self, schedule: str) -> float:
        return self.estimates.get(schedule, float("inf"))

    @property
    def stalled(self) -> bool:
        """STALLED"""
        return self._stalled >= _STALLED

    def finalists(self) -> list[str]:
        """FINAL. Schedules, the incumbent first."""
        others = sorted((s for s in self.estimates if s != self.incumbent), key=self.estimates.__getitem__)
        return [self.incumbent, *others][:FINALISTS]

    def rng(self) -> Random:
        """REPEATABLE: for choices of this generation."""
        return Random(f"{self.seed} {self.count} {len(self._numbers)}")

    def new_candidates(self) -> Iterator[NewCandidate]:
        """Schedules that were not measured, the same ones each time until something is added; at least some are legal."""
        rng = self.rng()
        parents = sorted(self.estimates, key=self.estimates.__getitem__)[:_PARENTS]
        trees = [_parsed(text) for text in parents]
        seen = {format_node(tree) for tree in trees} | set(self._numbers)
        weights = [1 / (rank + 1) for rank in range(len(parents))]
        failures = 0
        while parents and failures < _DRAWS:
            (at,) = rng.choices(range(len(parents)), weights)
            made = self._child(at, parents, trees, rng)
            text = format_node(made.schedule) if made is not None else ""
            if made is None or text in seen:
                failures += 1
                continue
            failures = 0
            seen.add(text)
            yield made

    def _child(self, at: int, parents: list[str], trees: list[syntax.ScheduleDecl], rng: Random) -> NewCandidate | None:
        parent = self._numbers[parents[at]]
        if len(trees) > 1 and rng.random() < _CROSSED:
            other = rng.choice([n for n in range(len(trees)) if n != at])
            crossed = crossover(trees[at], trees[other], rng)
            if crossed is not None:
                return NewCandidate(crossed, f"{parent} with lines of {self._numbers[parents[other]]}")
        found = mutate(trees[at], self.space, rng)
        if found is None:
            return None
        tree, about = found
        if rng.random() < _TWICE and (again := mutate(tree, self.space, rng)) is not None:
            tree, about = again[0], f"{about}; {again[1]}"
        return NewCandidate(tree, f"{parent} with {about}")


def choose_batch(found: Sequence[tuple[T, float | None]], count: int, rng: Random) -> list[T]:
    """So many of those with predicted seconds: the fastest, and a few at random, since predictions are wrong now and then."""
    seconds = [float("inf") if predicted is None else predicted for _, predicted in found]
    order = sorted(range(len(found)), key=seconds.__getitem__)
    first = order[: count - int(_EXPLORED * count)]
    others = order[len(first) :]
    return [found[n][0] for n in (*first, *rng.sample(others, min(len(others), count - len(first))))]


def _may_win(t: TimedTrial, base: TimedTrial) -> bool:
    """STALLED. What was dropped early was much slower."""
    stayed = not t.rejected and 2 * len(t.samples) > len(base.samples)
    return stayed and ratio_interval(t.samples, base.samples)[0] * GAIN <= 1.0


def _parsed(text: str) -> syntax.ScheduleDecl:
    return replace(parse_schedule(text, "<measured>"), where=())
