"""The sizes that candidates are judged by: the fixed ones, and samples of the open ones.

A schedule for open sizes must be good at all of them, so it is judged at several: every open size small, medium and large,
within its known bounds, and so that tensors of more dimensions have as many elements. Sizes of windows are small: those of
reduced indices that only occur in sums with others, as in a convolution, and those whose growth makes another size smaller. A
size that affects nothing does not matter.

BATCHES     An index that all operands of a contraction have, and its result, counts independent contractions: no element is
            read again along it. Where other sizes are open there are a few of these, and the others have what is left of the
            elements. All alike, sides would be so short that memory were always the bound.
STATISTICS  Of an op that has other reductions too, as an attention, all sizes are alike. In one pass over the keys blocks are
            as many as rows of all heads, so the heads are no mere count, and features are no sides: they are few. Of windows
            all are alike, too: with many dimensions sides are short anyway.

Models of devices with cores judge at one set of extents, the typical ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import NamedTuple

from ...dsl.index.expr import Expr, Var
from .access_model import AccessProblem
from .instr_mappings import reused_indices

SPREAD = (256, 1024, 4096)  # elements: the sides of matrices at which open sizes are judged [estimate; test_first_candidates]
TYPICAL = 1024  # elements: an extent that is open, where candidates are judged at one [estimate; test_first_candidates]
BATCH = 16  # contractions: of open sizes that only count them, together [estimate; test_batches_are_judged_at_longer_sides]
WINDOW = 3  # elements: the extent of a window at which open sizes are judged [estimate; test_first_candidates]


def typical_sizes(problems: Iterable[AccessProblem]) -> dict[str, int]:
    """The extents, with typical values for open ones. A single axis is as long as two axes are together."""
    extents = {a: e for p in problems for a, e in p.extents.items()}
    return {a: typical_extent(e, TYPICAL if len(extents) > 1 else TYPICAL**2) for a, e in extents.items()}


def typical_extent(e: Expr, typical: int = TYPICAL) -> int:
    low, high = e.interval
    return max(1, low or 0, typical if high is None else min(typical, high))


def representative_sizes(
    problems: Iterable[AccessProblem], derived: tuple[tuple[Var, Expr], ...] = (), statistics: bool = False
) -> list[dict[str, int]]:
    """Values for all sizes that the problems' extents depend on; one set where none is open. `statistics`: whether the op has
    other reductions than contractions."""
    problems = tuple(problems)
    open_ = _open(problems, derived)
    if not open_:
        return [dict(_derived({}, derived))]
    windows = _windows(problems) | _shrinking(derived)
    batches = tuple(None if statistics or windows else _batch(p) for p in problems)
    few = _counts(problems, batches).intersection(v.name for v in open_)
    if not {v.name for v in open_} - few - windows:
        few = set()  # nothing else tells small problems from large ones
    small = {n: round(BATCH ** (1 / len(few))) for n in few}
    ranks = _ranks(problems, batches, dict(derived), small)
    small |= dict.fromkeys(windows, WINDOW)
    out: list[dict[str, int]] = []
    for size in SPREAD:
        env: dict[str, int] = {}
        for v in open_:
            n = small[v.name] if v.name in small else ranks.get(v.name, _Rank()).side(size)
            low, high = v.interval
            env[v.name] = min(max(n, low or 0, 1), high if high is not None else n)
        env = _derived(env, derived)
        if env not in out:
            out.append(env)
    return out


def _open(problems: tuple[AccessProblem, ...], derived: tuple[tuple[Var, Expr], ...]) -> list[Var]:
    known = dict(derived)
    found: dict[str, Var] = {}
    queue = [v for p in problems for e in p.extents.values() for v in e.variables()]
    while queue:
        v = queue.pop()
        if v in known:
            queue += known[v].variables()
        else:
            found[v.name] = v
    return [found[n] for n in sorted(found)]


def _derived(env: Mapping[str, int], derived: tuple[tuple[Var, Expr], ...]) -> dict[str, int]:
    out = dict(env)
    for v, e in derived:
        if all(x.name in out for x in e.variables()):
            out[v.name] = max(1, int(e.evaluate(out)))
    return out


class _Rank(NamedTuple):
    """Of a tensor: its dimensions but for those that count contractions, and the product of the extents of these."""

    dimensions: int = 1
    contractions: int = 1

    def side(self, size: int) -> int:
        """Of a tensor with as many elements as a matrix with sides of this size."""
        return round((size**2 / self.contractions) ** (1 / self.dimensions))


_Batches = tuple[frozenset[str] | None, ...]  # of each problem, the axes that count contractions; None: it is no contraction


def _ranks(
    problems: tuple[AccessProblem, ...], batches: _Batches, derived: Mapping[Var, Expr], few: Mapping[str, int]
) -> dict[str, _Rank]:
    """For each size that of the largest tensor that has it. `few`: sizes that count contractions."""
    out: dict[str, _Rank] = {}

    def note(v: Var, rank: _Rank) -> None:
        out[v.name] = max(out.get(v.name, rank), rank)
        for x in derived[v].variables() if v in derived else ():
            note(x, rank)

    for p, batch in zip(problems, batches, strict=True):
        sizes = {i: {v.name for v in e.variables()} for i, e in p.extents.items()}
        known = {i for i, names in sizes.items() if (names <= few.keys() if names else i in (batch or ()))}
        counts = {i: max(1, int(p.extents[i].evaluate(few))) for i in known}
        for a in (*p.reads, *p.writes):
            dimensions = sum(not d or any(i not in counts for i, _ in d) for d in a.dims)
            rank = _Rank(max(1, dimensions), prod(counts[i] for i in a.axes & known))
            for axis in a.axes:
                for v in p.extents[axis].variables():
                    note(v, rank)
    return out


def _counts(problems: tuple[AccessProblem, ...], batches: _Batches) -> set[str]:
    """BATCHES: the sizes that count contractions, and are extents of nothing else in any."""
    counts: set[str] = set()
    others: set[str] = set()
    for p, batch in zip(problems, batches, strict=True):
        if batch is not None:
            for i in p.axes:
                (counts if i in batch else others).update(v.name for v in p.extents[i].variables())
    return counts - others


def _batch(p: AccessProblem) -> frozenset[str] | None:
    """BATCHES: the axes of a contraction that count contractions; None: it is none."""
    reused = reused_indices(p.computation)
    return frozenset(p.free).difference(*reused) if p.computation.reduction is not None and len(reused) > 1 else None


def _windows(problems: tuple[AccessProblem, ...]) -> set[str]:
    out: set[str] = set()
    for p in problems:
        for axis in p.reduced:
            mixed = any(len(d) > 1 and axis in dict(d) for a in p.reads for d in a.dims)
            if mixed:
                out |= {v.name for v in p.extents[axis].variables()}
    return out


def _shrinking(derived: tuple[tuple[Var, Expr], ...]) -> set[str]:
    """Sizes the larger of which makes a derived size smaller: `P = H - R + 1`."""
    out: set[str] = set()
    for _, e in derived:
        names = [v.name for v in e.variables()]
        for n in names:
            even = dict.fromkeys(names, 64)
            out |= {n} if e.evaluate(even | {n: 32}) > e.evaluate(even) else set()
    return out
