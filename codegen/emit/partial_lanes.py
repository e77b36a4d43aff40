"""The lanes that take part in a statement or a load, where not all do."""

from __future__ import annotations

from dataclasses import dataclass

from .c.c_expr import CExpr


@dataclass(frozen=True)
class FirstLanes:
    """The first `count` lanes take part."""

    count: CExpr


@dataclass(frozen=True)
class LaneRange:
    """The lanes from one to another take part: both as arguments of a call. Loads alone have this form."""

    bounds: str


@dataclass(frozen=True)
class ChosenLanes:
    """The lanes of a vector of bits take part. Loads alone have this form."""

    bits: str


LaneMask = FirstLanes | LaneRange | ChosenLanes
