"""Computations on an accumulator that the compiler adds: its initialisation, reload, combination over units, correction."""

from __future__ import annotations

from dataclasses import dataclass

from ....dsl.index.expr import Expr
from ....dsl.support.cached import cached_property
from ....dsl.support.fast_replace import replace
from ....dsl.values import Value
from ...plan.computations import Computation
from ..leaves.fragment_fit import Digits


@dataclass(frozen=True)
class InitAccumulator(Computation):
    """Initialisation of an accumulator: `name` gets its identity."""

    @cached_property
    def reduced(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class ResumeAccumulator(Computation):
    """An accumulator goes on from what `home` holds (ONE_READER).

    instead   what units start from that do not go on
    parts     the indices whose parts units hold: which of them goes on is said elsewhere (`keep`)
    """

    home: str = ""
    instead: Value | None = None
    parts: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExchangeBuffers:
    """Partial results pass through `buffers`: each unit of `level` stores its own, then reads those of its group.

    The group of a unit are those whose numbers differ only in `number // stride % count` (count 0: all that take part).
    """

    buffers: tuple[str, ...]
    level: str
    stride: int
    count: int
    storing: bool


@dataclass(frozen=True)
class CombinePartials(Computation):
    """The partial results that units hold of `name` are combined; every unit gets the whole."""

    how: ExchangeBuffers | None = None

    @cached_property
    def reduced(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class CountingTerm(Computation):
    """The term of a reduction of a part of its terms, which is added where it counts. `where`: the conditions for that."""

    where: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class RunningUpdate(Computation):
    """A computation on running values (`running_values`). `corrects`: the accumulator that it multiplies; `shown`: by what."""

    corrects: str = ""
    shown: str = ""


@dataclass(frozen=True)
class TotalOfTile(Computation):
    """What a tile of a prefix reduction adds for all rows that follow (`lower_carry`). Lines that name results mean others."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        return self.targets


@dataclass(frozen=True)
class CombineInTurn(RunningUpdate):
    """The parts of a statistic that lanes have become one in each iteration. `over`: the digits of a lane's number, as (stride,
    count), in which such lanes differ."""

    kind: str = ""
    over: Digits = ()


def as_kind(kind: type, w: Computation):
    """The computation as one of another class."""
    return kind(**{f: getattr(w, f) for f in Computation.__dataclass_fields__})


def counting_term(w: Computation) -> CountingTerm:
    outer = w.where if isinstance(w, CountingTerm) else ()
    return replace(as_kind(CountingTerm, w), value=w.term, where=(*outer, *w.domain))
