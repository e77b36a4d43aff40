"""The parts of an op that may be one pass: the chain around a statistic of rows, by itself or between other statements.

    q[h, i, d] = f16(sum(e) f32(X[i, e]) * f32(W[e, h, d]))     before it: a launch of its own
    s[h, i, t] = sum(d) f32(q[h, i, d]) * f32(k[h, t, d])
    m[h, i] = max(t) s[h, i, t]                                 the statistic: rows `h, i`, key `t`
    ...
    Y[i, e] = sum(h, d) f32(o[h, i, d]) * f32(V[h, d, e])       after it

A chain is an op like any other, whose inputs others compute. So what is asked of an op can be asked of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....dsl.op import Op, Statement
from ....dsl.support.fast_replace import replace
from ....dsl.values import loads
from ...plan.computations import Computation, accumulating
from ...plan.group_launches import CircularLaunches, group_launches
from .find_pass import one_pass_of
from .kept_intermediates import kept_intermediates


def chains_of(op: Op) -> Iterator[Op]:
    """The op itself, then each part of it that is the chain of a statistic."""
    yield op
    for s in op.statements:
        statistic = s.reduction is not None and s.reduction.kind in ("max", "min") and len(s.reduction.indices) == 1
        if statistic and s.indices:
            members = _around(op, s)
            if 1 < len(members) < len(op.statements):
                yield _part(op, members)


def pass_in_one_launch(op: Op) -> tuple[Computation, ...] | None:
    """Of the op, or of a chain in it, the only launch with reductions, if that is a pass, which keeps all intermediates that
    depend on a reduction."""
    for part in chains_of(op):
        kept = kept_intermediates(part)
        found = together_in_launch(part, kept, frozenset()) if kept else None
        if found is not None and one_pass_of(found) is not None:
            return found
    return None


def ends_of_chains(op: Op, kept: frozenset[str]) -> frozenset[str]:
    """What is computed of each element and stored, because it is an operand of a chain with these intermediates, or its result:
    a launch that others of its rows are in as well would be none of a pass."""
    pointwise = {s.target for s in op.statements if s.reduction is None and op.tensor(s.target).role == "intermediate"}
    found: set[str] = set()
    for part in chains_of(op) if kept else ():
        mine = kept_intermediates(part)
        found |= {t.name for t in (*part.inputs, *part.outputs)} if mine and mine <= kept else set()
    return frozenset(pointwise & found)


def together_in_launch(op: Op, kept: frozenset[str], apart: frozenset[str]) -> tuple[Computation, ...] | None:
    """The only launch with reductions, where those intermediates are kept in it."""
    try:
        groups = group_launches(op, kept, apart)
    except CircularLaunches:
        return None
    reducing = [g for g in groups if any(w.reduction is not None for w in g)]
    return tuple(map(accumulating, reducing[0])) if len(reducing) == 1 else None


def _around(op: Op, statistic: Statement) -> dict[str, Statement]:
    """The statements of its chain, by target: what it is computed of for each row and key, and what follows it row by row."""
    assert statistic.reduction is not None
    rows, (key,) = {*statistic.indices}, statistic.reduction.indices
    reads = {s.target: {ld.tensor for ld in loads(s.value)} for s in op.statements}
    found = {statistic.target: statistic}
    for s in reversed(op.statements):
        if {*s.indices} == {*rows, key} and any(s.target in reads[t] for t in found):
            found[s.target] = s
    first = next(i for i, s in enumerate(op.statements) if s.target in found)
    before = {t.name for t in op.inputs} | {s.target for s in op.statements[:first]}
    for s in op.statements:
        mine = [found[t] for t in reads[s.target] if t in found]
        here = {*s.indices} <= {*rows, key}
        if not mine or s.target in found or any(not {*x.indices} <= {*rows, key} for x in mine if here):
            continue  # what reads a product of the chain follows it
        over = s.reduction is not None and s.reduction.indices == (key,) and rows <= {*s.indices}
        value = {*s.indices} == {*rows, key}
        finish = s.reduction is None and ({*s.indices} <= rows or any(x.reduction and x.indices == s.indices for x in mine))
        finish = finish and reads[s.target] <= before | found.keys()  # else it follows others as well
        if over or value or finish:
            found[s.target] = s
    return found


def _part(op: Op, members: dict[str, Statement]) -> Op:
    """The op of these statements alone: what others compute is an input, and what others read an output."""
    read = {ld.tensor for s in members.values() for ld in loads(s.value)}
    others = {ld.tensor for s in op.statements if s.target not in members for ld in loads(s.value)}
    tensors = []
    for t in op.tensors:
        if t.name in members:
            tensors.append(replace(t, role="output") if t.name in others else t)
        elif t.name in read:
            tensors.append(replace(t, role="input"))
    statements = tuple(s for s in op.statements if s.target in members)
    return replace(op, tensors=tuple(tensors), statements=statements)
