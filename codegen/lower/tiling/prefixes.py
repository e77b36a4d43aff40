"""Prefix reductions: row `i` has the terms of the row before it, and more.

GROWS       one condition of the domain is `j <= i + c`, and no other one has `i`. So the terms of a row are those up to a bound
            that each next row raises by one.
SAME_TERMS  what was added for one row is right for all that follow, or is once it is multiplied by a factor (`decays`).
NEW_TERMS   a tile of rows has those of the rows before it, and the terms from there up to the bound of its last row.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....dsl.errors import UserError
from ....dsl.errors.online import CarryMismatch
from ....dsl.errors.schedule import NotYet
from ....dsl.index.condition_text import conditions_text
from ....dsl.index.expr import Expr, Var, as_expr, maximum, minimum
from ....dsl.source import Span
from ....dsl.support.fast_replace import replace
from ...algebra.follow import DoesNotFollow
from ...plan.computations import Computation, indices_of
from ...plan.derived_names import EarlierRow
from ..spec import ZERO, Range
from .decays import Decay, decay_of

APART = "leave `carry` out"


@dataclass(frozen=True)
class Prefix:
    """`computation` has the terms with `index <= row + shift`, and `others` of its domain hold.

    decay   how the terms depend on the row; None where they do not
    terms   the computation with all that its terms are made of: sums that lines make for each tile are seen through
    """

    computation: Computation
    index: str
    shift: int
    others: tuple[Expr, ...]
    terms: Computation
    decay: Decay | None = None


def prefix_of(w: Computation, row: str, span: Span | None, terms: Computation | None = None) -> Prefix | None:
    """None where no rows are in the domain of the computation. Raises CarryMismatch, or NotYet, for other domains (GROWS)."""
    terms = terms or w
    if w.reduction is None or row not in w.indices:
        return None
    limiting = [c for c in w.domain if _has(c, row)]
    if not limiting:
        return None
    condition = limiting[0]
    reduced = [i for i in w.reduced if _has(condition, i)]
    steps = [condition.coefficient(Var(i)) for i in (row, *reduced)]
    rest = condition - sum((as_expr(Var(i)) * k for i, k in zip((row, *reduced), steps, strict=True)), ZERO)
    text = conditions_text(tuple(limiting))
    if len(limiting) > 1 or len(reduced) != 1 or steps[0] < 0 or any(_has(rest, i) for i in (row, *reduced)):
        raise CarryMismatch(
            f"`{w.result}` has the terms where {text}: they are not those of the row before, and more", span, help=APART
        )
    if steps != [1, -1] or rest.constant is None:
        raise NotYet(f"only domains such as `{reduced[0]} <= {row} + 1` are carried yet, not {text}", span, help=APART)
    others = tuple(c for c in w.domain if c is not condition)
    found = Prefix(w, reduced[0], rest.constant, others, terms)
    return replace(found, decay=_decay(found, row, span)) if row in indices_of(terms.term, terms.alias) else found


def prefix_along(w: Computation) -> tuple[str, Prefix] | None:
    """The first index along which a reduction goes on; None where it does along none."""
    for i in w.indices:
        try:
            found = prefix_of(w, i, None)
        except UserError:
            continue
        if found is not None:
            return i, found
    return None


def _decay(p: Prefix, row: str, span: Span | None) -> Decay:
    """Raises CarryMismatch, or NotYet."""
    w = p.terms
    assert w.reduction is not None
    if w.reduction.kind != "sum":
        raise NotYet(
            f"the terms of `{w.result}` depend on `{row}`, and it is a `{w.reduction.kind}`: only sums are corrected yet",
            span,
            help=APART,
        )
    others = {i: i for i in w.reduced if i != p.index} | {c: fused for c, fused in w.alias.items() if fused in w.reduced}
    extents = dict(w.extents)
    divides = p.shift >= -1 and not p.others and extents[row] == extents[p.index]
    try:
        return decay_of(w.term, row, EarlierRow(row), p.index, others, divides)
    except DoesNotFollow as reason:
        raise CarryMismatch(
            f"what other rows of `{w.result}` added is not what row `{row}` adds, nor a multiple of it: `{w.result}` {reason}",
            span,
            help=APART,
        ) from None


def _has(e: Expr, index: str) -> bool:
    return any(v.name == index for v in e.variables())


def new_terms(rows: Range, whole: Range, shift: int) -> Range:
    """NEW_TERMS: the part of `whole`, the range of the reduced index, that a tile of `rows` adds."""
    count = rows.size.constant
    assert count is not None
    first = rows.base + shift
    end = rows.base + (count + shift)
    if shift > 0:  # the first tile has those before its first row, too
        first = minimum(rows.base * (shift + 1), first)
    elif shift < 0:
        first = maximum(first, 0)
    size = count + max(shift, 0)
    bounds = (whole.size - first, *((end - first,) if shift else ()))
    return replace(whole, base=first, size=as_expr(size), bounds=tuple(b for b in bounds if not b.at_least(size)))
