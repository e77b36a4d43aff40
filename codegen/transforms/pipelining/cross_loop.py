"""Copies of an inner loop that run ahead through the end of the loop around it.

    for k: A(k); for i in 0 .. I: alloc S: [copy k, i to S; use S]; Z(k)                    n buffers, d = n - 1 copies ahead
    -->
    alloc S[n]:
        if 0 < T: A(0); copy 0, 0 .. d-1 to S
        for k in 0 .. T:
            for i in 0 .. I-d: copy k, i+d to S[(i+d) % n]; use S[i % n]
            Z(k)
            if k+1 < T: A(k+1)                                                                          EARLIER
            for each of the last d iterations of i: copy min(k+1, T-1), .. to S; use S[i % n]           TOTAL

EARLIER   the beginning of the next iteration of k comes before the last iterations of i. So neither may write elements that the
          other accesses; the same holds for them and the end of this iteration of k.
TOTAL     a copy to registers stands under no condition: compilers would not move it, nor what is around it, across a branch. In
          the last iteration of k it copies that iteration's elements once more, which nothing uses. They are there, so the
          copy reads no element that is out of bounds or was never written.
GUARDED   what the next iteration of k begins with besides is under the condition that there is one, each statement by itself.
          A group of asynchronous copies is closed under none: an empty group is no harm.
IN_FLIGHT waits are for copies that earlier iterations issued: they come first. One for a copy of the same iteration cannot.
UNIFORM   a wait stands before the condition, so that one barrier also serves the statements inside it.
PRIMED    asynchronous copies of the first iteration are issued with those before it.
LATER     asynchronous copies of one group, which no wait of this iteration is for, come after the loads of the next iteration's
          first elements: arithmetic needs those sooner, and there is some left to issue copies between.
EVEN      iterations of i number the buffers, so n divides I.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from ....dsl.device import Instr
from ....dsl.index.expr import Expr, Var, as_expr, minimum
from ....dsl.support.fast_replace import replace
from ...ir.tile_ir import Alloc, Commit, For, If, Let, Stmt, Wait
from ...ir.tile_visitors import buffers_used, map_exprs, map_places, statements, with_buffers, written
from .copy_batches import Body, asynchronous_kinds, batches_of, chain, copy_of, is_rotating, names_that_depend, rename_locals
from .split_copies import prune_empty

if TYPE_CHECKING:
    from .software_pipeline import CopyPipeliner


def pipelined_inner_loop(s: For) -> Var | None:
    """The loop right inside, through whose end copies run ahead."""
    for x in statements(s.body):
        if isinstance(x, Alloc) and x.staging is not None and x.staging.through and x.staging.depth > 1:
            return x.staging.loop if x.staging.loop != s.var else None
    return None


def pipeline_across_loop(stager: CopyPipeliner, outer: For, var: Var, opening: Body) -> Body | str:
    """What the loop becomes, or why it cannot. The loop over `var` in it is as lowering wrote it, all else is done.

    `opening`: what each turn of the outer loop issues and commits, where the first turn's is done already (PRIMED).
    """
    parts = _parts(outer.body, var)
    if parts is None:
        return "it does not stand right in the loop around it"
    allocs, before, inner, after = parts
    turns = inner.stop.constant
    if turns is None or inner.start.constant != 0 or inner.step.constant != 1:
        return "the number of its iterations is not known"
    heads = list(batches_of(inner.body, var, ()))
    at = next((n for n, x in enumerate(inner.body) if is_rotating(x, var)), None)
    if len(heads) != 1 or at is None or not all(isinstance(x, Let) for x in inner.body[:at]):
        return "its copies do not stand at its beginning"
    found, lets, rest = chain(heads[0][0], var)
    depths = {a.buffer.name: min(a.staging.depth, turns) for a in found if a.staging is not None}
    if not all(stager.private(a.buffer) for a in found):
        return "not all of its copies go to registers"
    if turns < 2 or any(turns % n for n in depths.values()):  # EVEN
        return f"{turns} iterations are no multiple of the buffers"

    def place(name: str, coords: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return (var % depths[name], *coords) if name in depths else coords

    names = (*inner.body[:at], *lets)
    use = stager.body(map_places((*names, *rest, *inner.body[at + 1 :]), place))
    copies = [(depths[a.buffer.name] - 1, prune_empty(map_places((*names, *stager.body(copy_of(a))), place))) for a in found]
    instrs = tuple(stager.instrs.values())
    moved, last = (*before, *after), use
    reading = buffers_used(last) - set(depths)
    if reading & written(moved, instrs) or buffers_used(moved) & written(last, instrs):  # EARLIER
        return "its last iterations depend on the beginning of the next iteration of the loop around it, or change it"
    if any(buffers_used(copy) & (written(last, instrs) - set(depths)) for _, copy in copies):
        return "it writes the source of its copies"
    if _is_awaited_at_once(before, stager.instrs):  # IN_FLIGHT
        return "an asynchronous copy that it reads has one buffer"
    always, depending = _names(before, outer.var)
    waits = tuple(x for x in before if _waits(x))
    before = tuple(x for x in before if not any(x is y for y in (*always, *waits)))
    later = tuple(x for x in before if x in opening)
    at_once = tuple(x for x in before if x not in opening)
    body = _turn(stager, outer, inner, turns, use, copies, (at_once, after, waits, depending), later)
    first = tuple(x for n, copy in copies for j in range(n) for x in _at(copy, var, as_expr(j)))
    ready = rename_locals(prune_empty((*at_once, *first)), stager.fresh)
    ready = _at(ready, outer.var, outer.start)
    primed = sum(isinstance(x, Commit) for x in opening)
    out: Body = (
        *always,
        *_at(_later(waits, primed), outer.var, outer.start),
        If((outer.stop - 1 - outer.start,), ready, span=outer.span, turns=True),
        replace(outer, body=(*depending, *body)),
    )
    rotating = [stager.rotating_buffer(a.buffer, depths[a.buffer.name]) for a in found]
    return with_buffers((*allocs, *rotating), out, inner.span)


def _turn(
    stager: CopyPipeliner,
    outer: For,
    inner: For,
    turns: int,
    use: Body,
    copies: list[tuple[int, Body]],
    around: tuple[Body, Body, Body, Body],
    later: Body,
) -> Body:
    """One turn of the outer loop. `later`: of what the next one begins with, what comes last (LATER)."""
    before, after, waits, depending = around
    var, most = inner.var, max(n for n, _ in copies)
    body: list[Stmt] = []
    if turns > most:
        early = tuple(x for n, copy in copies for x in _at(copy, var, var + n))
        body.append(replace(inner, stop=as_expr(turns - most), body=(*early, *use), unroll=0))
    body += [*after, *_at(waits, outer.var, outer.var + 1)]  # UNIFORM
    following, last = outer.var + 1, minimum(outer.var + 1, outer.stop - 1)
    more = () if (outer.stop - outer.start).constant == 1 else (outer.stop - 1 - following,)
    for i in range(turns - most, turns):
        body += (x for n, copy in copies if i + n < turns for x in _at(copy, var, as_expr(i + n)))
        ahead = tuple(x for n, copy in copies if i + n >= turns for x in _at(copy, var, as_expr(i + n - turns)))
        ahead = _at(rename_locals(prune_empty((*depending, *ahead)), stager.fresh), outer.var, last)  # TOTAL
        begin, end = (
            _at(rename_locals(_guarded(part, outer, depending), stager.fresh), outer.var, following)
            for part in ((before, later) if i == turns - most else ((), ()))
        )
        if more:
            body += (*begin, *ahead, *end)
        body += _at(use, var, as_expr(i))
    return tuple(body)


def _guarded(begin: Body, outer: For, names: Body) -> Body:
    """GUARDED. A condition that implies that there is the iteration needs no other."""
    more = outer.stop - 1 - outer.var
    depends = {x.var for x in names if isinstance(x, Let)}

    def by_itself(x: Stmt) -> bool:
        if isinstance(x, If) and not x.orelse:
            return any(_implies(c, more) and depends.isdisjoint(c.variables()) for c in x.conds)
        return isinstance(x, Commit)

    out: list[Stmt] = []
    for alone, some in groupby((x for x in begin if not isinstance(x, Let)), by_itself):
        if alone:
            out += (replace(x, body=(*names, *x.body)) if isinstance(x, If) else x for x in some)
        else:
            out.append(If((more,), (*names, *some), span=outer.span, turns=True))
    return prune_empty(tuple(out))


def _implies(cond: Expr, other: Expr) -> bool:
    rest = (other - cond).constant
    return rest is not None and rest >= 0


def _parts(body: Body, var: Var) -> tuple[list, Body, For, Body] | None:
    """Buffers on the way to the loop over `var`, what stands before it, the loop, what stands after it."""
    for n, s in enumerate(body):
        if isinstance(s, For) and s.var == var:
            return [], body[:n], s, body[n + 1 :]
        if isinstance(s, Alloc) and (found := _parts(s.body, var)) is not None:
            allocs, before, inner, after = found
            return [s.buffer, *allocs], (*body[:n], *before), inner, (*after, *body[n + 1 :])
    return None


def _names(before: Body, var: Var) -> tuple[Body, Body]:
    """Names that are the same in every turn, and those that are not."""
    depending = names_that_depend(var, before)
    return tuple(s for s in before if isinstance(s, Let) and s not in depending), depending


def _waits(s: Stmt) -> bool:
    return isinstance(s, Wait) or (isinstance(s, If) and all(map(_waits, (*s.body, *s.orelse))))


def _is_awaited_at_once(before: Body, instrs: dict[str, Instr]) -> bool:
    """Whether a wait stands after what issues asynchronous copies (IN_FLIGHT)."""
    issues = [isinstance(x, Commit) or bool(asynchronous_kinds((x,), instrs)) for x in before]
    return any(_waits(x) and any(issues[:n]) for n, x in enumerate(before))


def _later(waits: Body, groups: int) -> Body:
    """The waits, so many groups having been committed besides."""
    return tuple(replace(x, pending=x.pending + groups) if isinstance(x, Wait) else x for x in waits)


def _at(body: Body, var: Var, turn: Expr) -> Body:
    return map_exprs(body, lambda e: e.subs({var: turn}))
