"""Products whose results go through a memory before they are stored: the way round in which lanes store runs of them.

IN_RUNS   an instruction computes a product or its transposed. Where a lane of the result has neighbours in its registers, the
          way is taken in which these are neighbours in the memory: one store has several. Where the operands lie as they did,
          nothing else changes. Results that lie side by side, of which one is stored, are all computed so. What is stored
          without such a step is left alone: there the rows of a fragment should be long, not those of a lane.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...ir.schedule_tree import Keep, Leaf, Move, Node
from ...plan.computations import Computation
from .fragment_fit import fragment_values, same_fragment
from .match_instr import FragmentMap, InstrMatch, all_matches, best_match, fragment_map

if TYPE_CHECKING:
    from ..lower_schedule import Lowering


def stored_in_runs(low: Lowering, tree: Node) -> dict[str, InstrMatch]:
    """IN_RUNS: of computations by name, how their instruction computes them where that is not the way it would be otherwise."""
    for x in tree.path():
        if not isinstance(x, Keep) or x.block is None or not _registers(low, x.memory):
            continue
        for w in low.computations:
            hop = next((y for y in x.block.path() if isinstance(y, Move) and y.tensor in w.names), None)
            staged = hop is not None and hop.layout is None and not _registers(low, hop.memory)
            if w.reduction is not None and w.indices and staged and isinstance(x.below.leaf, Leaf):
                return _turned(low, x.below.leaf, w)
    return {}


def _registers(low: Lowering, memory: str | None) -> bool:
    return low.ctx.register(memory or low.ctx.device.memories[-1].name)


def _turned(low: Lowering, leaf: Leaf, w: Computation) -> dict[str, InstrMatch]:
    """The other way round, where the runs of a lane's results are longer then: of all that lie side by side, or of none."""
    named = low.ctx.device.instrs_named(leaf.instr) if leaf.instr is not None else ()
    beside = (x for x in low.computations if x is not w and x.reduction is not None and {*x.indices} == {*w.indices})
    found: dict[str, InstrMatch] = {}
    lies: FragmentMap | None = None
    for x in (w, *beside):
        m = max((m for i in named if (m := best_match(i, x, low.finest))), key=lambda m: (m.score, m.volume), default=None)
        if m is None:
            return {}
        ways = [
            y
            for y in (m, *all_matches(m.instr, x))
            if _same_operands(m, y) and (lies is None or same_fragment(lies, _result(y)))
        ]
        best = max(ways, key=lambda y: _run(_result(y), w.indices[-1]), default=m)
        if not ways or (x is w and best is m):
            return {}
        found[x.name], lies = best, _result(best)
    return found


def _result(m: InstrMatch) -> FragmentMap:
    return fragment_map(m, m.instr.statement.target)


def _same_operands(one: InstrMatch, other: InstrMatch) -> bool:
    """Does each value lie the same in both?"""
    theirs = {value: name for name, value in other.operands}
    return all(
        value in theirs and same_fragment(fragment_map(one, name), fragment_map(other, theirs[value]))
        for name, value in one.operands
    )


def _run(f: FragmentMap, index: str) -> int:
    """Registers of a lane that hold neighbours along an index: as many, again and again."""
    values = {i: fragment_values(f, e) for i, _, e in f.maps}
    run = 1
    while f.registers % (2 * run) == 0 and index in values:
        parts = {i: v.reshape(f.lanes, -1, 2 * run) for i, v in values.items()}
        if not all((v == v[..., :1] + (np.arange(2 * run) if i == index else 0)).all() for i, v in parts.items()):
            break
        run *= 2
    return run
