"""Units that wait for others: one that does the work of all, missing lanes, units that never do anything."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...dsl import syntax
from ...dsl.errors.warning import Caution, IdleUnits, OneUnitForAll
from ...dsl.source import Span
from ..ir.tile_ir import AllReduce, Call, Store
from .typical_block import StatementPoints, TypicalBlock, distributing_line, innermost_line

FEW = 8  # times: a warning needs at least so many idle units for each busy one [estimate; test_cliffs_have_thresholds]
_LONG = 16  # executions: in a row by one unit that deserve a warning [estimate; test_cliffs_have_thresholds]


def lone_units(block: TypicalBlock, mine: tuple[Span, ...]) -> Iterator[tuple[Span | None, Caution]]:
    """Where few of many units execute a statement many times in a row, while the others wait."""
    if block.units < FEW or not block.program.device.levels[-1].width:
        return  # the lanes of a vector do not wait: what one of them does is scalar code
    for leaf in block.leaves():
        if not isinstance(leaf.stmt, Store | Call) or not _few(block, leaf):
            continue
        region = _region(block, leaf)
        entries = region.points.weight.sum() / len(np.unique(region.points.unit))
        each = np.bincount(leaf.points.unit, leaf.points.weight, block.units) / entries
        busiest, total = each.max(), each.sum()
        if busiest < _LONG or busiest < FEW * -(-total // block.units):
            continue
        active = int((each > 0).sum())
        unit = block.program.device.levels[-1].name
        s = "s" if active == 1 else ""
        what = (
            f"store{s} {busiest:,.0f} elements of `{leaf.stmt.buffer}`"
            if isinstance(leaf.stmt, Store)
            else f"execute{s} `{leaf.stmt.instr}` {busiest:,.0f} times"
        )
        yield (
            innermost_line(leaf, mine),
            OneUnitForAll(
                f"{active} of {block.units} {unit}s {what}, one after another; the others wait",
                note=f"by {active} of {block.units} {unit}s",
                help=f"distribute the elements in this line's block, as in `tile m: 1, n: 4 -> {unit}`; without a block the "
                "compiler does it",
            ),
        )


def _few(block: TypicalBlock, node: StatementPoints) -> bool:
    return len(np.unique(node.points.unit)) * FEW <= block.units


def _region(block: TypicalBlock, leaf: StatementPoints) -> StatementPoints:
    """The outermost statement around a leaf in which only few units do anything."""
    found = leaf
    for n in leaf.above():
        if not all(_few(block, x) for x in n.leaves()):
            break
        found = n
    return found


def idle_units(block: TypicalBlock, decl: syntax.ScheduleDecl) -> Iterator[tuple[Span | None, Caution]]:
    """Blocks with fewer units than one instruction drives, and units that never do anything."""
    device = block.program.device
    inner = device.levels[-1]
    if not inner.width:
        return
    done = max((float(np.bincount(x.points.unit, x.points.weight).max()) for x in block.leaves()), default=0.0)
    if done < _LONG:
        return
    owner = device.levels[-2].name
    open_ = next((x.name for x in reversed(device.levels) if x.units == "open"), None)
    at = distributing_line(decl, open_) if open_ else None
    if block.units * 2 <= inner.width:
        plural = "" if block.units == 1 else "s"
        yield (
            at,
            IdleUnits(
                f"a {open_ or 'launch'} has {block.units} {inner.name}{plural}; a {owner} of {device.name} drives "
                f"{inner.width} at once",
                note=f"{inner.width - block.units} of {inner.width} {inner.name}s idle",
                help=f"give tiles to {'' if at else f'`{open_}` and to '}`{inner.name}`, as in `tile n: 1 -> {inner.name}`",
            ),
        )
        return
    active = set().union(*[np.unique(x.points.unit).tolist() for x in block.leaves() if not isinstance(x.stmt, AllReduce)])
    if len(active) * 2 <= block.units:
        yield (
            at,
            IdleUnits(
                f"{block.units - len(active)} of {block.units} {inner.name}s never do anything",
                help=f"take smaller tiles on `{inner.name}`, so that there is one for each, or fewer units",
            ),
        )
