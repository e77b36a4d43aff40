"""Which reductions in focus follow others in a pass of `tile ... online`, and the corrections of their partial results.

FOLLOWS            a sum reads the result of a maximum or minimum over the same index, and `algebra.follow` has a correction.
DEFINED            the correction is a number for all finite values: it does not divide by one that may be 0.
OWN_ROW            it reads the statistic of its own row: registers hold no other.
BEFORE_THE_FIRST   until an element counts, the statistic is the infinity that it starts from, where F has no value. F is
                   evaluated at 0 in its place. What it adds is 0 then, and so is the correction when the first element arrives
                   that counts. (With 0 in place of the previous value too, the correction might be infinite.)
NO_NUMBER          where an element makes the statistic infinite or no number, so does the correction of all later partial
                   results. The op has the same result only if that element adds what is no number.
NONE_COUNTED       if none counts in the whole range, the result is that of the op: F at the infinity, which is no number, or 0.
SAME_TERMS         a term outside of a domain that both have changes neither of them. Else each of its conditions is a choice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ....dsl.errors.online import OnlineMismatch
from ....dsl.errors.schedule import NotYet
from ....dsl.index.condition_text import conditions_text
from ....dsl.index.expr import Expr, Var, as_expr
from ....dsl.source import Span
from ....dsl.support.fast_replace import replace
from ....dsl.types import TYPES
from ....dsl.values import Apply, Const, Load, Masked, Value, copied, loads, transform
from ...algebra.follow import DoesNotFollow, Statistic, correction, is_nonnegative
from ...algebra.limits import INF, Kind, Limit, limit
from ...plan.computations import Computation
from ...plan.derived_names import PreviousValue, tensor_of
from ..intermediates.readers import reads_own_element
from ..spec import Focus
from ..tiling.domain_bounds import has_terms

APART = "leave `online` out: each of them gets a pass of its own"
START = {"max": -INF, "min": INF}  # what the statistics start from, which have one that a float may be


@dataclass(frozen=True)
class Dependence:
    """`reduction` follows `statistic`: its partial result is multiplied by `correction`, which loads the accumulator of the
    statistic, and its `PreviousValue`. `no_number`: that is its result where no element counts for the statistic, and there are
    elements: what is at least 0 where there are some is `some`."""

    statistic: Computation
    reduction: Computation
    correction: Value
    no_number: bool
    some: tuple[Expr, ...]


def dependences(focus: Focus, index: str, span: Span | None) -> tuple[Dependence, ...]:
    """Of the reductions over `index` in focus, in their order. Raises OnlineMismatch or NotYet at `span`."""
    reductions = [w for w in focus.computations if w.reduction is not None and index in w.reduced]
    out: list[Dependence] = []
    for w in reductions:
        statistics = [a for a in reductions if a is not w and depends(focus, w, a)]
        if not statistics:
            continue
        if len(statistics) > 1 or any(d.reduction is statistics[0] for d in out):
            names = " and ".join(f"`{a.result}`" for a in statistics)
            which = "reads" if len(statistics) > 1 else "follows another running value itself, and is read by"
            subject = (f"`{w.result}`", names) if len(statistics) > 1 else (names, f"`{w.result}`")
            raise NotYet(
                f"{subject[0]} {which} {subject[1]} in the same pass: chains of running values are not lowered yet",
                span,
                help=APART,
            )
        out.append(_dependence(focus, statistics[0], w, span))
    return tuple(out)


def depends(focus: Focus, w: Computation, statistic: Computation) -> bool:
    """Whether the value of a computation reads what the statistic makes, perhaps through pointwise computations in focus."""
    made = {t: x for x in focus.computations if x.reduction is None for t in x.targets}
    read = {ld.tensor for ld in loads(w.value)}
    return any(t in statistic.targets or (t in made and depends(focus, made[t], statistic)) for t in read)


def readers_of(focus: Focus, statistic: Computation) -> Iterator[Computation]:
    """The pointwise computations in focus that depend on a statistic."""
    return (w for w in focus.computations if w.reduction is None and depends(focus, w, statistic))


def _dependence(focus: Focus, statistic: Computation, w: Computation, span: Span | None) -> Dependence:
    name = statistic.name
    domain = statistic.domain if set(statistic.domain) == set(w.domain) else ()  # SAME_TERMS
    some = has_terms(statistic, domain, statistic.reduced)
    if some is None:
        text = conditions_text(domain)
        raise NotYet(f"which rows have elements with {text} is not known: such a pass is not lowered yet", span, help=APART)
    body, value = (_expanded(focus, copied(x.term if domain else x.value), statistic, w, span) for x in (statistic, w))
    reduced = {*w.reduced, *(c for c, fused in w.alias.items() if fused in w.reduced)}
    known = statistic.reduction is not None and statistic.reduction.kind in ("sum", "max") and is_nonnegative(body)
    running = Statistic(body, lambda load: replace(load, tensor=PreviousValue(load.tensor)), known)
    assert w.reduction is not None
    try:
        found = correction(w.reduction.kind, value, {name: running}, frozenset(reduced))
    except DoesNotFollow as reason:
        raise OnlineMismatch(
            f"`{w.result}` cannot follow `{statistic.result}` in one pass: it {reason}",
            span,
            help=APART,
        ) from None
    _supported(statistic, w, span)
    return Dependence(statistic, w, found.value, _at_the_start(statistic, w, body, value, found.value, span), some)


def _supported(statistic: Computation, w: Computation, span: Span | None) -> None:
    """Raises NotYet."""
    for x, kinds, role in ((statistic, ("max", "min"), "a running value"), (w, ("sum",), "what follows a running value")):
        assert x.reduction is not None
        if x.reduction.kind not in kinds or x.value.dtype.kind != "float":
            what = f"a `{x.reduction.kind}` of {x.value.dtype}"
            raise NotYet(f"`{x.result}` is {what}: as {role} it is not lowered yet", span, help=APART)
        if any(o.atomic for o in x.outputs):
            raise NotYet(f"`{x.result}` is combined by atomics, and cannot be corrected", span, help=APART)
    for o in statistic.outputs:
        if o.tensor in w.reads and o.value.dtype != statistic.value.dtype:
            raise NotYet(f"`{o.tensor}` is rounded: as a running value it is not lowered yet", span, help=APART)


def _expanded(focus: Focus, value: Value, statistic: Computation, w: Computation, span: Span | None) -> Value:
    """The value with what it reads of the statistic as loads of its accumulator, seen through pointwise computations."""
    stored = {o.tensor: o.value for o in statistic.outputs}
    made = {t: x for x in readers_of(focus, statistic) for t in x.targets}

    def step(v: Value) -> Value | None:
        if not isinstance(v, Load) or (v.tensor not in stored and v.tensor not in made):
            return None
        maker = made.get(v.tensor, statistic)
        if not reads_own_element(maker, v):  # OWN_ROW
            at = ", ".join(map(str, v.indices))
            raise OnlineMismatch(
                f"`{w.result}` cannot follow `{statistic.result}` in one pass: it reads `{tensor_of(v.tensor)}[{at}]`,"
                " and a pass has the values of its own row",
                span,
                help=APART,
            )
        return stored[v.tensor] if v.tensor in stored else _expanded(focus, copied(maker.value), statistic, w, span)

    return transform(value, step)


def _at_the_start(statistic: Computation, w: Computation, body: Value, value: Value, factor: Value, span: Span | None) -> bool:
    """DEFINED, BEFORE_THE_FIRST, NO_NUMBER and NONE_COUNTED: whether the result is no number where none counts.

    Raises NotYet where something else may happen.
    """
    assert statistic.reduction is not None
    start = START[statistic.reduction.kind]

    def at(v: Value, now: Limit, before: Limit = start, element: Limit = start) -> Limit:
        def known(x: Value) -> Limit | None:
            if x == body:
                return element
            if isinstance(x, Load) and x.tensor in (statistic.name, PreviousValue(statistic.name)):
                return now if x.tensor == statistic.name else before
            return None

        return limit(v, known)

    if at(factor, Kind.FINITE, Kind.FINITE) is Kind.ANY:  # DEFINED
        raise NotYet(
            f"the correction of `{w.result}` is not known to be a number for each value of `{statistic.result}`",
            span,
            help=APART,
        )
    added = (at(value, 0.0), at(value, Kind.FINITE), at(factor, Kind.FINITE), at(factor, 0.0))
    for special in (math.nan, -start):  # NO_NUMBER
        if _may_be_number(at(value, special, special, special)) and not at(factor, special, special) == 1.0:
            raise NotYet(
                f"an element that makes `{statistic.result}` {special} is not known to make `{w.result}` nan, as its correction"
                " does",
                span,
                help=APART,
            )
    whole = at(value, start)
    none = isinstance(whole, float) and (math.isnan(whole) or whole == 0)
    if any(x != 0.0 for x in added) or not none:
        raise NotYet(
            f"an element that does not count for `{statistic.result}` ({start}) is not known to add 0 to `{w.result}`",
            span,
            help=APART,
        )
    return math.isnan(whole) if isinstance(whole, float) else False


def _may_be_number(x: Limit) -> bool:
    return not (isinstance(x, float) and math.isnan(x))


def accumulator_load(w: Computation, name: str) -> Load:
    """The element of an accumulator, or of what goes along with it, in the computation's own indices."""
    return Load(name, tuple(as_expr(Var(i)) for i in w.indices), w.value.dtype)


def start_of(statistic: Computation) -> Const:
    assert statistic.reduction is not None
    return Const(START[statistic.reduction.kind], statistic.value.dtype)


def none_counts(statistic: Computation, value: Load) -> Value:
    """Whether no element counted for this value of the statistic."""
    return Apply("eq", (value, start_of(statistic)), TYPES["bool"])


def read_as_number(statistic: Computation, value: Load) -> Value:
    """BEFORE_THE_FIRST: the value of the statistic as F reads it."""
    dtype = value.dtype.compute
    return Apply("where", (none_counts(statistic, value), Const(0, dtype), value), dtype)


def result_at_the_end(d: Dependence, held: Load, statistic: Load) -> Value:
    """NONE_COUNTED: no number is the result of a row in which there are elements, and none counts."""
    dtype = held.dtype.compute
    none = Apply("where", (none_counts(d.statistic, statistic), Const(math.nan, dtype), held), dtype)
    return Masked(d.some, none, held, dtype)
