"""What statements do to accumulators, for `check_contributions`: which points they add, and of which element."""

from __future__ import annotations

from collections.abc import Sequence

from ....dsl.index.expr import Expr, Var, as_expr
from ....dsl.support.fast_replace import replace
from ....dsl.values import Load, Masked, walk
from ...ir.tile_ir import PIECE, Contribution, Store
from ...plan.computations import Computation, computation_extents
from ...plan.derived_names import CarriedTotal, EarlierTerms, tensor_of
from ..leaves.match_instr import FragmentMap, InstrMatch
from ..spec import Focus, RangeStep
from .accumulator_computations import CountingTerm, ResumeAccumulator, RunningUpdate


def added(
    focus: Focus,
    w: Computation,
    neutral: bool,
    free: Sequence[tuple[str, Expr]] | None = None,
    extents: Sequence[int] | None = None,
) -> Contribution:
    """The points of the focus's element, or of the box that an instruction computes from there on.

    free      the coordinates of the element, where they are not those of the focus
    extents   the extents of the box, by reduced index
    """
    wholes = computation_extents(w)
    boxes = extents or [1] * len(w.reduced)
    reduced = tuple((focus.ranges[i].base, n, wholes[i]) for i, n in zip(w.reduced, boxes, strict=True))
    at = element(focus, w.indices) if free is None else tuple(free)
    padded = any(isinstance(v, Masked) or (isinstance(v, Load) and v.otherwise is not None) for v in walk(w.term))
    domain = w.where if isinstance(w, CountingTerm) else w.domain
    indexed = len(w.accumulators) > 1
    return Contribution(w.result, "add", at, reduced, w.reduced, domain, neutral, padded, indexed=indexed)


def added_by(
    focus: Focus, w: Computation, m: InstrMatch, call: Expr, target: FragmentMap, lane: Expr, neutral: bool
) -> Contribution | None:
    """The box of points that an instruction adds to the element of each of its registers; none where it adds nothing.

    Of `calls` that add their terms together, each is told to add a part of the box of all of them.
    """
    if w.reduction is None:
        return None
    ranges = dict(focus.ranges)
    for i, extent, e in target.maps:
        subs = {v: lane if v.name == "lane" else as_expr(PIECE if target.registers > 1 else 0) for v in e.variables()}
        ranges[i] = ranges[i].split(1, RangeStep(e.subs(subs), as_expr(extent), "fragment"))
    free = element(replace(focus, ranges=ranges), w.indices)
    extents = {i: m.extent(i) for i in w.reduced}
    if m.order is not None:
        i = m.order.index
        extents[i] //= m.calls
        part = focus.ranges[i].split(extents[i], RangeStep(call, as_expr(m.calls), None))
        focus = focus.with_range(i, part)
    return added(focus, w, neutral, free, list(extents.values()))


def with_value(steps: Sequence[Store], contribution: Contribution) -> list[Store]:
    """Steps of a reduction: of argmax and argmin the index's first, then the value's."""
    first, *others = steps
    value = replace(contribution, role=f"{contribution.role} value")
    return [replace(first, contribution=contribution), *(replace(s, contribution=value) for s in others)]


def element(focus: Focus, indices: Sequence[str]) -> tuple[tuple[str, Expr], ...]:
    binding = focus.binding
    return tuple((i, binding[Var(i)]) for i in dict.fromkeys(indices))


def stored(focus: Focus, w: Computation, indices: Sequence[str]) -> Contribution:
    """Of a store that is no step of a reduction: it resumes or scales an accumulator, or stores what it reads.

    indices   of the element that is stored, fused ones in place of their components
    """
    if isinstance(w, ResumeAccumulator):
        return Contribution(w.result, "resume")
    if isinstance(w.name, CarriedTotal | EarlierTerms):
        return Contribution(tensor_of(w.name), "carry")
    if isinstance(w, RunningUpdate) and any(isinstance(v, Load) and v.tensor == w.name for v in walk(w.value)):
        return Contribution(w.result, "scale")
    parts = tuple(i for i in indices if i not in w.indices)
    return Contribution(w.result, "result", element(focus, indices), parts=parts)
