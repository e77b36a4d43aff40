"""Stores of elements, each by one unit, and predicated at tile edges.

ONE_WRITER   if several units would store the same element, unit 0 stores it.
ONE_READER   if an accumulator is stored between loops, only the unit that stored it goes on from it: other units could not know
             when it is there, and nobody reads their values, if they do not store the result (`goes_on_where_stored`).
"""

from __future__ import annotations

from ....dsl.index.expr import Expr, Var, as_expr
from ....dsl.types import DType
from ....dsl.values import Cast, Masked, Value
from ...ir.tile_ir import If, Stmt, Store
from ...plan.computations import Computation, Output
from ..addressing import coordinates, edge_conds
from ..leaves.shared_values import Around, bind_shared_values
from ..lowering_context import LoweringContext
from ..reductions.accumulator_computations import ResumeAccumulator
from ..reductions.contributions import stored as contribution_of
from ..spec import ZERO, Focus


def store_element(ctx: LoweringContext, focus: Focus, computation: Computation) -> list[Stmt]:
    value, around = bind_shared_values(ctx, focus, computation)
    if isinstance(computation, ResumeAccumulator) and computation.instead is not None:
        conds = _one_reader(ctx, focus, (*computation.indices, *computation.parts), computation.home)
        value = Masked(conds, value, computation.instead, value.dtype) if conds else value
    return guarded_store(ctx, focus, computation, value, around)


def _one_reader(ctx: LoweringContext, focus: Focus, indices: tuple[str, ...], home: str) -> tuple[Expr, ...]:
    """What is true of the units that go on from `home` (ONE_READER)."""
    return one_writer(ctx, focus, _by_fused(focus, indices), focus.views[home].buffer, among_lockstep=False)


def goes_on_where_stored(ctx: LoweringContext, focus: Focus, w: Computation, name: str, home: str, output: Output) -> bool:
    """Whether each unit that stores an output of the reduction `w` has an accumulator `name` that goes on from `home`.

    The accumulator is its own, or is in a memory that it shares with the unit that reloads it.
    """
    going_on = set(_one_reader(ctx, focus, (*w.indices, *w.reduced, *output.indices), home))
    return going_on <= {*_writers(ctx, focus, name, w.indices), *_writers(ctx, focus, output.tensor, output.indices)}


def _writers(ctx: LoweringContext, focus: Focus, tensor: str, indices: tuple[str, ...]) -> tuple[Expr, ...]:
    """What is true of the units that store elements of a tensor: all of them store to their own registers."""
    view = focus.views[tensor]
    return () if view.form == "path" else one_writer(ctx, focus, _by_fused(focus, indices), view.buffer)


def _by_fused(focus: Focus, indices: tuple[str, ...]) -> tuple[str, ...]:
    """The indices, without repetition: fused ones in place of their components."""
    alias = focus.aliases
    return tuple(dict.fromkeys(alias.get(i, i) for i in indices))


def guarded_store(
    ctx: LoweringContext, focus: Focus, computation: Computation, value: Value, around: Around = list
) -> list[Stmt]:
    """`around`: what the store needs around it."""
    tensor, indices = computation.name, computation.subscripts or computation.indices
    view = focus.views[tensor]
    at = tuple(as_expr(Var(i)) for i in indices)
    indices = _by_fused(focus, indices)
    contribution = contribution_of(focus, computation, indices)
    if computation.using is not None and not _in_vectors(ctx, focus, indices):
        why = f"no vector of lanes stores neighbours of `{tensor}`, which is stored as without it"
        ctx.note(f"`with {computation.using}`: {why}")
    where, stored = coordinates(ctx, focus, tensor, at), narrowed(value, ctx.dtypes[tensor])
    using = None if computation.atomic else computation.using
    store = Store(view.buffer, where, stored, computation.atomic, computation.span, using, contribution)
    stored_so = around([store])
    if view.form == "path":
        return stored_so
    alone = one_writer(ctx, focus, indices, view.buffer, atomic=computation.atomic is not None)
    conds = tuple(dict.fromkeys((*edge_conds(focus, indices), *alone)))
    return [If(conds, tuple(stored_so))] if conds else stored_so


def _in_vectors(ctx: LoweringContext, focus: Focus, indices: tuple[str, ...]) -> bool:
    """Whether lanes that make vectors have neighbours of what has these indices."""
    lanes, last = ctx.device.levels[-1], [focus.ranges[i].base for i in indices[-1:]]
    in_fragment = focus.element is not None and any(ctx.unit_var(lanes.name) in e.variables() for e in last)
    by_tiles = any(lanes.name in d.levels and d.index in indices[-1:] for d in focus.digits)
    return lanes.bytes is not None and (in_fragment or by_tiles)


def narrowed(value: Value, dtype: DType) -> Value:
    return value if value.dtype == dtype else Cast(value, dtype)


def one_writer(
    ctx: LoweringContext,
    focus: Focus,
    indices: tuple[str, ...],
    buffer: str,
    among_lockstep: bool = True,
    innermost: str | None = None,
    atomic: bool = False,
) -> tuple[Expr, ...]:
    """Unit 0 stores for all that would store the same (ONE_WRITER); those in lockstep with it, too, if not `among_lockstep`.

    innermost  the level whose units store as a whole; units below one of these are no others
    atomic     what units store is combined there: results of units that combine their parts so all count
    """

    def counts(*levels: str) -> bool:
        return among_lockstep or any(ctx.device.level(x).siblings != "lockstep" for x in levels)

    owner = next((b.level for b in ctx.buffers if b.name == buffer), None)
    conds: list[Expr] = []
    told_apart: set[str] = set()
    top = ctx.device.depth(owner) if owner else 0
    last = ctx.device.depth(innermost or ctx.innermost)
    for levels in dict.fromkeys(d.levels for d in focus.digits):
        fastest = min(d.stride.constant or 1 for d in focus.digits if d.levels == levels)
        if fastest > 1 and ctx.device.depth(levels[-1]) > top and counts(*levels):
            conds.append(-(ctx.number(levels)[0] % fastest))  # only lines that this nest lacks tell these units apart
    for d in focus.digits:
        told_apart.update(d.levels)
        alike = d.index not in indices and d.also not in indices and not (atomic and not d.index)
        if alike and d.expr != ZERO and ctx.device.depth(d.levels[-1]) > top and counts(*d.levels):
            conds.append(-d.expr)
    for level in ctx.device.levels[top + 1 : last + 1]:
        finite = level.units == "finite" and level.name in ctx.units
        several = level.name in ctx.units and (finite or ctx.units[level.name].constant != 1)
        if level.name not in told_apart and several and counts(level.name):
            conds.append(-as_expr(ctx.unit_var(level.name)))
    return tuple(conds)
