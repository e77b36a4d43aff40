"""Checks each program that is compiled: each point of a reduction contributes once, and each part is combined once.

It is proven for all sizes where that is possible (`prove_contributions`). Otherwise the program is executed at a few small
sizes, over values that count (`verify.exactly_once`), up to a number of values, which is no clock. The values that an instance
takes at least are counted before any is made. Fixed sizes leave one instance: where it is too large, nothing is decided.
"""

from __future__ import annotations

from collections.abc import Callable

from ...dsl.errors.verify import PointNotOnce
from ...dsl.op import Op
from ...dsl.source import Span
from ..analysis.instances import Instance, few_instances, instances_size_by_size
from ..interpret.faults import Fault
from ..ir.program import Program
from ..verify.exactly_once import check_once
from ..verify.field_elements import ValueBudgetExceeded
from .accesses import Access, accesses
from .locate import listed, located, spans
from .prove_contributions import unproven_results
from .prove_coverage import Prover
from .symbolic_domain import LaunchDomains

# values: that are made for a program at sizes that are small, odd, and above all tiles, up to a tenth of a second [limit]
VALUES = 1 << 18
# values: that are made besides where these are too many, for one size after another [limit]
VALUES_SIZE_BY_SIZE = 1 << 19


def check_contributions(program: Program, op: Op, schedule: Span | None) -> str:
    """What was not proven for all sizes, in a sentence; empty where all was. Raises PointNotOnce.

    op        with numbers for its parameters; sizes that are fixed are no dims any more
    schedule  the head of the author's schedule, if there is one
    """
    if all(any(e.constant == 0 for e in t.shape) for t in op.outputs):  # of whatever length their other axes are
        return ""
    unproven = _unproven(program, op)
    if not unproven:
        return ""
    checked: list[Instance] = []

    def counts(one: Instance, most: int) -> int | None:
        """How many values were made; None where they would be more than `most`."""
        try:
            spent = check_once(program, op, one.sizes, one.finite, work=most, checks=False)
        except ValueBudgetExceeded:
            return None
        except ZeroDivisionError:  # a size of 0 that something divides by: no loop over it has an iteration
            return 0
        except Fault as fault:
            text = fault.message.partition(": ")[2].split("\n")[0] + (f", at {one}" if one.sizes or one.finite else "")
            around = [s for found in unproven.values() for a in found for s in spans(a)]
            raise located(PointNotOnce, text, around, op, schedule) from None
        checked.append(one)
        return spent

    left = VALUES
    for one in few_instances(program, op):
        spent = counts(one, left)
        if spent is None:
            _size_by_size(program, op, counts, bool(checked))
            return _remark(list(unproven), checked, one)
        left -= spent
    return _remark(list(unproven), checked, None)


def _size_by_size(program: Program, op: Op, counts: Callable[[Instance, int], int | None], small: bool) -> None:
    """Counts where one size is above its tiles and the others are as small as may be. Each may take half of what is left.

    small   whether sizes below the tiles were counted
    """
    found = instances_size_by_size(program, op)
    if not found or (not small and counts(found[0], VALUES_SIZE_BY_SIZE // 6) is None):  # larger ones would take too many
        return
    left = VALUES_SIZE_BY_SIZE
    for one in found[1:]:
        spent = counts(one, left // 2)
        left -= left // 2 if spent is None else spent


def _unproven(program: Program, op: Op) -> dict[str, list[Access]]:
    """The results of reductions without a proof, each with the statements of its accumulators."""
    prover, known = Prover(), set()
    out: dict[str, list[Access]] = {}
    for launch in program.launches:
        for result, found in unproven_results(program, LaunchDomains(launch), accesses(program, launch), prover):
            known.add(result)
            if found:
                out.setdefault(result, []).extend(found)
    for s in op.statements:
        if s.reduction is not None and s.target not in known:
            out.setdefault(s.target, [])
    return out


def _remark(results: list[str], checked: list[Instance], large: Instance | None) -> str:
    named = listed(results)
    if not checked:
        why = "there are no small sizes" if large is None else f"there are too many points to count at {large}"
        return f"{named}: not decided: there is no proof, and {why}"
    return f"{named}: points counted at {' and at '.join(map(str, checked))}, not proven for all sizes"
