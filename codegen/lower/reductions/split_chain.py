"""Reductions of one pass (`online`) whose parts a later launch combines: `tile t: 1024 -> block online by workspace`.

m = max(t) s[t]; l = sum(t) exp(s[t] - m)      -->      each block, of its part x:  M[x] = m;  L[x] = l
                                                        the launch that follows:    m = max(x) M[x]
                                                                                    l = sum(x) L[x] * exp(M[x] - m)

OWN_VALUE        what depends on a statistic reads that of its own part.
SAME_CORRECTION  the factor of a part is the correction of the pass: from the statistic of the part to that of all.
NONE_COUNTED     as in a pass, what reads the statistic of all reads 0 where nothing counted, and such a row gets the op's
                 result. A part without elements that count has the identity of each reduction, and its factor is 0.
FINISHED_LATER   what is computed of the results of a row is computed in the launch that follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....dsl.index.expr import Var, as_expr
from ....dsl.support.fast_replace import replace
from ....dsl.values import Cast, Load, Value, loads, transform, with_loads
from ...plan.computations import Computation, Output
from ...plan.derived_names import PreviousValue
from ..lowering_context import LoweringContext
from .dependent_reductions import Dependence, accumulator_load, corrected, read_as_number, result_at_the_end


def with_own_values(
    computations: Sequence[Computation], before: Mapping[str, Computation], parts: Mapping[str, Load]
) -> tuple[Computation, ...]:
    """OWN_VALUE: the computations, where those that read a statistic read what its part stores.

    before   statistics as they were before they were split, by name
    parts    the element that each of these stores, in its own indices
    """
    stored = {o.tensor: (w, o.value) for w in before.values() for o in w.outputs}

    def step(v: Value) -> Value | None:
        if not isinstance(v, Load) or v.tensor not in stored:
            return None
        w, value = stored[v.tensor]
        return with_loads(value, {w.name: parts[w.name]})

    out = []
    for w in computations:
        read = not stored.keys().isdisjoint(ld.tensor for ld in loads(w.value))
        out.append(replace(w, value=transform(w.value, step)) if read else w)
    return tuple(out)


def combined_chain(
    ctx: LoweringContext, chain: Sequence[Dependence], plain: Mapping[str, Computation], later: Sequence[Computation]
) -> tuple[Computation, ...]:
    """SAME_CORRECTION: the computations of the launch that combines the parts.

    plain   those of reductions that do not depend on each other, by the names of the accumulators that have parts
    later   FINISHED_LATER
    """
    done = dict(plain)
    whole: dict[str, Load] = {}
    for d in chain:
        name = d.statistic.name
        if name not in whole:
            done[name], whole[name] = _with_whole(ctx, done[name])
        done[d.reduction.name] = _corrected(d, plain[name], done[d.reduction.name], whole[name])
    return (*done.values(), *later)


def _with_whole(ctx: LoweringContext, w: Computation) -> tuple[Computation, Load]:
    """The statistic of all parts, and the element of a tensor that is its value."""
    own = next((o for o in w.outputs if isinstance(o.value, Load)), None)
    if own is None:
        name, dtype = ctx.fresh(f"{w.result}_whole"), w.value.dtype
        ctx.dtypes[name] = dtype
        own = Output(name, w.indices, accumulator_load(w, w.name))
        w = replace(w, outputs=(own, *w.outputs))
    return w, Load(own.tensor, tuple(as_expr(Var(i)) for i in own.indices), w.value.dtype)


def _corrected(d: Dependence, statistic: Computation, w: Computation, whole: Load) -> Computation:
    names = {PreviousValue(d.statistic.name): statistic.value, d.statistic.name: read_as_number(d, whole)}
    value = corrected(d, w.value, with_loads(d.correction, names))
    value = value if value.dtype == w.value.dtype else Cast(value, w.value.dtype)
    return replace(w, value=value, outputs=_at_the_end(d, w, whole) if d.start.no_number else w.outputs)


def _at_the_end(d: Dependence, w: Computation, whole: Load) -> tuple[Output, ...]:
    """NONE_COUNTED"""
    held = accumulator_load(w, w.name)
    last = result_at_the_end(d, held, whole)
    last = last if last.dtype == held.dtype else Cast(last, held.dtype)
    return tuple(replace(o, value=with_loads(o.value, {w.name: last})) for o in w.outputs)
