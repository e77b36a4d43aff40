"""The computations of an iteration of `tile ... online`: running values before and after it, corrections of partial results.

m = max(t) s[t]; l = sum(t) exp(s[t] - m)      -->      before = m
                                                        m = max(m, s[t])                for each t of the tile
                                                        now = m, or 0 while m is -inf   (BEFORE_THE_FIRST)
                                                        l = l * exp(before - now)
                                                        l = l + exp(s[t] - now)         for each t of the tile

EACH_ONCE   lanes that have parts of a statistic, and combine them in each iteration, start it anew: all of them have the value
            before an iteration, which would be combined with itself.

They are computations like others, in this order: lines below tile them, and what lacks an index has a nest of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....dsl.index.expr import Var, as_expr
from ....dsl.support.fast_replace import replace
from ....dsl.types import DType
from ....dsl.values import Apply, Load, Value, with_loads
from ...plan.computations import Computation
from ...plan.derived_names import CorrectionFactor, PreviousValue, RunningValue
from ..leaves.fragment_fit import Digits
from ..reductions.accumulator_computations import CombineInTurn, RunningUpdate
from ..reductions.dependent_reductions import (
    Dependence,
    accumulator_load,
    corrected,
    read_as_number,
    result_at_the_end,
    start_of,
)

Registers = tuple[tuple[str, tuple[str, ...], DType, str], ...]  # what is made there: name, indices, type, and its statistic


@dataclass(frozen=True)
class Update:
    """What stands around the new elements of a statistic, and what that makes in registers."""

    before: tuple[RunningUpdate, ...]
    after: tuple[RunningUpdate, ...]
    registers: Registers


def iteration(
    computations: tuple[Computation, ...],
    chain: tuple[Dependence, ...],
    shown: dict[str, str],
    over: dict[str, Digits],
) -> tuple[tuple[Computation, ...], Registers]:
    """The computations of an iteration in place of those in focus, and what they make in registers.

    shown   the corrections, by the accumulators that they are for
    over    the lanes that have parts of a statistic, where they combine them here (`CombineInTurn.over`)
    """
    statistics = {d.statistic.name for d in chain}
    dependent = {d.reduction.name for d in chain}
    out: list[Computation] = []
    registers: list[tuple[str, tuple[str, ...], DType, str]] = []
    for w in computations:
        if w.name in statistics:
            read = {t for x in computations if x is not w for t in x.reads}
            found = update(w, [d for d in chain if d.statistic is w], shown, read)
            own = _accumulated(w)
            new = _combined(own, over[w.name]) if over.get(w.name) else (own,)
            out += [*found.before, *new, *found.after]
            registers += found.registers
        else:
            out.append(_accumulated(w) if w.name in dependent else w)
    return tuple(out), tuple(registers)


def update(w: Computation, chain: list[Dependence], shown: dict[str, str], read: set[str]) -> Update:
    """Around the new elements of the statistic `w`, or the combination of its parts. `read`: tensors that others read."""
    before = PreviousValue(w.name)
    names, now = _now(w, chain[0], read)
    made = [(x, w.indices, w.value.dtype, w.name) for x in (before, *(n.name for n in names))]
    after = list(names)
    factors: dict[Value, str] = {}
    for d in chain:
        value = with_loads(d.correction, {w.name: now})
        name = factors.get(value)
        if name is None:
            name = factors[value] = CorrectionFactor(d.reduction.name)
            after.append(_update(w, name, value))
            made.append((name, w.indices, value.dtype, w.name))
        factor = Load(name, accumulator_load(w, name).indices, value.dtype)
        after.append(_corrected(d, factor, shown[d.reduction.name]))
    return Update((_update(w, before, accumulator_load(w, w.name)),), tuple(after), tuple(made))


def _accumulated(w: Computation) -> Computation:
    """What it adds alone; its accumulator has the indices that the loops have, fused or not."""
    return replace(w, outputs=(), subscripts=())


def _update(w: Computation, name: str, value: Value, subscripts: tuple[str, ...] = ()) -> RunningUpdate:
    """A value for each element of a statistic. `subscripts`: of a result, as others read it."""
    return RunningUpdate(name, w.indices, value, None, w.extents, span=w.span, fused=w.fused, subscripts=subscripts)


def _combined(w: Computation, over: Digits) -> tuple[Computation, ...]:
    """The new elements of a statistic whose parts lanes combine (EACH_ONCE): the value before them joins afterwards."""
    assert w.reduction is not None
    kind, held, before = w.reduction.kind, accumulator_load(w, w.name), accumulator_load(w, PreviousValue(w.name))
    lanes = CombineInTurn(w.name, w.indices, held, None, w.extents, span=w.span, fused=w.fused, kind=kind, over=over)
    joined = Apply(kind, (held, before), held.dtype.compute)
    return _update(w, w.name, start_of(w)), w, lanes, _update(w, w.name, joined)


def _now(w: Computation, d: Dependence, read: set[str]) -> tuple[list[RunningUpdate], Load]:
    """The results of the statistic that are read, as they are by now, and the load of its value among them."""
    held = accumulator_load(w, w.name)
    plain = next((o for o in w.outputs if o.tensor in read and isinstance(o.value, Load)), None)
    name, at = (plain.tensor, plain.indices) if plain is not None else (RunningValue(w.name), w.indices)
    value = Load(name, tuple(as_expr(Var(i)) for i in at), held.dtype)
    out = [_update(w, name, read_as_number(d, held), at)]
    for o in w.outputs:
        if o.tensor in read and o.tensor != name:
            out.append(_update(w, o.tensor, with_loads(o.value, {w.name: value}), o.indices))
    return out, value


def _corrected(d: Dependence, factor: Load, shown: str) -> RunningUpdate:
    w = d.reduction
    value = corrected(d, accumulator_load(w, w.name), factor)
    return RunningUpdate(w.name, w.indices, value, None, w.extents, span=w.span, fused=w.fused, corrects=w.name, shown=shown)


def at_the_end(d: Dependence) -> RunningUpdate | None:
    """NONE_COUNTED: no number is the result of a row in which there are elements, and none counts."""
    if not d.start.no_number:
        return None
    held, statistic = accumulator_load(d.reduction, d.reduction.name), accumulator_load(d.statistic, d.statistic.name)
    value = result_at_the_end(d, held, statistic)
    w = d.reduction
    return RunningUpdate(w.name, w.indices, value, None, w.extents, span=w.span, fused=w.fused)
