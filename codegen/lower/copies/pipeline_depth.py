"""`pipeline`: the loop over which the buffers of a `move` rotate, and their number.

PAIR        it belongs to a (move, loop) pair: the innermost loop of tiles over an index of the footprint.
DIRECTLY    written on a `tile`, it holds for each move between this line's loops and the next ones, unless the move has its
            own.
IN_CACHE    hardware fills a cache: a buffer in it has no copies in flight, which is a note.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ....dsl import syntax
from ....dsl.errors.schedule import ModifierArgument
from ....dsl.values import Load
from ...ir.limits import UNROLLED
from ...ir.tile_ir import Staging
from ..spec import Focus, Range

if TYPE_CHECKING:
    from ..lower_schedule import Lowering


def copy_staging(low: Lowering, focus: Focus, line: syntax.Move, found: list[Load], memory: str, copy: int) -> Staging:
    """How the copy, whose statements are the first `copy`, runs ahead. Raises ModifierArgument."""
    alias = focus.aliases
    names = {alias.get(x.name, x.name) for ld in found for e in ld.indices for x in e.variables()}
    turn = next((t for t in reversed(focus.tile_loops) if t.index in names), None)
    own = pipeline_of(line)
    if own is not None and turn is None:
        raise ModifierArgument(
            f"no loop above changes what is moved of `{line.tensor}`", own.span or line.span, help="leave `pipeline` out"
        )
    if turn is None:
        return Staging(copy)
    directly = turn.line is focus.tile_loops[-1].line
    if directly:
        low.ctx.paired_lines.add(id(turn.line))
    depth = depth_of(line, depth_of(turn.line, 1) if directly else 1)  # PAIR, DIRECTLY
    if depth < 2 or turn.var is None:
        return Staging(copy)
    if low.ctx.device.memory(memory).backing is not None:  # IN_CACHE
        low.ctx.note(f"`pipeline {depth}` of `{line.tensor}`: `{memory}` is a cache, which is filled as it is read; one buffer")
        return Staging(copy)
    words = (own or pipeline_of(turn.line) or syntax.Modifier("pipeline")).words
    return Staging(copy, depth, turn.var, "through" in words)


def is_unrolled(low: Lowering, line: syntax.Tile, rest: tuple, r: Range, size: int, filled: bool = True) -> bool:
    """Whether the line's loop within a tile has the same turns everywhere: it says `unroll`, and what it reads of turns that
    are not live is zero (`filled`); or moves into registers directly below it run ahead over it, and fill that. Its turns come
    from capacity then."""
    whole = r.size.constant
    if whole is None or r.strided_runs or -(-whole // size) > UNROLLED:
        return False
    if filled and any(m.name == "unroll" and not m.values for m in line.modifiers):
        return True
    first = next((x for x in moves_below(rest) if x.memory is None or low.ctx.register(x.memory)), None)
    return first is not None and depth_of(first, depth_of(line, 1)) > 1


def moves_below(rest: tuple) -> Iterator[syntax.Move]:
    """The moves between a line's loops and the next ones."""
    for x in rest:
        if isinstance(x, syntax.Tile) and x.level is None:
            return
        if isinstance(x, syntax.Move):
            yield x


def pipeline_of(line: object) -> syntax.Modifier | None:
    return next((m for m in getattr(line, "modifiers", ()) if m.name == "pipeline"), None)


def depth_of(line: object, default: int) -> int:
    """What `pipeline` says on a line."""
    m = pipeline_of(line)
    value = m.values[0] if m is not None and m.values else None
    return int(value.value) if isinstance(value, syntax.Num) else default


def idle_pipelines(low: Lowering, lines: tuple) -> None:
    """Notes on tiles whose `pipeline` is no move's."""
    for x in lines:
        if isinstance(x, syntax.Tile) and depth_of(x, 1) > 1 and id(x) not in low.ctx.paired_lines:
            names = ", ".join(f"`{a.index}`" for a in x.axes)
            low.ctx.note(f"`pipeline` of the tiles of {names}: what is moved directly below does not depend on them")
        idle_pipelines(low, getattr(x, "block", None) or ())
