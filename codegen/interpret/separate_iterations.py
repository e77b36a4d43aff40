"""Loops whose iterations have nothing to do with one another, so that they may be executed together, as units are.

OWN_COORDINATE: of each buffer that is stored in the body, one coordinate of all accesses is the same expression: a multiple of
the loop's variable, and something that is the same in all iterations. So no iteration accesses an element that another one
stores.
TELLS_ITERATION: what differs by unit besides is less than a step of the loop, or a multiple of something greater than all of
its steps. Then this coordinate alone tells the value of the variable, whatever the unit.
SAME_ITERATION: units that have the same value of the variable have it in the same iteration. With TELLS_ITERATION, the
iterations of all units together have nothing to do with one another.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import Any

import numpy as np

from ...dsl.index.expr import Expr, Var
from ...dsl.values import loads
from ..ir.tile_ir import For, If, Let, Store
from ..ir.tile_visitors import statements

_ENTRIES_AT_ONCE = 1024  # entries: units times iterations of a loop, that are interpreted as one array [limit]


def stored_separately(loop: For) -> dict[str, bool] | None:
    """The buffers that the loop's iterations store, and whether TELLS_ITERATION holds for each; None where an iteration may
    depend on another one of its unit, or units act together."""
    values: dict[Var, Expr] = {}
    inner = {loop.var}
    places: dict[str, list[tuple[Expr, ...]]] = {}
    stored: set[str] = set()
    for s in statements(loop.body):
        match s:
            case Let():
                values[s.var] = s.value.subs(values)
            case For():
                inner.add(s.var)
            case Store(atomic=None):
                stored.add(s.buffer)
                for name, coords in ((s.buffer, s.coords), *((x.tensor, x.indices) for x in loads(s.value))):
                    places.setdefault(name, []).append(tuple(c.subs(values) for c in coords))
            case If():
                pass
            case _:
                return None
    apart: dict[str, bool] = {}
    for name in stored:
        own = [rest for found in zip(*places[name], strict=False) if (rest := _own(found, loop.var, inner)) is not None]
        if not own:
            return None
        apart[name] = any(_tells_iteration(found, loop.var) for found in own)
    return apart


def _own(found: tuple[Expr, ...], var: Var, inner: set[Var]) -> Expr | None:
    """OWN_COORDINATE: what all accesses have as one coordinate, if it is of that form."""
    first = found[0]
    step = first.coefficient(var)
    one = step != 0 and all(e == first for e in found) and inner.isdisjoint((first - step * var).variables())
    return first if one else None


def _tells_iteration(own: Expr, var: Var) -> bool:
    """TELLS_ITERATION"""
    step = abs(own.coefficient(var))
    others = [(a, c) for a, c in own.terms if a is not var]
    low, high = Expr(tuple((a, c) for a, c in others if abs(c) < step)).interval
    far = gcd(*(c for _, c in others if abs(c) >= step))
    if low is None or high is None or high - low >= step:
        return False
    return far == 0 or (var.lo is not None and var.hi is not None and step * (var.hi - var.lo) + high - low < far)


def same_iteration(start: Any, step: Any) -> bool:
    """SAME_ITERATION, of a loop's start and step: integers, or one for each unit."""
    first = np.unique(start)
    return np.ndim(step) == 0 and len(np.unique(first % step)) == len(first)


def iterations_together(units: int, start: Any, stop: Any, step: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The iterations of a loop, some at a time, in their order: for each unit and iteration the unit's place in the frame
    and the value of the loop's variable.

    units   in the frame        start, stop, step   of the loop: integers, or one for each unit
    """
    iterations = int(np.max((stop - start + step - 1) // step, initial=0))
    most = max(1, _ENTRIES_AT_ONCE // units)
    for first in range(0, iterations, most):
        some = np.arange(first, min(first + most, iterations))
        at = np.broadcast_to(start + step * some[:, None], (len(some), units))
        active = at < stop
        yield np.nonzero(active)[1], at[active]
