"""Each point exactly once: whether a tile program computes its op, for given sizes (law 8).

The interpreter executes the program, with all of its checks, over values that count (`field_elements`), and its results are
compared with those of the op's statements (`expected_values`). This finds points that contribute twice or never, partial
results that are combined too early or more than once, readers that come too early, and copies that are incomplete when they are
read. Rounding is not checked here. A failing program is the compiler's fault: a `Fault`, "not-once" or the interpreter's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from math import prod

import numpy as np

from ...dsl.op import Op, Statement
from ...dsl.ops.specialise import specialise
from ...dsl.values import Apply, walk
from ..interpret.domain import Array, Domain
from ..interpret.faults import describe
from ..interpret.machine import Fault, interpret
from ..interpret.memory import Memory
from ..ir.program import Program
from ..ir.tile_ir import Stmt
from .expected_values import ExpectedValue, expected_values, reduction
from .field_elements import FieldDomain

_MOST_POINTS = 12  # points: that a fault names [limit]
_MOST_UNITS = 3  # units: that a fault names [limit]
_TIMES = (*range(2, 40), 64, 128, 256)  # how often a point is tried to be there
_AT_ONCE = 256  # hypotheses: that are tested together [limit]


def check_once(
    program: Program,
    op: Op,
    sizes: Mapping[str, int],
    finite: Mapping[str, int] | None = None,
    *,
    addresses: Mapping[str, int] | None = None,
    seed: int = 0,
    work: int | None = None,
    checks: bool = True,
) -> int:
    """Raises a Fault where the program does not compute `op` at these sizes.

    op        with numbers for its parameters        sizes   of all dims that it has, and of others
    finite    how many units of each finite level take part, by level (`interpret`)
    work      how many values may be computed, then `ValueBudgetExceeded` is raised; gives how many were. Without `checks`
              values that are stored, units and iterations count as well
    checks    whether the interpreter's own checks are wanted: without them only results count, and points beyond all elements
    """
    concrete = specialise(op, {v.name: sizes[v.name] for v in op.dims})
    chooses = any(map(_is_choice, op.statements))
    powers = any(isinstance(v, Apply) and v.fn in ("exp", "exp2", "pow") for s in op.statements for v in walk(s.value))
    spent = 0
    for n in range(3 if chooses else 1):  # where data choose, one choice alone would show little
        domain = FieldDomain(seed + n, chooses, None if work is None else work - spent, powers, strict=not checks)
        _check(program, concrete, sizes, finite, addresses, domain, checks)
        spent += domain.spent
    return spent


def _check(program: Program, op: Op, sizes, finite, addresses, domain: FieldDomain, checks: bool) -> None:
    domain.visit(_points_of(op))
    inputs = {t.name: domain.inputs(t.dtype, tuple(e.constant or 0 for e in t.shape)) for t in op.inputs}
    if any(not _chooses(s, {i: e.constant for i, e in s.ranges}) for s in op.statements):
        return
    log: dict[str, Memory] = {}
    open_ = {v.name: sizes[v.name] for v in program.dims if v.name in sizes}
    faults: list[Fault] = []
    got = interpret(
        program,
        inputs,
        open_,
        finite,
        domain=domain,
        log=log,
        addresses=addresses,
        checks=checks,
        on_fault="raise" if checks else faults,
    )
    outside = next((f for f in faults if f.kind == "out-of-bounds"), None)
    if outside is not None:
        raise outside
    meant = expected_values(op, inputs, domain)
    choices = [m.parts for m in meant.values() if m.parts is not None and _is_choice(m.statement)]
    if any(domain.has_unordered(parts) for parts in choices):  # infinities of empty reductions that cancel, a root of -1
        return
    for t in op.outputs:
        want = meant[t.name]
        wrong = ~domain.same(got[t.name], np.broadcast_to(want.values, got[t.name].shape))
        if wrong.any():
            domain.work = None  # what is at fault is found out whatever it takes
            at = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
            raise _fault(program, t.name, at, int(wrong.sum()), wrong.size, want, got[t.name][at], domain, log[t.name])


def _chooses(s, extents) -> bool:
    """False for the greatest of nothing, which has no place."""
    return not _is_choice(s) or all(extents[i] for i in s.reduction.indices) or any(extents[i] == 0 for i in s.indices)


def _is_choice(s: Statement) -> bool:
    return s.reduction is not None and s.reduction.kind.startswith("arg")


def _fault(program, name: str, at: tuple[int, ...], wrong: int, total: int, want: ExpectedValue, got, domain, memory) -> Fault:
    place = f"{name}[{', '.join(map(str, at))}]"
    why = _points(want, at, got, domain)
    told = why or "it is not what its statement says"
    last, who = _stored(memory, at)
    parts = [f"{place}: {told}", f"{wrong} of {total} elements of {name} are wrong", *who]
    if want.statement.span is not None and (last is None or last.span != want.statement.span):
        parts.append(f"{name} is {want.statement.span.text.strip()}")
    return Fault("not-once", "\n  ".join(parts), name, last)


def _points(want: ExpectedValue, at: tuple[int, ...], got: Array, domain: FieldDomain) -> str:
    """Which points of a reduction contribute how often, where few hypotheses explain what was found."""
    s = want.statement
    if s.reduction is None or want.parts is None or _is_choice(s):
        return ""
    reduced, extents = s.reduction.indices, want.parts.shape[len(at) :]
    parts = want.parts[at].reshape(-1)
    powers = _powers(parts, s, domain)
    hypotheses = _hypotheses(len(parts))
    while batch := list(islice(hypotheses, _AT_ONCE)):
        times = np.stack([counts for counts, _ in batch])
        found = reduction(s.reduction.kind, powers[times, np.arange(len(parts))], s, domain)
        if (fits := domain.same(found, np.asarray(got))).any():
            counts, said = batch[int(np.argmax(fits))]
            named = [
                ", ".join(f"{i}={int(n)}" for i, n in zip(reduced, np.unravel_index(p, extents), strict=True))
                for p in np.flatnonzero(counts != 1)
            ]
            some = "every point" if len(named) == len(parts) > 1 else "point " + "; ".join(named[:_MOST_POINTS])
            return f"{some} of statement {s.target} {said}"
    return ""


def _powers(parts: Array, s: Statement, domain: Domain) -> Array:
    """[times, point]: what a point comes to that contributes so many times, from 0 on."""
    assert s.reduction is not None
    kind = s.reduction.kind
    out = [reduction(kind, parts[:, None][:, :0], s, domain)]
    for _ in range(max(_TIMES)):
        out.append(reduction(kind, np.stack([out[-1], parts], axis=-1), s, domain))
    return np.stack(out)


def _hypotheses(n: int) -> Iterator[tuple[np.ndarray, str]]:
    one = np.ones(n, np.int64)
    yield one * 0, "never contributes"
    for times in _TIMES:
        yield one * times, f"contributes {times} times"
    for times in (2, 0, 3, 4):
        for width in sorted({1, 2, 3, 4, 8, 16, n // 2}):
            for first in range(0, n - width + 1) if 0 < width < n else ():
                counts = one.copy()
                counts[first : first + width] = times
                yield counts, "never contributes" if not times else f"contributes {times} times"


def _stored(memory: Memory, at: tuple[int, ...]) -> tuple[Stmt | None, list[str]]:
    """The statement that stored an element last, and who stored it."""
    address = sum(i * stride for i, stride in zip(at, memory.strides, strict=True))
    found: dict[int, tuple[Stmt | None, list[str]]] = {}
    last: Stmt | None = None
    for site, stmt, where, units in memory.log or []:
        if len(mine := units[where == address]):
            found.setdefault(id(stmt), (stmt, []))[1].extend(site.tree.name(int(u)) for u in mine)
            last = stmt
    lines = []
    for stmt, units in list(found.values())[-4:]:
        several = {1: "once", 2: "twice"}.get(len(units), f"{len(units)} times")
        each = list(dict.fromkeys(units))
        more = f" and {len(each) - _MOST_UNITS} more" if len(each) > _MOST_UNITS else ""
        lines.append(
            f"stored {several}, by {' and '.join(each[:_MOST_UNITS])}{more}, in {describe(stmt) if stmt else 'nothing'}"
        )
    return last, lines or ["nothing was stored there"]


def point_count(op: Op, sizes: Mapping[str, int]) -> int:
    """How many points the statements of an op have at these sizes."""
    return _points_of(specialise(op, {v.name: sizes[v.name] for v in op.dims}))


def _points_of(op: Op) -> int:
    return sum(prod(e.constant or 0 for _, e in s.ranges) for s in op.statements)
