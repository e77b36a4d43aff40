"""The loops of a nest, read from its schedule tree: the cost model prices trees, whoever wrote their lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...ir.schedule_tree import Keep, Leaf, Move, Node, Tile
from ...lower.lowering_context import LoweringContext


@dataclass(frozen=True)
class CostedLoop:
    """`trips` over tiles of `step` of an axis; a vector's lanes are its last loop, `unrolled` ones are straight code."""

    axis: str
    trips: int
    step: int
    unrolled: bool
    core: bool = False


@dataclass(frozen=True)
class CostedNest:
    loops: tuple[CostedLoop, ...]
    vector: str | None  # the axis along the lanes
    kept: Mapping[str, int]  # result -> loops outside what is kept of it
    streamed: Mapping[str, float]  # result -> bytes from which on it goes past the caches
    staged: frozenset[str]
    cycles: float | None  # of an instruction that is the leaf, and moves squares
    leaf: bool = False  # an instruction is
    extent: int = 1  # of the vector's axis
    free: bool = True  # lanes lie along no reduced axis


def costed_nest(ctx: LoweringContext, tree: Node, sizes: Mapping[str, int], lanes: int, reduced: frozenset[str]) -> CostedNest:
    """The loops of a launch. Axes that no tile cuts are whole."""
    lane = ctx.device.levels[-1].name
    now = dict(sizes)
    loops: list[CostedLoop] = []
    vector, cycles, leaf = None, None, False
    kept: dict[str, int] = {}
    streamed: dict[str, float] = {}
    staged: set[str] = set()
    for x in tree.path():
        match x:
            case Tile():
                unroll = x.unroll.count if x.unroll is not None else None
                for a in x.axes:
                    had = now.get(a.index, 1)
                    size = min(had, a.size)
                    if x.level == lane:
                        vector, size = a.index, min(had, lanes)
                        # More lanes than a level has become iterations, except for kept results.
                        most = max(1, (ctx.device.levels[-1].most or had) // lanes) * lanes
                        if had > most and (a.index in reduced or not reduced):
                            loops.append(CostedLoop(a.index, -(-had // most), most, False))
                            had = most
                    trips = -(-had // max(1, size))
                    straight = x.level == lane or (unroll is not None and trips <= unroll)
                    loops.append(CostedLoop(a.index, trips, size, straight, x.level is not None and x.level != lane))
                    now[a.index] = size
            case Keep():
                kept |= dict.fromkeys(x.names, len(loops))
                if x.instr is not None:
                    streamed |= dict.fromkeys(x.names, _least(ctx, x.instr))
            case Move():
                staged.add(x.tensor)
            case Leaf(instr=str() as name):
                instr = ctx.device.instrs_named(name)[0]
                cycles, leaf = None if instr.accumulate else instr.cycles, True
                if cycles is None:
                    vector = max(now, key=lambda a: now[a])
                    loops.append(CostedLoop(vector, -(-now[vector] // lanes), lanes, True))
    extent, free = sizes.get(vector or "", 1), vector not in reduced
    return CostedNest(tuple(loops), vector, kept, streamed, frozenset(staged), cycles, leaf, extent, free)


def _least(ctx: LoweringContext, name: str) -> float:
    """Bytes of a tensor from which on the instruction, or one of the family, that stores it is used."""
    named = [i for i in ctx.device.instrs if name in (i.name, i.family)]
    return float(max((o.least for i in named for o in i.operands), default=0))
