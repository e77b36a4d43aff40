"""The lines of a schedule for lowering: strategies, parameters and roles resolved, `auto` where `compute` is missing."""

from __future__ import annotations

from typing import Any

from ...dsl import syntax
from ...dsl.device import Device
from ...dsl.errors import Diagnostics
from ...dsl.errors.schedule import DeviceMismatch
from ...dsl.op import Op
from .elaborate import RoleNames, elaborate
from .implicit_auto import append_auto


def check_device(module: Any, schedule: syntax.ScheduleDecl, device: Device) -> None:
    """`on D` fits D and the devices that extend it. Raises DeviceMismatch."""
    names, decl = [device.name], device.decl
    while decl is not None and decl.extends is not None:
        names.append(decl.extends)
        decl = module.device(decl.extends).decl
    if schedule.device is not None and schedule.device not in names:
        raise DeviceMismatch(
            f"schedule `{schedule.name}` is for {schedule.device}, not for {device.name}",
            schedule.span,
            help=f"compile for {schedule.device}, or leave `on {schedule.device}` out",
        )


def explicit_lines(
    module: Any,
    op: Op,
    schedule: syntax.ScheduleDecl | None,
    device: Device,
    roles: RoleNames,
    params,
    diagnostics: Diagnostics,
) -> tuple:
    """The lines as written, strategies, parameters and roles resolved; `auto` stands where they break off."""
    if schedule is None:
        return ()
    sizes = {name: value for name, value in op.params if value is not None}
    taken = {x.name: "a level" for x in device.levels} | {x.name: "a memory" for x in device.memories}
    taken |= {i: "an index" for s in op.statements for i, _ in s.ranges} | {t.name: "a tensor" for t in op.tensors}
    taken |= {n: "a size of the op" for n in (*(v.name for v in op.dims), *(v.name for v, _ in op.derived), *dict(op.params))}
    strategies = getattr(module, "strategies", {}) or {}
    lines = elaborate(schedule, strategies, roles, params, sizes, taken, diagnostics)
    return append_auto(lines, device.memories[0].name)
