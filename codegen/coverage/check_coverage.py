"""Checks each program that is compiled: what is read was written, and what is stored is stored once (`element_coverage`).

It is proven for all sizes where that is possible (`proven_buffers`). Other buffers are checked at a few sizes, up to a number
of points, which is no clock: the same program is checked in the same way everywhere. What fails is an error, with these sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...dsl.errors.verify import ElementNotCovered
from ...dsl.op import Op
from ...dsl.source import Span
from ..analysis.instances import Instance, derived_sizes, few_instances
from ..ir.program import Program
from .element_coverage import Coverage, UncoveredElement
from .index_sets import PointBudget
from .locate import listed, located, spans

POINTS = 1 << 17  # points: that are enumerated for a program, some hundredths of a second [limit]


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
            found = fault.finding
            around = (span for a in found.accesses for span in spans(a))
            text = f"{found.text}, at {one}" if one.sizes or one.finite else found.text
            raise located(ElementNotCovered, text, around, op, schedule) from None
    return _remark(checked)


def _remark(checked: dict[str, list[Instance]]) -> str:
    """By the sizes that buffers were checked at."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for n, sizes in checked.items():
        groups.setdefault(tuple(map(str, sizes)), []).append(n)
    return "; ".join(f"{listed(buffers)}: {_where(sizes)}" for sizes, buffers in groups.items())


def _where(sizes: Sequence[str]) -> str:
    if not sizes:
        return "not proven, and checked at no sizes"
    return f"elements checked at {' and at '.join(sizes)}, not proven for all sizes"
