"""Prefix reductions on CPUs: a loop over tiles of rows, each of which goes on from the total of those before it.

    tile r: 1 -> core                tile c: 16 -> core
    tile i: 8 carry                  tile i: 1 carry
    tile i: 1 -> lane                tile c: 1 -> lane

ROWS_IN_LANES     where the row is the last index of the result, a tile has a row for each lane. A row adds as many terms.
COLUMNS_IN_LANES  else neighbours in memory have totals of their own. A tile has one row, which adds one term.
ONE_RANGE         terms that depend on the row are computed apart. What goes on from tile to tile is lost where it underflows,
                  as it does where gates fall, and grow again.
MANY_ROWS         without the loop a row adds half of all terms on average, and cores share the rows.
"""

from __future__ import annotations

from ....dsl import syntax
from ...lower.lowering_context import LoweringContext
from ...lower.tiling.prefixes import prefix_along
from ...plan.computations import Computation
from ...schedule.candidate import Candidate, Description, Lines
from ..line_builders import modifier, tile_text
from .default_nests import cores_and_lanes

# rows: for each term that a row adds, for the loop to pay [estimate; test_few_rows_are_computed_apart]
ROWS_A_TERM = 8
VECTORS = 2  # vectors: of neighbours with totals of their own, side by side [estimate; test_the_lines_of_a_default]


def prefix_candidates(ctx: LoweringContext, computations: tuple[Computation, ...]) -> list[Candidate]:
    """The one candidate; none where a launch is another than one prefix reduction, or has few rows (MANY_ROWS)."""
    levels = cores_and_lanes(ctx.device)
    if levels is None or len(computations) != 1:
        return []
    (w,) = computations
    found = prefix_along(w)
    if found is None or found[1].decay is not None or w.fused or w.value.dtype.name == "bool":  # ONE_RANGE
        return []
    row = found[0]
    cores, lane = levels
    width = max(1, (lane.bytes or 1) // w.value.dtype.compute.bytes)
    last = w.outputs[0].indices[-1] if w.outputs else w.indices[-1]
    terms = width if last == row else 1
    count = dict(w.extents)[row].constant
    if count is not None and count < ROWS_A_TERM * terms:
        return []
    lines = _lines(w, row, last, terms, VECTORS * width, cores.name, lane.name)
    return [Candidate(lambda: lines, lambda: Description(about="goes on from tile to tile"), template="prefix")]


def _lines(w: Computation, row: str, last: str, terms: int, across: int, core: str, lane: str) -> Lines:
    others = [i for i in w.indices if i != row]
    dealt = [(i, across if i == last else 1) for i in others]
    return (
        *((tile_text(*dealt, level=core),) if dealt else ()),
        tile_text((row, terms), modifiers=modifier("carry")),
        tile_text((last, 1), level=lane),
        syntax.Compute(),
    )
