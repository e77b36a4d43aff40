"""Checks each program that is compiled: what is read was written, and what is stored is stored once (`element_coverage`).

It is proven for all sizes where that is possible (`proven_buffers`). Other buffers are checked at a few sizes, up to a number
of points, which is no clock: the same program is checked in the same way everywhere. What fails is an error, with these sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...dsl.errors.base import Label
from ...dsl.errors.verify import ElementNotCovered
from ...dsl.op import Op
from ...dsl.source import Span
from ..analysis.instances import Instance, derived_sizes, few_instances
from ..ir.program import Program
from ..schedule.synthetic_spans import is_filled_in
from .accesses import Access, Guard
from .element_coverage import Coverage, Finding, UncoveredElement
from .index_sets import PointBudget

POINTS = 1 << 17  # points: that are enumerated for a program, some hundredths of a second [limit]

_NAMED = 4  # buffers: that a remark names [limit]


def check_coverage(program: Program, op: Op, schedule: Span | None) -> str:
    """What was not proven for all sizes, in a sentence; empty where all was. Raises ElementNotCovered.

    op        with numbers for its parameters; sizes that are fixed are no dims any more
    schedule  the head of the author's schedule, if there is one
    """
    coverage = Coverage(program)
    names = coverage.not_proven
    if not names:
        return ""
    budget = PointBudget(POINTS)
    checked: dict[str, list[Instance]] = {n: [] for n in names}
    for one in few_instances(program, op):
        try:
            with np.errstate(divide="ignore"):
                for n in coverage.check(derived_sizes(program, op, one.sizes, one.finite), budget):
                    checked[n].append(one)
        except ZeroDivisionError:  # a size of 0 that something divides by: no loop over it has an iteration
            continue
        except UncoveredElement as fault:
            raise _error(fault.finding, op, one, schedule) from None
    return _remark(checked)


def _remark(checked: dict[str, list[Instance]]) -> str:
    """By the sizes that buffers were checked at."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for n, sizes in checked.items():
        groups.setdefault(tuple(map(str, sizes)), []).append(n)
    return "; ".join(f"{_listed(buffers)}: {_where(sizes)}" for sizes, buffers in groups.items())


def _where(sizes: Sequence[str]) -> str:
    if not sizes:
        return "not proven, and checked at no sizes"
    return f"elements checked at {' and at '.join(sizes)}, not proven for all sizes"


def _listed(buffers: Sequence[str]) -> str:
    more = len(buffers) - _NAMED
    return ", ".join(f"`{b}`" for b in buffers[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _error(finding: Finding, op: Op, one: Instance, schedule: Span | None) -> ElementNotCovered:
    where = f", at {one}" if one.sizes or one.finite else ""
    of_op = [s.span for s in op.statements if s.span is not None]
    around = [span for a in finding.accesses for span in _spans(a) if span not in of_op]
    own = next((s for s in around if not is_filled_in(s)), None)
    statement = next((s for a in finding.accesses for s in _spans(a) if s in of_op), None)
    labels = [Label(statement, "this statement")] if statement is not None and own is not None else []
    if own is None and around and statement is not None:
        labels = [Label(around[0], "a line that the compiler added")]
    span = own or statement or schedule or next(iter(around), None) or next(iter(of_op), None)
    return ElementNotCovered(f"{finding.text}{where}", span, labels=labels, help=_HELP)


_HELP = "another tile or level on this line, or a schedule without it, may be right. Please report it, with the text"


def _spans(a: Access) -> Iterator[Span]:
    """Of the statement, of those around it, inner ones first, and of the buffer."""
    if a.stmt.span is not None:
        yield a.stmt.span
    for s in reversed(a.path):
        if not isinstance(s, Guard) and s.span is not None:
            yield s.span
    if a.buffer.span is not None:
        yield a.buffer.span
