"""`by`: a line that says how units combine their parts of a reduction is refused where they combine them in another way."""

from __future__ import annotations

from collections.abc import Sequence

from ....dsl.device import Device
from ....dsl.errors.schedule import ModifierArgument
from ...ir.schedule_tree import Axis, Fuse, Keep, Tile
from ...plan.computations import Computation
from ...schedule.build_tree import modifier
from ..spec import Focus


def check_kept_parts(device: Device, w: Computation, keep: Keep) -> None:
    """`keep ... by shuffle`: the lines below distribute the reduction to units that can wait for each other."""
    by = modifier(keep.line, "by") if keep.line is not None else None
    if by is None:
        return
    reduced = set(w.reduced)
    for x in keep.below.path():
        if isinstance(x, Fuse) and not reduced.isdisjoint(x.indices):
            reduced.add(x.name)
        level = x.level if isinstance(x, Tile) and any(a.index in reduced for a in x.axes) else None
        if level is not None and device.level(level).siblings != "nothing":
            return
    units = [x.name for x in device.levels if x.exchanges_registers]
    raise ModifierArgument(
        f"no line below distributes the reduction of `{keep.names[0]}` over units that can combine their parts",
        by.span or keep.span,
        help="leave it out" + (f", or distribute `{w.reduced[-1]}`: `-> {units[-1]}`" if units else ""),
    )


def check_dealt_parts(launch: Sequence[Computation], focus: Focus, tile: Tile, axes: Sequence[Axis]) -> None:
    """`by workspace` and `by atomic`: parts of some reduction of the launch are left to a later one. An accumulator that is
    open here combines its parts where it closes."""
    reductions = [w for w in launch if any(a.index in w.reduced for a in axes)]
    if tile.split in (None, "shuffle") or any(w.name not in focus.open_accumulators for w in reductions):
        return
    by = modifier(tile.line, "by") if tile.line is not None else None
    for w in focus.computations:
        if w.name in focus.open_accumulators and any(a.index in w.reduced for a in axes):
            kept = w.result
            raise ModifierArgument(
                f"units combine their parts of `{kept}` where the `keep` above closes, not `by {tile.split}`",
                (by.span if by is not None else None) or tile.span,
                help=f"leave it out, or write the `keep` of `{kept}` below this line",
            )
