"""Loops whose turns have nothing to do with one another, so that they may be executed together, as units are.

OWN_COORDINATE: of each buffer that is stored in the body, one coordinate of all accesses is the same expression: a multiple of
the loop's variable, and something that is the same in all turns. So no turn accesses an element that another one stores.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...dsl.index.expr import Expr, Var
from ...dsl.values import loads
from ..ir.tile_ir import For, If, Let, Store
from ..ir.tile_visitors import statements

_ENTRIES_AT_ONCE = 1024  # entries: units times turns of a loop, that are interpreted as one array [limit]


def stored_separately(loop: For) -> frozenset[str] | None:
    """The buffers that the loop's turns store; None where a turn may depend on another one, or units act together."""
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
    apart = all(any(_is_own(found, loop.var, inner) for found in zip(*places[name], strict=False)) for name in stored)
    return frozenset(stored) if apart else None


def _is_own(found: tuple[Expr, ...], var: Var, inner: set[Var]) -> bool:
    """OWN_COORDINATE, of what all accesses have as one coordinate."""
    step = found[0].coefficient(var)
    return step != 0 and all(e == found[0] for e in found) and inner.isdisjoint((found[0] - step * var).variables())


def turns_together(units: int, start: Any, stop: Any, step: Any) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """The turns of a loop, some at a time, in their order: for each unit and turn the unit's place in the frame and the value
    of the loop's variable; and how many turns.

    units   in the frame        start, stop, step   of the loop: integers, or one for each unit
    """
    turns = int(np.max((stop - start + step - 1) // step, initial=0))
    most = max(1, _ENTRIES_AT_ONCE // units)
    for first in range(0, turns, most):
        some = np.arange(first, min(first + most, turns))
        at = np.broadcast_to(start + step * some[:, None], (len(some), units))
        active = at < stop
        yield np.nonzero(active)[1], at[active], len(some)
