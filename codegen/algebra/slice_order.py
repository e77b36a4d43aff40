"""The order of units that a device distributes round robin to the slices of a memory (`Memory.slices`).

A slice gets a run of consecutive places. Of n units and S slices, those with numbers s, s + S, s + 2*S, ... are in slice s:
n / S of them, and one more where s < n % S. The runs of the slices before it have s * (n / S) + min(s, n % S) places together,
so that each of the n places has one unit.
"""

from __future__ import annotations

from ...dsl.index.expr import Expr, minimum


def slice_order(unit: Expr, units: Expr, slices: int) -> Expr:
    """The place of a unit, 0 <= unit < units: as many places, and those of a slice are consecutive."""
    of_slice = unit % slices
    return of_slice * (units // slices) + minimum(of_slice, units % slices) + unit // slices
