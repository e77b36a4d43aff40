"""`price_schedule`: what the closed forms predict for a written schedule, whoever wrote it.

Each launch is priced by the model that ranks candidates for it: matrix products on CPUs by the blocking that the lines follow,
other nests on CPUs by their loops, launches on devices with blocks by the sizes that the lines fix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ..dsl import syntax
from ..dsl.device import Device
from ..dsl.op import Op
from .autoschedule.cpu.price_lines import price_lines
from .autoschedule.launches.launches_of_op import launches_of_schedule
from .autoschedule.machine_model import core_machine
from .autoschedule.rank import block_candidates
from .lower.lowering_context import LoweringContext
from .plan.computations import Computation
from .schedule.candidate import Cost, Lines


def price_schedule(
    op: Op, device: Device, schedule: syntax.ScheduleDecl, module: Any = None, params: Mapping[str, int] | None = None
) -> Cost | None:
    """The cost of all launches one after another; None where no model is for one of them. Lines must be explicit.

    Raises the diagnostics of the schedule.
    """
    found = launches_of_schedule(op, device, schedule, module, params)
    ctx, launches = found.context, found.parts
    parts: Counter[str] = Counter()
    seconds = 0.0
    for computations, own in launches:
        cost = _launch(ctx, computations, own)
        if cost is None:
            return None
        seconds += float(cost.seconds)
        parts.update({name: float(x) for name, x in cost.parts.items()})
    return Cost(seconds, dict(parts))


def _launch(ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines) -> Cost | None:
    for w in computations:
        ctx.dtypes.setdefault(w.name, w.value.dtype)
    cpu = core_machine(ctx.device)
    if cpu is None:
        return next((c.cost for c in block_candidates(ctx, computations, lines)), None) if lines else None
    return price_lines(ctx, cpu, computations, lines)
