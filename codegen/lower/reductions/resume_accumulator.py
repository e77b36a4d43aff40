"""Where an accumulator goes on from a partial result, and where it leaves its own.

FIRST_AND_LAST   with reduction loops above the accumulator, the first iteration initialises, later ones reload, the last
                 applies the epilogue and rounds. In between it lives in the output if the types agree and there is no
                 epilogue, else in a workspace of its own type. One unit goes on from there. Others that make the result
                 for a memory of their own would begin again: the line is refused.
TILE_OF_TILE     below a line that keeps the same accumulator in a memory farther from the units, it goes on from there, and
                 is stored there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ....dsl.errors.schedule import CannotMeet, SplitReduction
from ....dsl.index.expr import Expr, Var, as_expr
from ....dsl.support.fast_replace import replace
from ....dsl.values import Load, neutral_value
from ...ir.schedule_tree import Keep, Node
from ...ir.tile_ir import If, Stmt
from ...plan.computations import Computation, computation_extents
from ...plan.derived_names import ArgreduceIndex, buffer_name
from ..lowering_context import LoweringContext
from ..spec import Focus, View
from ..stores.predicated_store import goes_on_where_stored
from ..workspace import workspace
from .accumulator_computations import ResumeAccumulator
from .argreduce_index import no_index

if TYPE_CHECKING:
    from ..lower_schedule import Lowering


def check_own_parts(focus: Focus, w: Computation, keep: Keep) -> None:
    """Raises SplitReduction where units that have parts of the reduction would go on from one partial result."""
    for d in focus.digits[focus.open_accumulators[w.name] :]:
        if d.index in w.reduced and d.extent.constant != 1:
            raise SplitReduction(
                f"units of `{d.levels[-1]}` have parts of `{w.result}`, and would all go on from what a line above keeps",
                keep.span,
                help=f"write the line above the tile of `{d.index}`, or leave it out",
            )


def resume_kept(
    low: Lowering, focus: Focus, w: Computation, owner: Node, outer: Mapping[str, View], init: list[Stmt]
) -> tuple[list[Stmt], list[Stmt]]:
    """TILE_OF_TILE: what stands before the body, and after it. `outer`: where the accumulators are above."""
    refill: list[Stmt] = []
    spill: list[Stmt] = []
    for name, view in outer.items():
        home = low.ctx.fresh(buffer_name(name) + "_kept")
        low.ctx.dtypes[home] = low.ctx.dtypes[name]
        there = replace(focus.with_view(home, view), loops=())
        goes_on = _resume(low, w, name, home, w.indices)
        refill += low.lower(replace(there, computations=(goes_on,)), owner)
        spill += low.lower(replace(there, computations=(_stored_to(low, w, name, home),)), owner)
    return _of_parts(low, w, init, refill), spill


def resume_stored(
    low: Lowering, focus: Focus, w: Computation, owner: Node, init: list[Stmt], stored: list[Stmt], keep: Keep | None
) -> tuple[list[Stmt], list[Stmt]]:
    """FIRST_AND_LAST: what stands before the body, and after it.

    Raises CannotMeet where units store the result that do not go on from the partial one.
    """
    loops = [(var, trips) for index, var, trips in focus.loops if index in w.reduced]
    if not loops or any(o.atomic for o in w.outputs):  # atomic: the part of each iteration is added to what is there
        return init, stored
    first = tuple(-as_expr(v) for v, _ in loops)
    last = tuple(as_expr(v) - trips + 1 for v, trips in loops)
    simple = len(w.outputs) == 1 and isinstance(w.outputs[0].value, Load) and len(w.accumulators) == 1
    target = w.outputs[0].tensor if w.outputs else ""
    in_place = simple and focus.views[target].form == "global" and low.ctx.dtypes[target] == low.ctx.dtypes[w.name]
    refill: list[Stmt] = []
    spill: list[Stmt] = []
    for name in w.accumulators:
        home, again = (target, w.outputs[0].indices) if in_place else (_home(low, w, name), w.indices)
        focus = focus.with_view(home, View(home, "global"))
        if not all(goes_on_where_stored(low.ctx, focus, w, name, home, o) for o in w.outputs):
            above = [i for i, _, _ in focus.loops if i in w.reduced]
            tiles = ", ".join(f"`{i}`" for i in dict.fromkeys(above))
            place = f"the tile of {tiles}" if len(above) == 1 else f"all tiles of {tiles}"
            raise CannotMeet(
                f"one unit goes on from the partial result of `{w.result}` in the next tile of {tiles}, and others need it",
                keep.span if keep else None,
                help=f"leave this line out, or write it above {place}",
            )
        refill += low.lower(replace(focus, computations=(_resume(low, w, name, home, again),), loops=()), owner)
        if not in_place:
            spill += low.lower(replace(focus, computations=(_stored_to(low, w, name, home),), loops=()), owner)
    init = [If(first, tuple(init), tuple(_of_parts(low, w, init, refill)))]
    return init, stored if in_place else [If(last, tuple(stored), tuple(spill))]


def _resume(low: Lowering, w: Computation, name: str, home: str, at: tuple[str, ...]) -> ResumeAccumulator:
    """The accumulator `name` goes on from the elements of `home` at the indices `at`."""
    assert w.reduction is not None
    dtype = low.ctx.dtypes[name]
    reload = Load(home, tuple(as_expr(Var(i)) for i in at), dtype)
    instead = no_index(dtype) if isinstance(name, ArgreduceIndex) else neutral_value(w.reduction.kind, dtype)
    return ResumeAccumulator(
        name, w.indices, reload, None, w.extents, fused=w.fused, home=home, instead=instead, parts=(*w.reduced, *at)
    )


def _stored_to(low: Lowering, w: Computation, name: str, home: str) -> Computation:
    at = tuple(as_expr(Var(i)) for i in w.indices)
    return Computation(home, w.indices, Load(name, at, low.ctx.dtypes[name]), None, w.extents, fused=w.fused)


def _of_parts(low: Lowering, w: Computation, init: list[Stmt], refill: list[Stmt]) -> list[Stmt]:
    """One unit of those that hold parts goes on from the last result, the others from nothing."""
    return [*init, If(_first_of_parts(low.ctx, w), tuple(refill))] if w.name in low.ctx.reduced else refill


def _first_of_parts(ctx: LoweringContext, w: Computation) -> tuple[Expr, ...]:
    """True (>= 0) for the first unit of each group that holds parts of a result."""
    out = []
    for level, stride, count in sorted(ctx.reduced[w.name]):
        unit = as_expr(ctx.unit_var(level))
        out.append(-(unit // stride % count if count else unit))
    return tuple(out)


def _home(low: Lowering, w: Computation, name: str) -> str:
    """A workspace that holds the whole accumulator between iterations of the reduction loops above it."""
    ctx: LoweringContext = low.ctx
    home = ctx.fresh(buffer_name(name) + "_between")
    extents = computation_extents(w)
    shape = tuple(extents[i] for i in w.indices)
    ctx.dtypes[home], ctx.shapes[home] = ctx.dtypes[name], shape
    ctx.buffers.append(workspace(ctx, home, ctx.dtypes[name], shape))
    return home
