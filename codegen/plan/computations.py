"""From an op's statements to the works of its launches: inlining, epilogues, grouping.

INLINE     a pointwise intermediate that is neither kept nor computed apart is recomputed in its consumers (`inlining`).
EPILOGUE   pointwise statements that read a reduction at its own indices ride along: they are applied at its write-back.
LAUNCH     what is neither inlined, kept nor riding along gets a launch of its own; kept intermediates join their readers'.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from ...dsl.errors import InternalError
from ...dsl.index.expr import Expr, Var, as_expr
from ...dsl.op import Op, Reduction, Statement
from ...dsl.source import Span
from ...dsl.support.cached import cached_property
from ...dsl.support.fast_replace import replace
from ...dsl.values import Load, Value, loads, transform

BACK = (
    "@back"  # a tensor's name with this is that of the copy in the outermost memory of what is held elsewhere (STORED_BESIDES)
)


@dataclass(frozen=True)
class Output:
    """One store of a work's result: `tensor[indices] = value`, where the result is read as a load of the work's name.

    `span`: of the statement that says so, where it is not the work's own.
    """

    tensor: str
    indices: tuple[str, ...]
    value: Value
    atomic: str | None = None  # combined with what is there: sum, max, min
    span: Span | None = None


@dataclass(frozen=True)
class Work:
    """One statement of a spec: `name[indices] = reduction value`, then what is stored.

    `outputs` empty: the result itself is stored to the tensor `name`.
    """

    name: str
    indices: tuple[str, ...]
    value: Value
    reduction: Reduction | None
    extents: tuple[tuple[str, Expr], ...]
    outputs: tuple[Output, ...] = ()
    span: Span | None = None
    # fused index -> its components (name, extent, where it begins), outermost first; later ones may fuse earlier ones
    fused: tuple[tuple[str, tuple[tuple[str, Expr, Expr], ...]], ...] = ()

    subscripts: tuple[str, ...] = ()  # what the target is stored at, where that is not `indices` themselves
    atomic: str | None = None
    using: str | None = None  # the instruction, or its family, that stores to the target where it can

    @cached_property
    def alias(self) -> dict[str, str]:
        """Component -> the fused index that stands for it."""
        out: dict[str, str] = {}
        for name, parts in reversed(self.fused):
            out |= {c: out.get(name, name) for c, _, _ in parts}
        return out

    @cached_property
    def reduced(self) -> tuple[str, ...]:
        return self.reduction.indices if self.reduction else ()

    @cached_property
    def all_indices(self) -> tuple[str, ...]:
        return self.indices + self.reduced

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """Tensors this work stores."""
        return tuple(o.tensor for o in self.outputs) or (self.name,)

    @cached_property
    def reads(self) -> frozenset[str]:
        values = [self.value, *(o.value for o in self.outputs)]
        return frozenset(ld.tensor for v in values for ld in loads(v)) - {self.name}

    @cached_property
    def found(self) -> dict[object, Any]:
        """What others worked out from it: how it is what an instruction does (`match_instr`, by what that is), its problem."""
        return {}


def rename_indices(value: Value, names: dict[str, Expr]) -> Value:
    """Index variables replaced by expressions, everywhere in the value."""
    mapping = {Var(k): v for k, v in names.items()}
    return substitute(value, mapping)


def substitute(value: Value, mapping: dict[Var, Expr]) -> Value:
    from ...dsl.values import IndexValue, Masked

    def step(v: Value) -> Value | None:
        match v:
            case Load():
                other = substitute(v.otherwise, mapping) if v.otherwise is not None else None
                return replace(v, indices=tuple(e.subs(mapping) for e in v.indices), otherwise=other)
            case IndexValue():
                return replace(v, expr=v.expr.subs(mapping))
            case Masked():
                conds = tuple(c.subs(mapping) for c in v.conds)
                inner, other = substitute(v.value, mapping), substitute(v.otherwise, mapping)
                return replace(v, conds=conds, value=inner, otherwise=other)
        return None

    return transform(value, step)


class CircularLaunches(Exception):
    """Launches need each other's results, for one of `tensors` joins the launch that computes it with that of its readers."""

    def __init__(self, tensors: frozenset[str]) -> None:
        super().__init__(tensors)
        self.tensors = tensors


def plan(
    op: Op, kept: frozenset[str], apart: frozenset[str] = frozenset(), staged: frozenset[str] = frozenset()
) -> tuple[tuple[Work, ...], ...]:
    """The op's works, grouped by launch, in order. Raises CircularLaunches.

    kept    intermediates that a schedule keeps inside their readers' launch
    apart   those that it computes by themselves, before
    staged  pointwise intermediates that it moves: those are computed where they are moved, in their readers' launch, unless
            they are the epilogue of a reduction, which is a launch of its own
    """
    from .inlining import inlined

    kept |= staged
    works = inlined([_work(s) for s in op.statements], op, kept | apart)
    works = _ride_along(works, op, kept)
    return _launches(works, kept - {t for w in works if w.reduction is not None for t in w.targets if t in staged})


