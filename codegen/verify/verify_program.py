"""Checks of a compiled program: it is well formed, and at small sizes each point contributes exactly once (law 8).

It proves nothing for other sizes, and reports those that it left out. `WORK` bounds the time, and is no clock: the same program
is checked in the same way everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...dsl.errors.base import Label
from ...dsl.errors.verify import NotVerified
from ...dsl.op import Op
from ...dsl.source import Span
from ..abi import chosen, programs
from ..analysis.instances import Instance, derived_sizes, instances
from ..interpret.machine import Fault
from ..ir.program import Program
from ..ir.tile_ir import Alloc, For, If, Stmt
from .exactly_once import check_once, point_count
from .field_elements import ValueBudgetExceeded
from .well_formed import check_well_formed

WORK = 12_000_000  # values: that are computed in all, some seconds; an instance may take a sixth [limit]

_POINTS = 250_000  # points: the most of an instance that is executed [limit]


@dataclass(frozen=True)
class Verification:
    """`checked`: instances that were executed, and were right; `skipped`: others, each with the reason. `versions`: of the
    program's, for sizes and alignments that it tells apart, how many were executed, and of how many."""

    checked: tuple[Instance, ...]
    skipped: tuple[tuple[Instance, str], ...]
    versions: tuple[int, int]

    def __str__(self) -> str:
        some, whole = self.versions
        if not self.checked:
            return "no instance was small enough to be checked"
        said = [f"right at {_count(len(self.checked), 'instance')}"]
        said += [f"{_count(len(self.skipped), 'larger one')} left out"] if self.skipped else []
        said += [f"{some} of the {whole} versions executed"] if some < whole else []
        return ", ".join(said)


def verify(
    program: Program,
    op: Op,
    schedule: str = "the compiler's own schedule",
    span: Span | None = None,
    work: int = WORK,
    each: Callable[[Instance], None] = lambda one: None,
) -> Verification:
    """Raises NotVerified where the program is none, or is not right at some instance.

    op        with numbers for its parameters, and for the sizes that the program was compiled for
    schedule  how it is called in errors        span  shown where the fault has no line of its own
    work      at most, of values computed       each  is called before an instance is executed
    """
    try:
        check_well_formed(program)
    except Fault as fault:
        raise _error(fault, program, op, schedule, span, None) from None
    checked: list[Instance] = []
    skipped: list[tuple[Instance, str]] = []
    met: set[int] = set()
    left = work
    todo = instances(program, op)
    share = work // min(6, max(1, len(todo)))
    long: list[Instance] = []
    for one in todo:
        count = point_count(op, one.sizes)
        if count > _POINTS:
            skipped.append((one, f"it has {count} points"))
            continue
        if not left:
            skipped.append((one, "instances before it took the time"))
            continue
        if any(all(one.sizes[n] >= x for n, x in o.sizes.items()) for o in long if o.finite == one.finite):
            skipped.append((one, "a smaller one takes too long"))
            continue
        each(one)
        most = min(left, share if checked else max(share, left // 2))
        try:
            spent = check_once(program, op, one.sizes, one.finite, addresses=one.addresses, work=most)
        except ValueBudgetExceeded as much:
            skipped.append((one, "it takes too long"))
            long.append(one)
            left = max(0, left - much.spent)
            continue
        except Fault as fault:
            raise _error(fault, program, op, schedule, span, one) from None
        left = max(0, left - spent)
        checked.append(one)
        met.add(id(chosen(program, derived_sizes(program, op, one.sizes, one.finite), one.addresses)))
    return Verification(tuple(checked), tuple(skipped), (len(met), len(list(programs(program)))))


def smaller_sizes(sizes: Mapping[str, int]) -> dict[str, int]:
    """Fixed sizes of which an instance can be executed, with the same remainders by powers of two up to 8."""
    return {n: x if x < 16 else 8 + x % 8 for n, x in sizes.items()}


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _error(fault: Fault, program: Program, op: Op, schedule: str, span: Span | None, one: Instance | None) -> NotVerified:
    where = "" if one is None else f", at {one} ({one.why})"
    spans = {s.span for s in op.statements if s.span is not None}
    around = [s.span for s in _around(program, fault.stmt) if s.span is not None] if fault.stmt is not None else []
    meant = next((x for x in around if x in spans), None)
    meant = meant or next((s.span for s in op.statements if s.target == fault.buffer), None)
    lines = [x for x in around if x not in spans]
    own = next((x for x in lines if span is not None and x.source is span.source), span)
    labels = [Label(meant, "this statement")] if meant is not None and own is not None else []
    if lines and lines[0] is not own:
        labels.append(Label(lines[0], "a line that the compiler added"))
    message = f"{schedule} for {op.name} on {program.device.name} compiles to a wrong program{where}: {fault.message}"
    return NotVerified(message, own or meant, fault.kind, one.sizes if one else {}, labels=labels)


def _around(program: Program, at: Stmt) -> list[Stmt]:
    """The statement and those that it is in, inner ones first."""

    def path(body: tuple[Stmt, ...]) -> list[Stmt] | None:
        for s in body:
            if s is at:
                return [s]
            for inner in (s.body, s.orelse) if isinstance(s, If) else (s.body,) if isinstance(s, For | Alloc) else ():
                if (found := path(inner)) is not None:
                    return [*found, s]
        return None

    bodies = (x.body for p in programs(program) for x in p.launches)
    return next((found for body in bodies if (found := path(body)) is not None), [at])
