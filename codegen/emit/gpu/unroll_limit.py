"""The unroll factor for loops of GPU kernels whose schedule has none.

A compiler would unroll short loops completely, and then hoist the loads of all iterations. If one iteration loads much,
registers do not suffice, and spills cost far more than the waits. Iterations that load 64 registers together hide the waits.

TILES   An iteration with a barrier is a tile's worth of work: unrolling it gains nothing. A compiler that sees loops over
        registers in it before it unrolls them takes it for short, and would. Where conditions tell iterations apart, it may
        choose: told not to unroll, clang would not take the last iteration out of the loop either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir.limits import LOADED
from ...ir.tile_ir import Alloc, Barrier, For, If, Stmt
from ...ir.tile_visitors import statements
from ..c.unrolling import MOST_COPIES, statement_count, trip_count
from ..emission_context import EmissionContext

# iterations: of a loop that compilers may unroll by themselves, at most [estimate;
# test_compilers_choose_the_factor_of_long_loops]
SHORT = 64


def unroll_limit(ctx: EmissionContext, s: For, packed: Mapping[str, int]) -> int | None:
    """A divisor of the loop's trip count, 1: no unrolling; None: the compiler may choose. `packed`: elements in a register."""
    if s.unroll == 1 and _is_short_of_tiles(ctx, s):
        return 1
    if s.unroll != 1 or all([x.var in ctx.lanes.unrolled for x in ctx.loops]):
        return None  # a loop that runs once is short enough
    trips = trip_count(ctx, s)
    if trips is None or not 1 < trips <= SHORT:
        return None
    loaded = _loaded(ctx, s.body, packed)
    if not loaded:
        return None
    most = min(LOADED // loaded, MOST_COPIES // max(1, statement_count(ctx, s.body)))
    return max((n for n in range(1, trips + 1) if trips % n == 0 and n <= most), default=1)


def _is_short_of_tiles(ctx: EmissionContext, s: For) -> bool:
    """TILES"""
    trips, inside = trip_count(ctx, s), statements(s.body)
    apart = any([s.var in c.variables() for x in inside if type(x) is If for c in x.conds])
    return trips is not None and trips <= SHORT and not apart and any([type(x) is Barrier for x in inside])


def _loaded(ctx: EmissionContext, body: Sequence[Stmt], packed: Mapping[str, int]) -> int | None:
    """Registers that an iteration loads, and frees again; None if it contains a loop that is not unrolled, or a barrier."""
    total = 0
    for s in body:
        match s:
            case Barrier():
                return None
            case Alloc():
                n = s.buffer.size.constant
                if s.buffer.name not in ctx.lanes.registers or n is None:
                    return None
                inner, own = _loaded(ctx, s.body, packed), -(-n // packed.get(s.buffer.name, 1))
            case For():
                inner, own = _loaded(ctx, s.body, packed), 0
                trips = trip_count(ctx, s) if s.var in ctx.lanes.unrolled else None
                if inner is None or trips is None:
                    return None
                inner *= trips
            case If():
                one, other = _loaded(ctx, s.body, packed), _loaded(ctx, s.orelse, packed)
                if one is None or other is None:
                    return None
                inner, own = max(one, other), 0
            case _:
                continue
        if inner is None:
            return None
        total += inner + own
    return total
