"""The sizes that candidates are judged by: the fixed ones, and samples of the open ones.

A schedule for open sizes must be good at all of them, so it is judged at several: every open size small, medium and large,
within its known bounds, and so that tensors of more dimensions have as many elements. Sizes of windows are small: those of
reduced indices that only occur in sums with others, as in a convolution, and those whose growth makes another size smaller. A
size that affects nothing does not matter.

Models of devices with cores judge at one set of extents, the typical ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...dsl.index.expr import Expr, Var
from .access_model import AccessProblem

SPREAD = (256, 1024, 4096)  # elements: the sides of matrices at which open sizes are judged [estimate; test_first_candidates]
TYPICAL = 1024  # elements: an extent that is open, where candidates are judged at one [estimate; test_first_candidates]
WINDOW = 3  # elements: the extent of a window at which open sizes are judged [estimate; test_first_candidates]


def typical_sizes(problems: Iterable[AccessProblem]) -> dict[str, int]:
    """The extents, with typical values for open ones. A single axis is as long as two axes are together."""
    extents = {a: e for p in problems for a, e in p.extents.items()}
    return {a: typical_extent(e, TYPICAL if len(extents) > 1 else TYPICAL**2) for a, e in extents.items()}


def typical_extent(e: Expr, typical: int = TYPICAL) -> int:
    low, high = e.interval
    return max(1, low or 0, typical if high is None else min(typical, high))


def representative_sizes(problems: Iterable[AccessProblem], derived: tuple[tuple[Var, Expr], ...] = ()) -> list[dict[str, int]]:
    """Values for all sizes that the problems' extents depend on; one set where none is open."""
    problems = tuple(problems)
    open_ = _open(problems, derived)
    if not open_:
        return [dict(_derived({}, derived))]
    ranks = _ranks(problems, dict(derived))
    windows = _windows(problems) | _shrinking(derived)
    out: list[dict[str, int]] = []
    for size in SPREAD:
        env: dict[str, int] = {}
        for v in open_:
            n = WINDOW if v.name in windows else round(size ** (2 / ranks.get(v.name, 1)))
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


def _ranks(problems: tuple[AccessProblem, ...], derived: Mapping[Var, Expr]) -> dict[str, int]:
    """For each size the dimensions of the largest tensor that has it."""
    out: dict[str, int] = {}

    def note(v: Var, rank: int) -> None:
        out[v.name] = max(out.get(v.name, 1), rank)
        for x in derived[v].variables() if v in derived else ():
            note(x, rank)

    for p in problems:
        for a in (*p.reads, *p.writes):
            for axis in a.axes:
                for v in p.extents[axis].variables():
                    note(v, len(a.dims))
    return out


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
