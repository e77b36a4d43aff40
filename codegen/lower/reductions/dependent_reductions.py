"""Which reductions in focus follow others in a pass of `tile ... online`, and the corrections of their partial results.

FOLLOWS      a sum reads the result of a maximum or minimum over the same index, and `algebra.follow` has a correction.
OWN_ROW      it reads the statistic of its own row: registers hold no other.
SAME_TERMS   a term outside of a domain that both have changes neither of them. Else each of its conditions is a choice.
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
from ...algebra.first_element import AtTheStart, Followed, NotKnown
from ...algebra.follow import DoesNotFollow, Statistic, correction, is_nonnegative
from ...algebra.limits import INF
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
    statistic, and its `PreviousValue`. `start`: of these, until an element counts. What is at least 0 where there are elements
    is `some`."""

    statistic: Computation
    reduction: Computation
    correction: Value
    start: AtTheStart
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
    _check_alike(out, span)
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
    assert w.reduction is not None
    assert statistic.reduction is not None
    name = statistic.name
    domain = statistic.domain if set(statistic.domain) == set(w.domain) else ()  # SAME_TERMS
    some = has_terms(statistic, domain, statistic.reduced)
    if some is None:
        text = conditions_text(domain)
        raise NotYet(f"which rows have elements with {text} is not known: such a pass is not lowered yet", span, help=APART)
    body, value = (_expanded(focus, copied(x.term if domain else x.value), statistic, w, span) for x in (statistic, w))
    reduced = {*w.reduced, *(c for c, fused in w.alias.items() if fused in w.reduced)}
    known = statistic.reduction.kind in ("sum", "max") and is_nonnegative(body)
    running = Statistic(body, lambda load: replace(load, tensor=PreviousValue(load.tensor)), known)
    try:
        found = correction(w.reduction.kind, value, {name: running}, frozenset(reduced))
    except DoesNotFollow as reason:
        raise OnlineMismatch(
            f"`{w.result}` cannot follow `{statistic.result}` in one pass: it {reason}",
            span,
            help=APART,
        ) from None
    _supported(statistic, w, span)
    names = statistic.result, w.result
    now, before, infinity = statistic.name, PreviousValue(statistic.name), START[statistic.reduction.kind]
    try:
        start = Followed(body, value, found.value, now, before, infinity, names).at_the_start()
    except NotKnown as reason:
        raise NotYet(str(reason), span, help=APART) from None
    return Dependence(statistic, w, found.value, start, some)


def _check_alike(chain: list[Dependence], span: Span | None) -> None:
    """A pass has one value of a statistic, also until an element counts. Raises NotYet."""
    for d in chain:
        for other in chain:
            if d.statistic is other.statistic and d.start.divides and not other.start.divides:
                raise NotYet(
                    f"`{d.reduction.result}` divides by `{d.statistic.result}`, which may be 0, and"
                    f" `{other.reduction.result}` reads that 0: such a pass is not lowered yet",
                    span,
                    help=APART,
                )


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


def accumulator_load(w: Computation, name: str) -> Load:
    """The element of an accumulator, or of what goes along with it, in the computation's own indices."""
    return Load(name, tuple(as_expr(Var(i)) for i in w.indices), w.value.dtype)


def start_of(statistic: Computation) -> Const:
    assert statistic.reduction is not None
    return Const(START[statistic.reduction.kind], statistic.value.dtype)


def read_as_number(d: Dependence, value: Load) -> Value:
    """The value of the statistic as F reads it, until an element counts as well."""
    dtype = value.dtype.compute
    if d.start.divides:
        return Apply("above_zero", (value,), dtype)
    return Apply("where", (Apply("eq", (value, start_of(d.statistic)), TYPES["bool"]), Const(0, dtype), value), dtype)


def corrected(d: Dependence, held: Value, factor: Value) -> Value:
    """A partial result, for another value of the statistic."""
    return Apply("scaled" if d.start.kept else "mul", (held, factor), held.dtype.compute)


def result_at_the_end(d: Dependence, held: Load, statistic: Load) -> Value:
    """NONE_COUNTED: no number is the result of a row in which there are elements, and none counts."""
    dtype = held.dtype.compute
    if d.start.divides:  # 0 / 0 is no number, and all else is itself
        none = Apply("mul", (held, Apply("div", (statistic, statistic), dtype)), dtype)
    else:
        counts = Apply("eq", (statistic, start_of(d.statistic)), TYPES["bool"])
        none = Apply("where", (counts, Const(math.nan, dtype), held), dtype)
    return Masked(d.some, none, held, dtype)
