"""The axes of a staged copy: where each begins, how far it spans, what of it is valid, and what of it must be filled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ....dsl.index.expr import Expr, Var, as_expr, ceildiv
from ....dsl.layout import Layout
from ....dsl.values import Const, Masked, Value
from ...ir.schedule_tree import Node
from ...ir.tile_ir import Buffer
from ..addressing import live_ends
from ..lowering_context import LoweringContext
from ..spec import Focus, Range, View
from ..tiling.padded_trip_counts import is_filled_padded, is_scratch_memory

if TYPE_CHECKING:
    from ..lower_schedule import Lowering


@dataclass(frozen=True)
class StagedAxis:
    """One axis of a staged copy: its name, where it begins, how far it spans, what is valid, how much of it is filled."""

    name: str
    origin: Expr
    extent: int
    valid_conditions: tuple[Expr, ...]
    fill: tuple[Expr, ...]


def staged_view(ctx: LoweringContext, focus: Focus, buffer: Buffer, form: str, axes: list[StagedAxis], layout: Layout) -> View:
    """What is staged here, zero outside of what is live here: lines below that end inside of it must ask."""
    there = all(a.extent for a in axes)  # of no elements, none is filled
    held = live_ends(focus) if there else frozenset()
    whole = frozenset(a.name for a in axes if there and not a.fill and is_scratch_memory(ctx, buffer.memory))
    names, origins = tuple(a.name for a in axes), tuple(a.origin for a in axes)
    return View(buffer.name, form, names, origins, layout, filled_extents=held, fully_written=whole)


def mask_copy(value: Value, axes: list[StagedAxis], also: tuple[Expr, ...] = ()) -> Value:
    """The value where it is valid, zero elsewhere."""
    conds = (*also, *(c for a in axes for c in a.valid_conditions))
    return masked(tuple(dict.fromkeys(c for c in conds if c.interval[0] is None or c.interval[0] < 0)), value)


def masked(conds: tuple[Expr, ...], value: Value) -> Value:
    if not conds:
        return value
    return Masked(conds, value, Const(False if value.dtype.kind == "bool" else 0, value.dtype), value.dtype)


def spanned_size(r: Range) -> Expr:
    """What a range spans: its size, or all the strided chunks that are still to be visited."""
    whole = r.whole_capacity
    return as_expr(whole) if r.strided_runs and whole is not None else r.size


def staged_index_axis(low: Lowering, focus: Focus, index: str, tensor: str, memory: str, below: Node) -> StagedAxis:
    """What a copy of `tensor` holds of an index of the focus, for the nodes below."""
    r = focus.ranges[index]
    extent = low.footprint(focus, index, below)
    here = as_expr(Var(index)) - r.base
    valid = tuple(b - here - 1 for b in (*r.bounds, spanned_size(r)))
    return StagedAxis(index, r.base, extent, valid, filled_extents(low, focus, index, tensor, memory, below, extent))


def filled_extents(
    low: Lowering, focus: Focus, index: str, tensor: str, memory: str, below: Node, extent: int
) -> tuple[Expr, ...]:
    """What of the axis the copy must fill, where not all: the live extent, rounded up to what a leaf reads at once."""
    r = focus.ranges[index]
    if not r.bounds or r.strided_runs or is_filled_padded(low, focus, index, tensor, memory, below):
        return ()  # strided chunks are visited whether they are live or not
    grain = low.grain(focus, index, below)
    if grain >= extent:
        return ()
    return tuple(ceildiv(b, grain) * grain for b in r.bounds)
