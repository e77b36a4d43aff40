"""A candidate for a launch: its lines, and the cost that a model predicts for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...dsl import syntax
from ...dsl.support.cached import cached_property

Lines = tuple[syntax.Line, ...]


@dataclass(frozen=True)
class Cost:
    """Predicted seconds of a launch, and of each `part` of its work by name: numbers, or arrays over candidates.

    Parts overlap: together they are more than the launch takes.
    """

    seconds: Any
    parts: Mapping[str, Any]

    @property
    def bound(self) -> str:
        """The part that takes longest."""
        return max(self.parts, key=lambda name: self.parts[name], default="")


NO_COST = Cost(0.0, {})


class Description(NamedTuple):
    """What a candidate costs, what tells it from the others, for people, and its sizes, by the names that its template has."""

    cost: Cost = NO_COST
    about: str = ""
    tile: Mapping[str, int] = {}


@dataclass(frozen=True, eq=False)
class Candidate:
    """A way to compute a launch. Of most candidates nobody asks anything: what is told of them is made when it is asked for.

    make      its lines                              describe  the rest that is told of it
    template  what made it: of several with one template the others often fail as the first does
    report    the choice for `explain`, if it is this one
    """

    make: Callable[[], Lines]
    describe: Callable[[], Description] = Description
    template: object = None
    report: Callable[[], Any] | None = None

    @cached_property
    def lines(self) -> Lines:
        return self.make()

    @cached_property
    def description(self) -> Description:
        return self.describe()

    @property
    def cost(self) -> Cost:
        return self.description.cost

    @property
    def about(self) -> str:
        return self.description.about

    @property
    def tile(self) -> Mapping[str, int]:
        return self.description.tile


def best_of_each_template_first(candidates: list[Candidate]) -> list[Candidate]:
    """The same candidates; those after the best of each template stay in order."""
    firsts = {id(x.template): x for x in reversed(candidates)}
    return sorted(candidates, key=lambda x: firsts[id(x.template)] is not x)
