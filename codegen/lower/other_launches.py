"""What to write where a line of one launch is about a tensor that only another launch reads, or computes."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..plan.computations import Computation
from .lowering_context import LoweringContext


def read_elsewhere(ctx: LoweringContext, here: Collection[Computation], tensor: str) -> str | None:
    """The way out for a line that stages what none of the computations `here` reads; None where no launch reads it."""
    w = next((w for w in in_other_launches(ctx, here) if tensor in w.reads), None)
    if w is None:
        return None
    block = f"`keep {w.targets[0]} in {ctx.device.memories[0].name}:`"
    apart = f"`{w.result}` reads it, in a launch of its own: write this line in a block for that, below {block}"
    return _joining(ctx, here, w) or apart


def computed_elsewhere(ctx: LoweringContext, here: Collection[Computation], tensor: str) -> str | None:
    """The way out for a line that keeps what none of the computations `here` computes; None where no launch computes it."""
    others = [*in_other_launches(ctx, here)]
    if not any(tensor in w.names for w in others):
        return None
    joining = next((way for w in others if tensor in w.reads and (way := _joining(ctx, here, w)) is not None), None)
    block = f"`keep {tensor} in {ctx.device.memories[0].name}:`"
    apart = f"it has a launch of its own, as nothing here reads it: leave it out of this line, or write a block for it, {block}"
    return joining or apart


def _joining(ctx: LoweringContext, here: Collection[Computation], reader: Computation) -> str | None:
    """How the launch of those `here` gets the reader of a tensor, where these read what that computes."""
    read = {t for x in here for t in x.reads}
    made = next((t for t in (*reader.targets, reader.result) if t in read), None)
    if made is None:
        return None
    whole = made.split(".")[0]
    name = whole if whole in ctx.nameable else made
    register = ctx.device.memories[-1].name
    return (
        f"`{reader.result}` reads it, in a launch of its own: `keep {name} in {register}` below this line has it computed here"
    )


def in_other_launches(ctx: LoweringContext, here: Collection[Computation]) -> Iterator[Computation]:
    """The computations of the launches that do not have those `here`."""
    mine = {w.name for w in here}
    return (w for launch in ctx.planned if mine.isdisjoint(w.name for w in launch) for w in launch)
