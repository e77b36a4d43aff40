"""The intermediates that stay in one launch with their readers, so that it is one pass."""

from __future__ import annotations

from ....dsl.op import Op
from ....dsl.values import loads


def kept_intermediates(op: Op) -> frozenset[str]:
    """Intermediates that depend on a reduction, and that others read.

    Of the reductions that one pointwise statement reads at its own indices the last is none: it is the accumulator of what the
    statement computes. Not where the statement reads what is computed after the reduction as well.
    """
    order = {s.target: n for n, s in enumerate(op.statements)}
    inner = {t.name for t in op.tensors if t.role == "intermediate"}
    reads = {s.target: {ld.tensor for ld in loads(s.value)} for s in op.statements}
    reduced = {s.target for s in op.statements if s.reduction is not None}
    dependent = set(reduced)
    for s in op.statements:
        dependent |= {s.target} if not dependent.isdisjoint(reads[s.target]) else set()
    out = set()
    for s in op.statements:
        readers = [x for x in op.statements if s.target in reads[x.target]]
        rides = s.target in reduced and all(
            x.reduction is None
            and x.indices == s.indices
            and s.target == _last(op, reads[x.target] & reduced, x.indices)
            and all(order.get(t, -1) <= order[s.target] for t in reads[x.target])
            for x in readers
        )
        if s.target in inner & dependent and readers and not rides:
            out.add(s.target)
    return frozenset(out)


def _last(op: Op, names: set[str], indices: tuple[str, ...]) -> str:
    """The last of the statements with these names and indices."""
    return next((s.target for s in reversed(op.statements) if s.target in names and s.indices == indices), "")
