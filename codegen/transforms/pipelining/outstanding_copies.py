"""The number of asynchronous copies that are made under all conditions."""

from __future__ import annotations

from ....dsl.device import Instr
from ...ir.tile_ir import Alloc, Call, For, If
from .copy_batches import Body


def least_issued(body: Body, kind: str, instrs: dict[str, Instr]) -> int:
    """The least number of copies of that kind that a unit issues in the statements."""
    total = 0
    for s in body:
        match s:
            case Call():
                awaits = instrs[s.instr].awaits
                total += awaits is not None and awaits[0] == kind
            case For():
                trips = (s.stop - s.start).constant
                if trips is not None and s.step.constant == 1:
                    total += max(0, trips) * least_issued(s.body, kind, instrs)
            case Alloc():
                total += least_issued(s.body, kind, instrs)
            case If():
                total += min(least_issued(s.body, kind, instrs), least_issued(s.orelse, kind, instrs))
    return total
