"""What a schedule for an op may name: its indices and how far they reach, what can be kept, what can be moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from andiron.dsl.op import Op, Statement
from andiron.dsl.values import Masked, loads


@dataclass
class Facts:
    """`extents`: of each index, None where it is open. `results`: what `keep` may name -> its indices; `moved`: what `move` may
    name -> the indices in its subscripts, `plain`: those of `moved` whose axes are all plain, in the order of the axes."""

    free: tuple[str, ...]
    reduced: tuple[str, ...]
    extents: dict[str, int | None]
    results: dict[str, tuple[str, ...]]
    moved: dict[str, tuple[str, ...]]
    plain: dict[str, tuple[str, ...]]
    pointwise: tuple[str, ...]
    outputs: tuple[str, ...]
    nests: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()  # free and reduced indices of each statement
    kinds: Mapping[str, str] = field(default_factory=dict)  # of reductions
    pairs: tuple[tuple[str, str], ...] = ()  # extremes, and sums that read them
    prefixes: tuple[tuple[str, str, str], ...] = ()  # results, their rows, and the indices that have a bound by the row
    main: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())  # the nest that the lines are for; empty: all of them
    kept: tuple[str, ...] = ()  # what lines will keep
    staged: tuple[str, ...] = ()  # and move

    @property
    def indices(self) -> tuple[str, ...]:
        return tuple(self.extents)

    def over(self, name: str) -> tuple[str, ...]:
        """The reduced indices of what computes a tensor."""
        return next((r for (_, r), t in zip(self.nests, self.results, strict=False) if t == name), ())


def facts_of(op: Op, bounds: Mapping[str, int]) -> Facts:
    """`bounds`: the largest value of sizes that are open but bounded."""
    extents: dict[str, int | None] = {}
    moved: dict[str, list[str]] = {}
    plain: dict[str, set[tuple[str, ...]]] = {}
    for s in op.statements:
        for i, e in s.ranges:
            name = str(e)
            extents[i] = e.constant if e.constant is not None else bounds.get(name)
        for ld in loads(s.value):
            names = [str(v.name) for e in ld.indices for v in e.variables()]
            moved.setdefault(ld.tensor, []).extend(n for n in names if n in dict(s.ranges))
            plain.setdefault(ld.tensor, set()).add(tuple(map(str, ld.indices)))
    reduced = {i for s in op.statements if s.reduction for i in s.reduction.indices}
    axes = {n: next(iter(forms)) for n, forms in plain.items() if len(forms) == 1}
    inner = {t.name for t in op.tensors if t.role == "intermediate"}
    return Facts(
        tuple(i for i in extents if i not in reduced), tuple(i for i in extents if i in reduced), extents,
        {s.target: s.indices for s in op.statements},
        {n: tuple(dict.fromkeys(x)) for n, x in moved.items()},
        {n: a for n, a in axes.items() if all(x in extents for x in a) and len(set(a)) == len(a)},
        tuple(s.target for s in op.statements if s.reduction is None and s.target in inner),
        tuple(t.name for t in op.outputs),
        tuple((s.indices, s.reduction.indices if s.reduction else ()) for s in op.statements),
        kinds := {s.target: s.reduction.kind for s in op.statements if s.reduction},
        tuple((a, s.target) for s in op.statements for a in sorted(_reads(s))
              if kinds.get(s.target) == "sum" and kinds.get(a) in ("max", "min")),
        tuple(p for s in op.statements for p in _prefixes(s)),
        kept=tuple(s.target for s in op.statements), staged=tuple(moved),
    )  # fmt: skip


def _prefixes(s: Statement) -> list[tuple[str, str, str]]:
    """Of each condition between an index of the result and a reduced one."""
    if s.reduction is None or not isinstance(s.value, Masked):
        return []
    named = [{v.name for v in c.variables()} for c in s.value.conds]
    return [(s.target, i, j) for i in s.indices for j in s.reduction.indices if any({i, j} <= names for names in named)]


def narrowed(facts: Facts, op: Op, n: int) -> Facts:
    """Lines for one statement of the op: its result, what it reads, and what rides along with it."""
    s = op.statements[n]
    read = {ld.tensor for ld in loads(s.value)}
    inputs = {t.name for t in op.inputs}
    sharing = {t.target for t in op.statements if t.indices == s.indices and t.reduction is None and s.target in _reads(t)}
    return replace(
        facts, main=facts.nests[n], kept=(s.target, *sorted(sharing)),
        staged=tuple(x for x in facts.moved if x in read and (x in inputs or x in facts.pointwise)),
    )  # fmt: skip


def _reads(s: Statement) -> set[str]:
    return {ld.tensor for ld in loads(s.value)}


def fused(facts: Facts, mine: tuple[str, ...], name: str) -> Facts:
    """The facts after `fuse`: an index instead of several."""

    def swap(indices: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name if i in mine else i for i in indices))

    total: int | None = 1
    for i in mine:
        extent = facts.extents[i]
        total = None if extent is None or total is None else total * extent
    extents = {i: n for i, n in facts.extents.items() if i not in mine} | {name: total}
    return replace(
        facts, free=swap(facts.free), reduced=swap(facts.reduced), extents=extents,
        results={n: swap(i) for n, i in facts.results.items()}, moved={n: swap(i) for n, i in facts.moved.items()},
        plain={n: a for n, a in facts.plain.items() if not set(a) & set(mine)},
        main=(swap(facts.main[0]), swap(facts.main[1])), nests=tuple((swap(f), swap(r)) for f, r in facts.nests),
    )  # fmt: skip
