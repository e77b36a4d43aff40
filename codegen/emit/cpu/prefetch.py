"""Prefetches of cache lines that a loop reads in later iterations, if no cache of a core has room for the tensor.

Hardware prefetches too, but only to the end of a page, for some thirty streams, and late next to non-temporal stores.

WALKED   the prefetched lines are those that the innermost loop reaches next: its iterations read contiguous vectors. A copy is
         also followed along the loop around it (squares of a transpose): there lines of many rows are in flight, few of each.
ONCE     tensors that a loop reads repeatedly are in a cache by then, and not prefetched.
AGAIN    what a second loop reads again, as the elements of a row after their maximum, is in a cache by then, if that has room
         for the row. It prefetches the next row instead, while it computes.
"""

from __future__ import annotations

from ....dsl.device import Device
from ....dsl.index.expr import Expr
from ...ir.limits import CACHE_LINE
from ...ir.tile_ir import Buffer
from ..c.c_tree import Declaration, ExprStatement, If
from ..emission_context import EmissionContext, PrintedLoop

# bytes: ahead in an innermost loop, about what memory delivers during its latency [measured: default-nests;
# test_the_text_decides_for_open_sizes]
FAR = 8 << 10
NEAR = 256  # bytes: ahead in a loop around the innermost one [measured: default-nests; test_squares_of_a_transpose_follow_rows]
# cache lines: of a row, that an iteration reads at most [measured: default-nests; test_iterations_that_read_few_lines]
LINES = 4


def largest_core_cache(device: Device) -> int:
    """Bytes of the largest cache of one core; 0 where there is none."""
    return max(
        (m.capacity or 0 for m in device.memories if m.backing is not None and m.level != device.levels[0].name), default=0
    )


def emit_prefetch(ctx: EmissionContext, buffer: Buffer, e: Expr, pointer: str) -> None:
    """WALKED, ONCE. Prints the prefetch after a vector load at the linear address `e`, which is `pointer` as text."""
    cache = largest_core_cache(ctx.program.device)
    if not cache or buffer.kind != "input" or any(x.names.isdisjoint(e.variables()) for x in ctx.loops):
        return
    size = ctx.substitute(buffer.size) * buffer.dtype.bytes
    if size.constant is not None and size.constant < cache:
        return
    walked = next((n for n, x in enumerate(reversed(ctx.loops)) if _walks(ctx, buffer, e, x, NEAR if n else FAR)), None)
    if walked is None or (walked > 0 and not ctx.copies_only):
        return
    ahead = (NEAR if walked else FAR) // buffer.dtype.bytes
    line = (buffer.name, e - e.const, e.const * buffer.dtype.bytes // CACHE_LINE)
    scope = ctx.text.scopes[-1]
    if line in scope.fetched:
        return
    scope.fetched.add(line)
    distance = ctx.constant(
        (buffer.name, ahead),
        "int64_t",
        f"{ctx.emitted_names[buffer.name]}_ahead",
        lambda: f"{ctx.text.index.text(size)} >= {cache} ? {ahead} : 0",
        "asked for so early, where no cache of a core holds it",
    )
    if not walked:
        distance = _distance_of_a_second_loop(ctx, buffer, e, cache, distance)
    # A prefetch without effect would still occupy a load port.
    asked = ExprStatement(f"__builtin_prefetch({pointer} + {distance})")
    ctx.text.add(asked if size.constant is not None else If(distance, [asked], short=True))


def _distance_of_a_second_loop(ctx: EmissionContext, buffer: Buffer, e: Expr, cache: int, ahead: str) -> str:
    """AGAIN. The elements to the next row in a loop that reads a row of FAR bytes or more again, `ahead` in another one."""
    if len(ctx.loops) < 2:
        return ahead
    around, inner = ctx.loops[-2:]
    walk = e - e.const - inner.var * e.coefficient(inner.var)
    row = ctx.known.substitution(walk, {around.var: around.var + around.step}) - walk
    first = around.read.setdefault((buffer.name, walk), inner.var) == inner.var
    if first or row.constant == 0 or not row.variables().isdisjoint((around.var, inner.var)):
        return ahead
    size = row * buffer.dtype.bytes
    if size.constant is not None and not FAR <= size.constant <= cache:
        return ahead
    if (buffer.name, row) not in around.next:
        depth = ctx.text.depth(around.var)
        name = ctx.text.fresh(f"{ctx.emitted_names[buffer.name]}_next", depth)
        text = ctx.text.index.text
        value = f"{ctx.condition([around.stop - around.var - around.step - 1])} ? {text(row)} : 0"
        if size.constant is None:
            value = f"{ahead} == 0 || {text(size)} < {FAR} || {text(size)} > {cache} ? {ahead} : {value}"
        note = "a row is read again from a cache: the next one is prefetched"
        ctx.text.declare(Declaration("int64_t", name, value, True, note=note), depth)
        around.next[buffer.name, row] = name
    return around.next[buffer.name, row]


def _walks(ctx: EmissionContext, buffer: Buffer, e: Expr, loop: PrintedLoop, ahead: int) -> bool:
    """Whether the loop's iterations read contiguous vectors, and reach as far as the prefetch."""
    grows = e.coefficient(loop.var) * loop.step
    reach = ahead if loop.var.hi is None else (loop.var.hi + 1) * e.coefficient(loop.var) * buffer.dtype.bytes
    return 0 < grows * buffer.dtype.bytes <= LINES * CACHE_LINE and grows % ctx.width == 0 and reach >= ahead
