"""From an op's statements to the computations of its launches: inlining, epilogues, grouping.

INLINE     a pointwise intermediate that is neither kept nor computed apart is recomputed in its consumers (`inlining`).
EPILOGUE   pointwise statements that read a reduction at its own indices are a fused epilogue: its write-back applies them. One
           that is computed apart has none.
LAUNCH     a statement that is neither inlined, kept nor an epilogue gets a launch of its own; kept intermediates are in their
           readers' launch.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from ...dsl.errors import InternalError
from ...dsl.index.expr import Var
from ...dsl.op import Op, Statement
from ...dsl.support.fast_replace import replace
from ...dsl.values import loads
from .computations import Computation, Output, plain_index, plain_var
from .inlining import inline_intermediates


class CircularLaunches(Exception):
    """Launches need each other's results, for one of `tensors` joins the launch that computes it with that of its readers."""

    def __init__(self, tensors: frozenset[str]) -> None:
        super().__init__(tensors)
        self.tensors = tensors


def group_launches(
    op: Op,
    kept: frozenset[str],
    apart: frozenset[str] = frozenset(),
    staged: frozenset[str] = frozenset(),
    together: Iterable[frozenset[str]] = (),
) -> tuple[tuple[Computation, ...], ...]:
    """The op's computations, grouped by launch, in order. Raises CircularLaunches.

    kept    intermediates and outputs (`shared_outputs`) that a schedule keeps inside their readers' launch
    apart   those that it computes by themselves, before
    staged  pointwise intermediates that it moves: those are computed where they are moved, in their readers' launch, unless
            they are the epilogue of a reduction, which is a launch of its own
    together  sets of those apart: what one of a set reads of it row by row is computed in its launch, which stores it for other
            readers
    """
    kept |= staged
    computations = inline_intermediates([_computation(s) for s in op.statements], op, kept | apart)
    computations = _ride_along(computations, op, kept, apart)
    kept -= {t for w in computations if w.reduction is not None for t in w.targets if t in staged}
    return _launches(computations, kept, together)


def shared_outputs(op: Op) -> frozenset[str]:
    """Outputs that may be kept in the launch of the statements that read them, which stores them besides.

    No reader of a reduction's results reduces one of their indices: it would need those of other units, so its launch follows.
    """
    found: set[str] = set()
    for t in op.outputs:
        own, readers = next((s for s in op.statements if s.target == t.name), None), statements_reading(op, t.name)
        if own is None or not readers:
            continue
        if not _is_reduced(op, own) or all(_is_row_of(s, t.name, own.indices) for s in readers):
            found.add(t.name)
    return frozenset(found)


def statements_reading(op: Op, tensor: str) -> list[Statement]:
    return [s for s in op.statements if tensor in {ld.tensor for ld in loads(s.value)}]


def _is_reduced(op: Op, own: Statement) -> bool:
    """Whether the statement is a reduction, or finishes one."""
    read = {ld.tensor for ld in loads(own.value)}
    finished = (s for s in op.statements if s.reduction is not None and s.target in read)
    return own.reduction is not None or any(s.indices == own.indices for s in finished)


def elementwise_outputs(op: Op) -> frozenset[str]:
    """Outputs that are computed of each element, and that only statements of the same elements read, such as the moments of an
    optimiser: all of these may be one launch. Not what is transposed: tiles for that are for one statement."""
    pointwise = {s.target: s for s in op.statements if not _is_reduced(op, s) and not _is_transposed(s)}
    found: set[str] = set()
    for t in op.outputs:
        own, readers = pointwise.get(t.name), statements_reading(op, t.name)
        if own is None or not readers:
            continue
        at = own.indices
        if all(s.target in pointwise and s.indices == at and _is_row_of(s, t.name, at) for s in readers):
            found.add(t.name)
    return frozenset(found)


def _is_transposed(s: Statement) -> bool:
    """Whether it reads a tensor along its last index that is contiguous along another one."""
    return any(Var(i) in e.variables() for i in s.indices[-1:] for ld in loads(s.value) for e in ld.indices[:-1])


def _is_row_of(s: Statement, tensor: str, indices: tuple[str, ...]) -> bool:
    """Whether the statement reads the tensor at these indices alone, and has results for each of them."""
    reads = [tuple(map(plain_index, ld.indices)) for ld in loads(s.value) if ld.tensor == tensor]
    return all(at == indices for at in reads) and {*indices} <= {*s.indices}


