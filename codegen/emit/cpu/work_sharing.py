"""Whether a launch only distributes iterations of loops over threads: then it may have more units than there are threads."""

from __future__ import annotations

from ...ir.tile_ir import Alloc, For, Let, Stmt, Units
from ...ir.tile_visitors import variables


def shares_all_work(body: tuple[Stmt, ...], units: Units) -> bool:
    """Whether all work is in loops that begin at the unit's number and go on by the number of units; nothing else has either.

    Any other statement would be executed again by each further unit.
    """
    return all(_deals(s, units) for s in body)


def _deals(s: Stmt, units: Units) -> bool:
    counts = units.count.variables()
    hidden = counts | {units.var}
    match s:
        case Alloc():
            return shares_all_work(s.body, units)
        case Let():
            return not hidden & s.value.variables()
        case For() if units.var in s.start.variables():
            told = (s.start.variables() & counts) | (s.stop.variables() & hidden)
            return bool(counts & s.step.variables()) and not told and not hidden & variables(s.body)
        case For():
            bounds = (s.start, s.stop, s.step)
            return not any(hidden & e.variables() for e in bounds) and shares_all_work(s.body, units)
    return False
