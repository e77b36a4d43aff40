"""Sums that terms of a prefix reduction read, and that lines make for each tile: `A` of a linear attention in chunks.

A[t, s] = sum(d) Q[t, d] * K[s, d]              -->     the rows of a tile read A, the total has the terms of
O[t, e] = sum(s where s <= t) A[t, s] * V[s, e]         sum(s, d where s <= t) Q[t, d] * K[s, d] * V[s, e]

The product of a sum is the sum of products, so both have the same terms. A tile has few elements of A, and no other rows read
them: a state goes on (`carried_totals`).

FEW   the tile has the elements that its own terms read, so nothing else may read them, and they are no output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....dsl.errors.schedule import NotYet
from ....dsl.op import Reduction
from ....dsl.support.fast_replace import replace
from ....dsl.values import Apply, Load, Masked, Value, copied, loads, neutral_value, transform
from ...ir.schedule_tree import Tile
from ...plan.computations import Computation
from ...schedule.build_tree import modifier_span
from ..intermediates.readers import is_read_elsewhere, reads_own_element
from ..spec import Focus

if TYPE_CHECKING:
    from ..lower_schedule import Lowering


def scores_of(low: Lowering, focus: Focus, tile: Tile, w: Computation) -> list[Computation]:
    """The sums that lines below the tile keep, and that are a factor of the terms of a sum, once. Raises NotYet."""
    read = {t for t in w.reads if t in tile.below.staged}
    found = [x for x in focus.computations if not read.isdisjoint(x.targets) and _is_expandable(w, x)]
    for x in found:
        both = next((i for i in x.reduced if i in w.all_indices), None)
        if both is not None:
            raise NotYet(
                f"`{x.result}` is a sum over `{both}`, which `{w.result}` has as well: what goes on has elements for both",
                modifier_span(tile, "carry"),
                help=f"give the index of `{x.result}` another name",
            )
    return [x for x in found if _is_read_here_alone(low, focus, w, x)]


def scores_below(low: Lowering, focus: Focus, tile: Tile) -> frozenset[str]:
    """The names of the scores of tiles below: they are made there, also where tiles above are of indices that they lack."""
    carrying = [x for x in tile.below.path() if isinstance(x, Tile) and x.carry]
    sums = [(x, w) for x in carrying for w in focus.computations if w.domain and x.axes[0].index in w.indices]
    return frozenset(v.name for x, w in sums for v in scores_of(low, focus, x, w))


def _is_read_here_alone(low: Lowering, focus: Focus, w: Computation, x: Computation) -> bool:
    """FEW"""
    outputs = {b.name for b in low.ctx.buffers if b.kind == "output"}
    others = any(y is not w and not y.reads.isdisjoint(x.targets) for y in focus.computations)
    return not others and outputs.isdisjoint(x.targets) and not any(is_read_elsewhere(low, focus, t) for t in x.targets)


def with_scores(w: Computation, scores: list[Computation]) -> Computation:
    """The sum with the terms of `scores` in place of these."""
    assert w.reduction is not None
    term = copied(w.term)
    for x in scores:
        values = {o.tensor: copied(x.term) for o in x.outputs}
        term = transform(term, lambda v, values=values: values.get(v.tensor) if isinstance(v, Load) else None)
    extents = dict(pair for x in (*scores, w) for pair in x.extents)
    reduced = tuple(dict.fromkeys(i for x in (w, *scores) for i in x.reduced))
    value = Masked(w.domain, term, neutral_value(w.reduction.kind, term.dtype), term.dtype) if w.domain else term
    return replace(w, value=value, reduction=Reduction(w.reduction.kind, reduced), extents=tuple(extents.items()))


def _is_expandable(w: Computation, x: Computation) -> bool:
    """Whether terms of `w` are products with `x`. A rounded sum is no sum."""
    sums = all(r.reduction is not None and r.reduction.kind == "sum" for r in (w, x))
    plain = all(o.value == Load(x.name, o.value.indices, w.value.dtype) for o in x.outputs if isinstance(o.value, Load))
    if not sums or not plain or not all(isinstance(o.value, Load) for o in x.outputs) or x.fused or w.fused:
        return False
    return (
        set(x.domain) <= set(w.domain)
        and _is_factor(w.term, frozenset(x.targets))
        and all(reads_own_element(x, ld) for ld in _loads_of(w, x))
    )


def _loads_of(w: Computation, x: Computation) -> list[Load]:
    return [ld for ld in loads(w.term) if ld.tensor in x.targets]


def _is_factor(v: Value, tensors: frozenset[str]) -> bool:
    match v:
        case Load(tensor=tensor):
            return tensor in tensors
        case Apply(fn="mul", args=(u, y)):
            return [_is_factor(z, tensors) or any(ld.tensor in tensors for ld in loads(z)) for z in (u, y)].count(
                True
            ) == 1 and (_is_factor(u, tensors) or _is_factor(y, tensors))
        case Apply(fn="div", args=(u, y)):
            return _is_factor(u, tensors) and all(ld.tensor not in tensors for ld in loads(y))
    return False
