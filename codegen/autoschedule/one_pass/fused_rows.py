"""Rows of a pass that read the same keys, as one index: queries of several heads that share their keys and values.

    fuse g, i as gi                    of o[h, g, i, d] and k[h, t, d]
    tile h: 1, gi: 16 -> block         with one query of each head, a tile has the queries of all heads that share a key

The indices of rows that no key has must be the last ones.
"""

from __future__ import annotations

from ....dsl import syntax
from ...ir.free_names import underscored_name
from ...lower.lowering_context import LoweringContext
from ...lower.tiling.fuse_indices import fused_computations
from ...plan.computations import Computation, fused_name
from .find_pass import OnePass, one_pass_of


def with_fused_rows(ctx: LoweringContext, computations: tuple[Computation, ...]) -> tuple[Computation, ...] | None:
    """The computations of a pass below such a line; None where fewer than two of its indices are such rows."""
    found = one_pass_of(computations)
    shared = _rows_without_keys(found) if found is not None else ()
    if len(shared) < 2:
        return None
    taken = {*ctx.names, *(i for w in computations for i in w.all_indices)}
    return fused_computations(computations, syntax.Fuse(shared, underscored_name(fused_name(shared), taken)))


def _rows_without_keys(found: OnePass) -> tuple[str, ...]:
    """The last indices of the rows, of which no factor from memory has both one and the key."""
    rows = found.statistics[0].indices if found.statistics else found.rows
    count = next((n for n, i in enumerate(reversed(rows)) if i in found.indices_of_keys), len(rows))
    return rows[len(rows) - count :]
