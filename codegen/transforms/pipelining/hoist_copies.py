"""A loop-invariant copy is made once, before the loop.

for n: [alloc S: [copy k to S; use S, n]]   -->   alloc S: [copy k to S; for n: use S, n]      where it rotates over k
"""

from __future__ import annotations

from ....dsl.index.expr import Var
from ....dsl.support.fast_replace import replace
from ...ir.tile_ir import Alloc, For, Let, Stmt
from ...ir.tile_visitors import map_bodies, variables
from .copy_batches import Body, copy_of, is_rotating
from .split_copies import prune_empty


def hoist_copies(body: Body, var: Var) -> Body:
    """The body of the loop over `var`, copies that rotate over it outside of the loops that they do not depend on."""
    out: list[Stmt] = []
    for s in body:
        s = map_bodies(s, lambda inner: hoist_copies(inner, var))
        out.append(_out_of(s, var) if isinstance(s, For) else s)
    return tuple(out)


def _out_of(s: For, var: Var) -> Stmt:
    """The loop, in what rotates over `var` if that stands right inside it."""
    n = next((n for n, x in enumerate(s.body) if not isinstance(x, Let)), len(s.body))
    first = s.body[n] if n < len(s.body) else None
    if not isinstance(first, Alloc) or not is_rotating(first, var):
        return s
    copy = prune_empty((*s.body[:n], *copy_of(first)))
    if s.var in variables(copy):
        return s
    assert first.staging is not None
    rest = (*s.body[:n], *first.body[first.staging.copy :], *s.body[n + 1 :])
    inner = _out_of(replace(s, body=rest), var)
    return replace(first, body=(*copy, inner), staging=replace(first.staging, copy=len(copy)))
