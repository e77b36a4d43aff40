"""The computations of an iteration of `tile ... carry`: what a tile goes on from, its rows, and what the next one goes on from.

TOTAL     has the terms of all rows of the tile, without the row. What is before the tile belongs to all rows alike; where terms
          depend on the row (`decays`), both belong to one row, and are corrected for others.
STATE     a factor that leaves the sum may have reduced indices of its own: `Q[t, d]` of a linear attention. The total then has
          an element for each of them, and the rows sum these up:

    O[t, e] = sum(s, d where s <= t) Q[t, d] * K[s, d] * V[s, e]
    -->  earlier[t, e] = sum(d) before[e, d] * Q[t, d]
         O[t, e] = earlier[t, e] + (sum(s in the tile, d where s <= t) Q[t, d] * K[s, d] * V[s, e])
         carried[e, d] = before[e, d] + (sum(s in the tile) K[s, d] * V[s, e])

NO_TERMS  a row before the tile that has no terms adds none: nothing is multiplied, as a factor may be infinite. Nor is a total
          of 0 multiplied by a correction, which may overflow where no term of the op does. Where that row is among the terms
          of all later rows, the op multiplies by the same factor itself.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ....dsl.index.expr import Expr, Var, as_expr
from ....dsl.support.fast_replace import replace
from ....dsl.values import Apply, Const, Load, Masked, Value, neutral_value, with_loads
from ...ir.printer import show_value
from ...plan.computations import Computation, Output, indices_of, substitute
from ...plan.derived_names import (
    CarriedTotal,
    EarlierRow,
    EarlierTerms,
    LastRow,
    PreviousValue,
    TermsOfState,
    TileTotal,
    shown_name,
)
from ..lowering_context import LoweringContext
from ..spec import ONE, Range
from ..tiling.decays import Decay
from ..tiling.domain_bounds import has_terms
from ..tiling.prefixes import Prefix
from .accumulator_computations import RunningUpdate, TotalOfTile, as_kind
from .reduction_step import combine_step


@dataclass(frozen=True)
class Carried:
    """The computations for one prefix reduction, in this order, after `start` before the loop.

    earlier   the terms of rows that the tiles before have (STATE), where they are a sum
    held      names in registers, and the indices of each
    """

    start: RunningUpdate
    before: RunningUpdate
    earlier: TotalOfTile | None
    rows: Computation
    total: TotalOfTile
    held: tuple[tuple[str, tuple[str, ...]], ...]


def carried_computations(ctx: LoweringContext, p: Prefix, row: str) -> Carried:
    w = p.terms
    assert w.reduction is not None
    kind, dtype, decay = w.reduction.kind, ctx.dtypes[w.name], p.decay
    state = decay.state if decay is not None else ()
    left = tuple(i for i in w.reduced if i not in state)
    indices = (*(i for i in w.indices if i != row), *state)
    extents = tuple((i, e) for i, e in w.extents if i != row)
    held = tuple((i, e) for i, e in extents if w.alias.get(i, i) not in left)
    carried, before, name = CarriedTotal(w.name), PreviousValue(CarriedTotal(w.name)), TileTotal(w.name)
    earlier, state_terms = EarlierTerms(w.name), TermsOfState(w.name)
    for n in (carried, before, name, earlier, state_terms):
        ctx.dtypes[n] = dtype

    def at(name: str, indices: tuple[str, ...]) -> Load:
        return Load(name, tuple(as_expr(Var(i)) for i in indices), dtype)

    was, own, new = at(before, indices), at(w.name, w.indices), at(name, indices)
    term, of_row, of_total = w.term, combine_step(kind, was, own, dtype), combine_step(kind, was, new, dtype)
    sums: TotalOfTile | None = None
    if decay is not None:
        last = LastRow(row)
        term = decay.inner_at(last)
        some = _some_before(p, decay, left)
        of_total = scaled_before(was, _factors(decay, decay.correction_at(last), None), new, some)
        factors = _factors(decay, decay.correction, decay.outer)
        of_row = scaled_before(was, factors, own, some)
        if state:
            of_row = combine_step(kind, at(earlier, w.indices), own, dtype)
            inside = [f for f in factors if indices_of(f.value, w.alias) & set(state)]
            outside = [f for f in factors if f not in inside]
            whole = at(state_terms, w.indices)
            some_of_row = _some_before(p, decay, w.reduced)
            of_state = masked_before(_product(whole, outside), some_of_row) if outside else whole
            sums = replace(
                as_kind(TotalOfTile, w),
                name=state_terms,
                value=masked_before(_product(was, inside), some),
                reduction=replace(w.reduction, indices=state),
                extents=tuple((i, e) for i, e in w.extents if w.alias.get(i, i) not in left),
                outputs=(Output(earlier, w.indices, of_state),),
            )
    outputs = tuple(replace(o, value=with_loads(o.value, {w.name: of_row})) for o in w.outputs)
    rows = replace(p.computation, outputs=outputs)
    neutral = neutral_value(kind, w.value.dtype)
    value = Masked(p.others, term, neutral, w.value.dtype) if p.others else term
    output = Output(carried, indices, of_total)
    reduction = replace(w.reduction, indices=left)
    total = replace(
        as_kind(TotalOfTile, w),
        name=name, indices=indices, value=value, extents=extents, outputs=(output,), reduction=reduction,
    )  # fmt: skip

    def update(name: str, value: Value) -> RunningUpdate:
        return RunningUpdate(name, indices, value, None, held, span=w.span, fused=w.fused)

    start, previous = update(carried, neutral_value(kind, dtype)), update(before, at(carried, indices))
    registers = [(carried, indices), (before, indices), *([(earlier, w.indices)] if sums is not None else [])]
    return Carried(start, previous, sums, rows, total, tuple(registers))


def rows_around(tile: Range, rows: Expr, row: str) -> dict[str, Range]:
    """The rows that the totals before a tile, and after it, belong to. There are so many `rows` in all. The last tile may have
    fewer than others: nothing goes on from it, so its total may belong to a row that is none."""
    count = tile.size.constant
    assert count is not None
    earlier, last = tile.base - 1, tile.base + (count - 1)
    return {EarlierRow(row): Range(earlier, ONE), LastRow(row): Range(last, ONE, (rows - last,))}


@dataclass(frozen=True)
class Factor:
    """`fn`: what multiplies by it."""

    fn: str
    value: Value


def _factors(decay: Decay, correction: Value | None, outer: Value | None) -> list[Factor]:
    """NO_TERMS"""
    by = (("mul" if decay.overflows_alike else "scaled", correction), ("mul", outer))
    return [Factor(fn, value) for fn, value in by if value is not None]


def _some_before(p: Prefix, decay: Decay, reduced: Collection[str]) -> tuple[Expr, ...]:
    """NO_TERMS: what is at least 0 where the row before the tile has terms; in the first tile there is none."""
    before = as_expr(Var(decay.earlier))
    if decay.overflows_alike:
        return (before,)
    domain = tuple(c.subs({Var(decay.row): before}) for c in p.computation.domain)
    some = has_terms(p.computation, domain, reduced)
    return (before,) if some is None else tuple(dict.fromkeys((before, *some)))


def scaled_before(before: Load, factors: Sequence[Factor], own: Value, some: tuple[Expr, ...]) -> Value:
    """A tile's `own` terms, and those before it times the factors, where there are `some`."""
    dtype = before.dtype.compute
    if not factors:
        return combine_step("sum", own, before, dtype)
    return Masked(some, combine_step("sum", own, _product(before, factors), dtype), own, dtype)


def masked_before(value: Value, some: tuple[Expr, ...]) -> Value:
    """0 where the rows before have no terms."""
    return Masked(some, value, Const(0, value.dtype), value.dtype)


def _product(before: Load, factors: Sequence[Factor]) -> Value:
    scaled: Value = before
    for f in factors:
        scaled = Apply(f.fn, (scaled, f.value), before.dtype.compute)
    return scaled


def shown_corrections(found: list[Prefix], row: str) -> str:
    """`P: from tile to tile, times exp(g[i] - g[i~])`, where `i~` is the last row of the tile before."""
    by: dict[str, list[str]] = {}
    before = {Var(EarlierRow(row)): as_expr(Var(shown_name(EarlierRow(row))))}
    for p in found:
        factor = None if p.decay is None else p.decay.correction
        shown = "" if factor is None else f", times {show_value(substitute(factor, before))}"
        by.setdefault(shown, []).append(p.computation.result)
    return "; ".join(f"{', '.join(names)}: from tile to tile{factor}" for factor, names in by.items())