def group_launches_keeping(op: Op, kept: frozenset[str]) -> tuple[tuple[Computation, ...], ...]:
    """`plan` that keeps those of `kept` that do not make launches need each other."""
    while True:
        try:
            return group_launches(op, kept)
        except CircularLaunches as error:
            kept -= error.tensors


def launch_keeping(op: Op, kept: frozenset[str]) -> tuple[Computation, ...] | None:
    """The launch that keeps all of these; None where they are in several, or where it reads more that it makes itself."""
    try:
        groups = [g for g in group_launches(op, kept) if not kept.isdisjoint(t for w in g for t in w.targets)]
    except CircularLaunches:
        return None
    stored = {t for g in groups for w in g for t in w.targets} - kept
    if len(groups) != 1 or any(stored & w.reads - {w.name, *w.targets} for w in groups[0]):
        return None
    return groups[0]


def _computation(s: Statement) -> Computation:
    return Computation(s.target, s.indices, s.value, s.reduction, s.ranges, span=s.span)


def _ride_along(computations: list[Computation], op: Op, kept: frozenset[str], apart: frozenset[str]) -> list[Computation]:
    roles = {t.name: t.role for t in op.tensors}
    out = list(computations)
    for w in computations:
        if w.reduction is None or roles[w.name] != "intermediate" or w.name in apart:
            continue
        readers = [x for x in out if w.name in x.reads]
        if not readers or not all(_rides(x, w) for x in readers):
            continue
        # Kept by its name, a reduction is the accumulator of what its launch stores if that rides on it; else it is a tensor of
        # its own.
        if w.name in kept and any(roles[x.name] != "output" and x.name not in apart for x in readers):
            continue
        # everything else a rider reads must exist before the reduction runs
        position = {t: n for n, x in enumerate(out) for t in (x.name, *x.targets)}
        if any(position.get(t, -1) > position[w.name] for x in readers for t in x.reads):
            continue
        outputs = tuple(Output(x.name, x.indices, x.value, span=x.span) for x in readers)
        merged = replace(w, outputs=outputs)
        out = [merged if x is w else x for x in out if x not in readers]
    return out


def _rides(x: Computation, w: Computation) -> bool:
    """Does pointwise x read w only at w's own indices, having no others?"""
    own = tuple(Var(i) for i in w.indices)
    return (
        x.reduction is None
        and not x.outputs
        and set(x.indices) == set(w.indices)
        and all(tuple(plain_var(e) for e in ld.indices) == own for ld in loads(x.value) if ld.tensor == w.name)
    )


def _launches(
    computations: list[Computation], kept: frozenset[str], together: Iterable[frozenset[str]]
) -> tuple[tuple[Computation, ...], ...]:
    readers: dict[str, list[int]] = {}
    made = {t: w for w in computations for t in w.targets}
    for n, w in enumerate(computations):
        beside = {t for some in together if not some.isdisjoint(w.targets) for t in some & w.reads}
        for tensor in w.reads & kept | {t for t in beside if _reads_own_row(w, t, made[t])}:
            readers.setdefault(tensor, []).append(n)
    groups = {n: [n] for n in range(len(computations))}
    group_of = [*groups]
    for n, w in enumerate(computations):
        mine = group_of[n]
        joining = {group_of[x] for tensor in (w.name, *w.targets) for x in readers.get(tensor, ())} - {mine}
        for other in joining:
            for x in groups[other]:
                group_of[x] = mine
            groups[mine] += groups.pop(other)
    return _in_order([[computations[n] for n in sorted(g)] for g in groups.values()], kept.union(*together))


def _reads_own_row(w: Computation, tensor: str, maker: Computation) -> bool:
    """Does it read the tensor, which another one makes, at indices of its own results alone?"""
    own = maker.subscripts_of(tensor)
    read = [ld for v in (w.value, *(o.value for o in w.outputs)) for ld in loads(v) if ld.tensor == tensor]
    return {*own} <= {*w.indices} and all(tuple(map(plain_index, ld.indices)) == own for ld in read)


def _in_order(groups: list[list[Computation]], kept: frozenset[str]) -> tuple[tuple[Computation, ...], ...]:
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
            raise InternalError("launches depend on each other cyclically")
        raise CircularLaunches(joined)
    return tuple(tuple(groups[i]) for i in out)
