"""Sums of one launch that differ in one operand, seen as one sum whose result has those of all of them side by side.

    g[m, h] = sum(k) X[m, k] * Wg[k, h]
    u[m, h] = sum(k) X[m, k] * Wu[k, h]      -->     [g u][m, h2] = sum(k) X[m, k] * [Wg Wu][k, h2]      h2 < 2*F
    H[m, h] = silu(g[m, h]) * u[m, h]

So the models of one contraction know what siblings take: X is read once, and accumulators are as many as for a tile of all.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....dsl.index.expr import Expr
from ....dsl.op import Op
from ....dsl.support.fast_replace import replace
from ....dsl.values import Load, Value, loads, rename_loads, transform
from ...plan.computations import Computation, plain_index


@dataclass(frozen=True)
class Siblings:
    """`members` in the order of their statements. `operands`: the one of each that the others do not have. `index`: of these
    operands and not of the others, along which results lie side by side. `whole`: all as one computation."""

    members: tuple[Computation, ...]
    operands: tuple[str, ...]
    index: str
    whole: Computation

    @property
    def count(self) -> int:
        return len(self.members)


def siblings_of(computations: tuple[Computation, ...]) -> Siblings | None:
    """None: the computations of a launch are no siblings, or need not be together."""
    *others, last = computations
    if not others or any(w.reduction is None or w.reduction.kind != "sum" or w.fused or w.domain for w in computations):
        return None
    if any((w.indices, w.reduced) != (last.indices, last.reduced) or dict(w.extents) != dict(last.extents) for w in others):
        return None
    own = _own_operands(computations)
    if own is None or not _meet_at_the_end(computations):
        return None
    shared = {i for ld in loads(last.value) if ld.tensor != own[-1] for e in ld.indices for i in _names(e)}
    mine = [ld.indices for ld in loads(last.value) if ld.tensor == own[-1]]
    free = [i for e in mine[0] if (i := plain_index(e)) in last.indices and i not in shared]
    if not free:
        return None
    index = free[-1]
    extents = tuple((i, e * len(computations) if i == index else e) for i, e in last.extents)
    results = {t for w in others for t in w.targets}
    outputs = tuple(replace(o, value=_of_one_result(o.value, results, last)) for o in last.outputs)
    return Siblings(computations, own, index, replace(last, extents=extents, outputs=outputs))


def _of_one_result(value: Value, results: set[str], last: Computation) -> Value:
    """A write-back, where what it reads of other results is the last one: they are in registers alike."""
    return transform(value, lambda v: replace(v, tensor=last.name) if isinstance(v, Load) and v.tensor in results else None)


def _own_operands(computations: tuple[Computation, ...]) -> tuple[str, ...] | None:
    """The operand of each that the others do not have, where they are alike but for these, and share one."""
    tensors = [list(dict.fromkeys(ld.tensor for ld in loads(w.value))) for w in computations]
    last = tensors[-1]
    if len({len(t) for t in tensors}) != 1 or len(last) < 2:
        return None
    differ = [n for n in range(len(last)) if any(t[n] != last[n] for t in tensors)]
    if len(differ) != 1:
        return None
    own = tuple(t[differ[0]] for t in tensors)
    alike = all(rename_loads(w.value, {t: own[-1]}) == computations[-1].value for w, t in zip(computations, own, strict=True))
    return own if alike and len({*own}) == len(own) else None


def _meet_at_the_end(computations: tuple[Computation, ...]) -> bool:
    """Whether results are read where others are written back alone, each at its own element."""
    results = {t for w in computations for t in w.targets}
    read: list[Load] = []
    for w in computations:
        if any(ld.tensor in results for ld in loads(w.value)):
            return False
        read += [ld for o in w.outputs for ld in loads(o.value) if ld.tensor in results]
    return bool(read) and all(tuple(map(plain_index, ld.indices)) == computations[-1].indices for ld in read)


def mergeable_results(op: Op, launches: list[tuple[Computation, ...]]) -> list[frozenset[str]]:
    """For launches of siblings, the intermediates that they would leave to the last one of them: kept there, they are not in
    memory. The launches are each of one reduction."""
    inner = {t.name for t in op.tensors if t.role == "intermediate"}
    single = {t: g[0] for g in launches if len(g) == 1 and g[0].reduction is not None for t in g[0].targets}
    readers: dict[str, set[str]] = {}
    for w in (w for g in launches for w in g):
        for t in w.reads:
            readers.setdefault(t, set()).add(w.name)
    out = []
    for g in launches:
        if len(g) != 1 or g[0].reduction is None:
            continue
        whole: set[str] = set()
        todo = [g[0]]
        while todo:
            w = todo.pop()
            read = {ld.tensor for o in w.outputs for ld in loads(o.value)} & single.keys() & inner
            found = {t for t in read if single[t].targets == (t,) and readers[t] == {w.name}} - whole
            whole |= found
            todo += [single[t] for t in found]
        members = tuple(w for h in launches for w in h if not whole.isdisjoint(w.targets))
        if whole and siblings_of((*members, g[0])) is not None:
            out.append(frozenset(whole))
    return [x for x in out if not any(x < y for y in out)]


def _names(e: Expr) -> set[str]:
    return {v.name for v in e.variables()}
