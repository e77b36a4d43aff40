"""Lines that may come next, for `try` and for completion, from the spec in focus and from the device's text."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from ...codegen.lower.schedule_trace import TraceScope
from ...codegen.plan.derived_names import StagedCopy
from ...dsl.device import Device
from ...dsl.errors import UserError
from ...dsl.syntax import AutoLine
from .state import SessionState
from .view import focus

if TYPE_CHECKING:
    from ...codegen.enumerate_schedules import CandidateSchedule
    from ...runtime.kernel import Kernel
    from .session import Session

_SIZES = (8, 32, 128)


def next_lines(session: Session) -> list[str]:
    """Lines that might come next: tiles of every index, one after another or onto the next level, copies, instructions."""
    kernel, scope = draft_focus(session)
    if kernel is None or scope is None:
        return []
    device = kernel.program.device
    extents = {i: e.constant for i, e in scope.extents.items()}
    lines = []
    inner = levels_below(device, scope.level)
    for i, extent in extents.items():
        if extent == 1:
            continue
        for size in _SIZES:
            if extent is None or size < extent:
                lines.append(f"tile {i}: {size}")
                lines += [f"tile {i}: {size} -> {level}" for level in inner[:1]]
    outputs = {t.name for t in kernel.op.outputs}
    for tensor, memory in scope.places.items():
        if tensor in outputs:
            if memory != device.memories[-1].name:
                lines.append(f"keep {tensor} in {device.memories[-1].name}")
        elif not isinstance(tensor, StagedCopy):
            lines += [f"move {tensor} -> {m}" for m in _memories_below(device, memory)]
    families = dict.fromkeys(i.family or i.name for i in device.instrs if not is_copy_instr(i))
    return [*lines, *(f"compute with {name}" for name in families), "compute"]


def complete_schedules(session: Session, state: SessionState, most: int = 5) -> list[CandidateSchedule]:
    """The best schedules that the model knows, of those in which the draft's lines stay; empty where it has no opinion."""
    from ...codegen.enumerate_schedules import candidate_schedules, is_open

    try:
        request = session.kernel(state).request
        base = request.schedules[0] if request is not None else None
        if request is None or base is None:
            return []
        if not is_open(base, request.device, request.module):
            base = replace(base, lines=(*base.lines, AutoLine()))
        found = candidate_schedules(request.special, request.device, base, request.module, request.values)
        return [p for p in islice(found, most) if p.seconds is not None]
    except UserError:
        return []


def draft_focus(session: Session) -> tuple[Kernel | None, TraceScope | None]:
    """The kernel of the schedule in the making, and what its last line left in focus."""
    try:
        kernel = session.kernel()
    except UserError:
        return None, None
    if session.now.draft is None:
        return kernel, next((t.scope for t in kernel.trace if t.scope), None)
    found = focus(kernel, session.now.draft)
    return kernel, found.scope if found is not None else None


def levels_below(device: Device, level: str) -> list[str]:
    names = [x.name for x in device.levels]
    return names[names.index(level) + 1 :]


def _memories_below(device: Device, memory: str) -> list[str]:
    names = [m.name for m in device.memories]
    return names[names.index(memory) + 1 :]


def is_copy_instr(instr) -> bool:
    """Whether an instruction only moves."""
    return not instr.accumulate
