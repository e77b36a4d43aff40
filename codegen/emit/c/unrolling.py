"""The unroll factor that a compiler is given for a loop.

It is the program's, or the largest divisor of it with which the text is short enough: compilers take much more than twice the
time for twice the text, and each element of an array multiplies alias queries. 256 elements cost g++ half a minute, 3072 more
than anyone waits for.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....dsl.index.expr import Expr
from ....dsl.values import Masked, loads, walk
from ...ir.tile_ir import Alloc, For, If, Let, Stmt, Store
from ...ir.tile_visitors import buffers_used, statements
from ..emission_context import EmissionContext

MOST_COPIES = 2048  # statements: that a loop may become [limit]
# statements: that a loop may become, where registers are an array because they are too many for names [limit]
MOST_INDEXED = 64
# statements: that such a loop may become in all its copies, which unrolled loops of named registers around it make: g++ takes
# 15 seconds for 1024, minutes for 4096 [limit]
MOST_REPEATED = 1024
# statements: that a loop may become, where each lane's own condition guards what it loads: clamps and masks make a dozen
# instructions of each such load. 3 x 3 copies of 16 kept g++ busy for 4 seconds, and were no faster than a loop [limit]
MOST_MASKED = 64
# statements: that a loop counts for beside its body, because compilers vectorize each copy, with versions and a remainder
# [estimate; test_a_loop_counts_for_more_than_its_body]
LOOP = 8


def unroll_factor(ctx: EmissionContext, s: For, repeats: int) -> int:
    """A divisor of what the program says; 1: not at all. `repeats`: copies of the loop that unrolled loops around it make."""
    return _count(ctx, s, repeats=repeats)


def _count(ctx: EmissionContext, s: For, inner: int | None = None, repeats: int = 1) -> int:
    """`inner`: the statements that its body becomes, where they were counted."""
    count = s.unroll if s.unroll > 1 else (trip_count(ctx, s) or 1) if s.unroll == 0 else 1
    if count == 1:
        return 1
    inner = max(1, statement_count(ctx, s.body) if inner is None else inner)
    if _indexed(ctx, s.body):  # a part of such a loop still indexes arrays by variables
        return count if count * inner <= MOST_INDEXED and count * inner * repeats <= MOST_REPEATED else 1
    most = MOST_MASKED if _masked(ctx, s.body) else MOST_COPIES
    return max((n for n in range(1, min(count, most // inner) + 1) if count % n == 0), default=1)


def trip_count(ctx: EmissionContext, s: For) -> int | None:
    return constant_trips(ctx.substitute(s.start), ctx.substitute(s.stop), ctx.substitute(s.step))


def constant_trips(start: Expr, stop: Expr, step: Expr) -> int | None:
    """The trip count of a loop, if that is a number."""
    by = step.constant
    n = (stop - start).constant if start.terms else None if stop.terms else stop.const - start.const
    return None if n is None or by is None else max(0, -(-n // by))


def statement_count(ctx: EmissionContext, body: Sequence[Stmt]) -> int:
    """Statements that compilers see."""
    total = 0
    for s in body:
        match s:
            case For():
                inner = statement_count(ctx, s.body)
                trips = trip_count(ctx, s)
                if trips is not None and s.var in ctx.lanes.unrolled:
                    total += inner * trips
                else:
                    count = _count(ctx, s, inner)
                    total += inner * count + (0 if trips is not None and trips <= count else LOOP)
            case Alloc():
                total += statement_count(ctx, s.body)
            case If():
                total += statement_count(ctx, s.body) + statement_count(ctx, s.orelse)
            case Let():
                pass
            case _:
                total += ctx.lanes.printed_size(s)
    return total


def _indexed(ctx: EmissionContext, body: Sequence[Stmt]) -> bool:
    arrays = {name for name, r in ctx.lanes.registers.items() if not r.named}
    return bool(arrays) and not arrays.isdisjoint(buffers_used(tuple(body)))


def _masked(ctx: EmissionContext, body: Sequence[Stmt]) -> bool:
    """Whether lanes load from memory under conditions that differ between them."""
    if ctx.lanes.var is None:
        return False
    values = (v for s in statements(tuple(body)) if type(s) is Store for v in walk(s.value))
    guarded = (
        v for v in values if isinstance(v, Masked) and any(ld.tensor not in ctx.lanes.registers for ld in loads(v.value))
    )
    return any(not ctx.lanes.varying.isdisjoint(c.variables()) for v in guarded for c in v.conds)
