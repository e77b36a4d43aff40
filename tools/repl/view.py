"""The state of a session as text: the spec in focus after a line, its cost, and the change of the cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...codegen.lower.schedule_trace import TracedLine, bytes_text
from ...dsl.module import Module, std_module
from ...dsl.source import Source
from ...dsl.support.amounts import seconds_text
from ...dsl.syntax import ScheduleDecl
from ...dsl.text.parser import parse
from ...dsl.text.print_node import format_node
from ...runtime.random_inputs import default_sizes
from ...runtime.report import Report
from ..schedule_lines import traced_lines
from .state import NAME, ScheduleDraft, SessionState

if TYPE_CHECKING:
    from ...runtime.kernel import Kernel
    from .session import Session


def draft_report(kernel: Kernel) -> Report:
    """Its report, with sizes assumed where they are open."""
    return Report.of(kernel.op, kernel.variants, default_sizes(kernel.op, kernel.sizes), kernel.threads, kernel.notes)


def focus(kernel: Kernel, draft: ScheduleDraft) -> TracedLine | None:
    """What the draft's last line left in focus; before the first line, what there is to begin with."""
    nodes = [n for n in parse(Source(NAME, draft.text)).declarations if isinstance(n, ScheduleDecl)]
    lines = nodes[0].lines if draft.lines else ()
    found = [traced for _, traced in traced_lines(kernel.trace, lines) if traced is not None and traced.depth == 1]
    return found[-1] if found else next(iter(kernel.trace), None)


def show_step(session: Session, before: SessionState, after: SessionState) -> str:
    """The spec after the last line of a draft, and what it costs beside what it cost before. Raises what is wrong with it."""
    kernel = session.kernel(after)
    assert after.draft is not None
    found = focus(kernel, after.draft)
    out = []
    if found is not None:
        out += [f"    {spec}" for spec in found.specs]
        if found.effect:
            out.append(f"    {found.effect}")
    old = None
    if before.draft is not None and before.draft.name == after.draft.name and before.values == after.values:
        old = draft_report(session.kernel(before))
    report = draft_report(kernel)
    out += _folded(costs(report, old))
    if after.draft.complete and not (before.draft is not None and before.draft.complete):
        out.append("    nothing is open: `run`, `code`, `explain` show more; `undo` removes a line")
    out += [f"    note: {note}" for note in report.notes if old is None or note not in old.notes]
    return "\n".join(out)


def show_draft(session: Session, state: SessionState | None = None) -> str:
    """The schedule in the making, and the spec it leaves."""
    state = state or session.now
    assert state.draft is not None
    kernel = session.kernel(state)
    found = focus(kernel, state.draft)
    specs = [f"    {spec}" for spec in found.specs] if found is not None else []
    report = draft_report(kernel)
    assumed = {name: n for name, n in report.sizes.items() if name not in kernel.sizes}
    return "\n".join([state.draft.header.splitlines()[-1], *specs, *_folded(costs(report, None, assumed))])


def _folded(text: str, width: int = 116) -> list[str]:
    """Lines with a margin, folded between parts."""
    lines = [""]
    for part in text.split("; "):
        if lines[-1] and len(lines[-1]) + len(part) + 2 > width:
            lines[-1] += ";"
            lines.append(part)
        else:
            lines[-1] += f"; {part}" if lines[-1] else part
    return [f"    {line}" for line in lines]


def show_declared(module: Module, kind: str, name: str) -> str:
    """What was declared, in a line."""
    if kind == "op":
        op = module.ops[name]
        ranges = {str(i): str(extent) for s in op.statements for i, extent in s.ranges}
        return f"op {name}: " + ", ".join(f"{i} < {extent}" for i, extent in ranges.items())
    if kind == "device":
        device = module.devices[name]
        return f"device {name}: " + " > ".join(level.name for level in device.levels)
    if kind == "import":
        if name.startswith("std."):
            module = std_module(name.removeprefix("std."))
        return f"{name}: {len(module.ops)} ops, {len(module.devices)} devices, {len(module.schedules)} schedules"
    if kind == "language" and module.file.language is not None:
        return format_node(module.file.language)
    return f"{kind} {name}"


def costs(report: Report, old: Report | None, assumed: Mapping[str, int] | None = None) -> str:
    """Time, what bounds it, units and memory in a line; beside each what it was, where it changed; sizes that are `assumed`."""
    parts = []
    if report.bound is not None:
        time = seconds_text(report.seconds[report.bound])
        was = seconds_text(old.seconds[old.bound]) if old is not None and old.bound is not None else time
        sizes = " for " + ", ".join(f"{name}={n}" for name, n in assumed.items()) if assumed else ""
        parts.append(f"at least {_beside(time, was)}{sizes}, bound by {report.bound}")
    units = _units(report)
    if units:
        parts.append(_beside(units, _units(old) if old is not None else units))
    for memory, (held, has) in report.footprints.items():
        before = old.footprints.get(memory, (0, None))[0] if old is not None else held
        now = _beside(bytes_text(held), bytes_text(before))
        parts.append(f"{memory} {now}" + (f" of {bytes_text(has)}" if has else ""))
    if report.registers is not None:
        used = old.registers[0] if old is not None and old.registers is not None else report.registers[0]
        parts.append(f"registers {_beside(str(report.registers[0]), str(used))} of {report.registers[1]}")
    return "; ".join(parts) or "no rates are known of this device"


def _units(report: Report) -> str:
    most: dict[str, int] = {}
    for counts in report.units:
        for level, n in counts.items():
            most[level] = max(n, most.get(level, 0))
    return " x ".join(f"{n} {level}" for level, n in most.items() if n > 1)


def _beside(now: str, was: str) -> str:
    return now if now == was or not was else f"{now} (was {was})"
