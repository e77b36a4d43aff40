"""The compiler's own schedules for an op: nothing is written, all is completed, for sizes that differ in what can be proven.

NARROW_PLACES   argmax of a row counts its elements in 32 bits where the row has at most 2^31 - 1 of them, else in 64.
"""

from __future__ import annotations

from ...dsl import syntax
from ...dsl.device import Device
from ...dsl.op import Op
from ..lower.places import MOST_NARROW, counts_narrow
from .nests import ARGUMENTS, cores_and_lanes


def own_schedules(op: Op, device: Device) -> tuple[syntax.ScheduleDecl | None, ...]:
    """In the order in which they are to be tried; the last one, None, takes all sizes."""
    bounds: dict[str, int] = {}
    dims = {v.name for v in op.dims}
    for s in op.statements if cores_and_lanes(device) is not None else ():
        if s.reduction is None or s.reduction.kind not in ARGUMENTS or not counts_narrow(s.value.dtype):
            continue
        extents = [e for i, e in s.ranges if i in s.reduction.indices]
        if len(extents) == 1 and extents[0].interval[1] is None and str(extents[0]) in dims:
            bounds[str(extents[0])] = MOST_NARROW
    if not bounds:
        return (None,)
    where = tuple(syntax.Where(syntax.Name(n), "<=", syntax.Num(most)) for n, most in bounds.items())
    return syntax.ScheduleDecl(f"{op.name}_auto", op.name, None, (), None, where, (syntax.AutoLine(),)), None