def plan_keeping(op: Op, kept: frozenset[str]) -> tuple[tuple[Work, ...], ...]:
    """`plan` that keeps those of `kept` that do not make launches need each other."""
    while True:
        try:
            return plan(op, kept)
        except CircularLaunches as error:
            kept -= error.tensors


def is_one_launch(op: Op, kept: frozenset[str]) -> bool:
    """Whether all of the op is one launch that keeps these intermediates."""
    try:
        return len(plan(op, kept)) == 1
    except CircularLaunches:
        return False


def _work(s: Statement) -> Work:
    return Work(s.target, s.indices, s.value, s.reduction, s.ranges, span=s.span)


def _ride_along(works: list[Work], op: Op, kept: frozenset[str]) -> list[Work]:
    roles = {t.name: t.role for t in op.tensors}
    out = list(works)
    for w in works:
        if w.reduction is None or roles[w.name] != "intermediate":
            continue
        readers = [x for x in out if w.name in x.reads]
        if not readers or not all(_rides(x, w) for x in readers):
            continue
        # Kept by its name, a reduction is the accumulator of the outputs that ride on it; else it is a tensor of its own.
        if w.name in kept and any(roles[x.name] != "output" for x in readers):
            continue
        # everything else a rider reads must exist before the reduction runs
        position = {t: n for n, x in enumerate(out) for t in (x.name, *x.targets)}
        if any(position.get(t, -1) > position[w.name] for x in readers for t in x.reads):
            continue
        outputs = tuple(Output(x.name, x.indices, x.value, span=x.span) for x in readers)
        merged = replace(w, outputs=outputs)
        out = [merged if x is w else x for x in out if x not in readers]
    return out


def _rides(x: Work, w: Work) -> bool:
    """Does pointwise x read w only at w's own indices, having no others?"""
    own = tuple(Var(i) for i in w.indices)
    return (
        x.reduction is None
        and not x.outputs
        and set(x.indices) == set(w.indices)
        and all(tuple(_plain(e) for e in ld.indices) == own for ld in loads(x.value) if ld.tensor == w.name)
    )


def _plain(e: Expr) -> Var | None:
    if e.const == 0 and len(e.terms) == 1 and e.terms[0][1] == 1 and isinstance(e.terms[0][0], Var):
        return e.terms[0][0]
    return None


def plain_index(e: Expr) -> str | None:
    """The name of the index when the expression is just that index."""
    v = _plain(e)
    return v.name if v else None


def _launches(works: list[Work], kept: frozenset[str]) -> tuple[tuple[Work, ...], ...]:
    readers: dict[str, list[int]] = {}
    for n, w in enumerate(works):
        for tensor in w.reads & kept:
            readers.setdefault(tensor, []).append(n)
    groups = {n: [n] for n in range(len(works))}
    group_of = [*groups]
    for n, w in enumerate(works):
        mine = group_of[n]
        joining = {group_of[x] for tensor in (w.name, *w.targets) for x in readers.get(tensor, ())} - {mine}
        for other in joining:
            for x in groups[other]:
                group_of[x] = mine
            groups[mine] += groups.pop(other)
    return _in_order([[works[n] for n in sorted(g)] for g in groups.values()], kept)


def _in_order(groups: list[list[Work]], kept: frozenset[str]) -> tuple[tuple[Work, ...], ...]:
    """Launches after the launches whose results they read."""
    made = {t: i for i, g in enumerate(groups) for w in g for t in w.targets}
    needs = [{made[r] for w in g for r in w.reads if r in made and made[r] != i} for i, g in enumerate(groups)]
    readers: dict[int, list[int]] = {}
    for i, mine in enumerate(needs):
        for j in mine:
            readers.setdefault(j, []).append(i)
    missing = [len(mine) for mine in needs]
    ready = [i for i, n in enumerate(missing) if not n]  # a heap: of those that are ready, the first as it was written
    out: list[int] = []
    while ready:
        out.append(heappop(ready))
        for i in readers.get(out[-1], ()):
            missing[i] -= 1
            if not missing[i]:
                heappush(ready, i)
    if len(out) < len(groups):
        stuck = [g for i, g in enumerate(groups) if i not in out and len(g) > 1]
        joined = kept & {t for g in stuck for w in g for t in (w.name, *w.targets)}
        if not joined:
            raise InternalError("launches depend on each other in a circle")
        raise CircularLaunches(joined)
    return tuple(tuple(groups[i]) for i in out)


def work_extents(w: Work) -> dict[str, Expr]:
    """Extents of a work's indices, fused ones included."""
    extents = dict(w.extents)
    for fused_name, parts in w.fused:
        size: Expr = as_expr(1)
        for _, e, _ in parts:
            size = size * e
        extents[fused_name] = size
    return extents
