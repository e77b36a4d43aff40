"""Compiles a file: each schedule for its device, and each op without a schedule by the compiler's own.

A schedule without a device is for this machine's CPU, if that has its levels and memories; otherwise for the usual GPUs that
have them, and it is fine if it compiles for one of them. A schedule for any contraction is fine if it compiles for one of the
module's ops.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace

from ...codegen.emit.printers import emit
from ...codegen.pipeline import CompiledProgram, compile_program
from ...codegen.schedule.required_levels import available_names, required_names
from ...codegen.targets import FAMILIES, has_blocks
from ...dsl import syntax
from ...dsl.device import Device
from ...dsl.errors import InternalError, UserError, did_you_mean
from ...dsl.errors.op import MissingParameter
from ...dsl.errors.schedule import UnknownOpInSchedule
from ...dsl.module import Module
from ...dsl.op import Op
from ...dsl.ops.index_syntax import word_span
from ...dsl.ops.specialise import bind_params
from ...dsl.source import Span
from ...runtime.devices import is_default_for, native_device, schedules_for
from ..infer_target import infer_target


@dataclass(frozen=True)
class CompiledCase:
    """An op by one schedule (None: the compiler's own) for one device, and what compiling it gave: a program, or a mistake.

    Neither: an op whose parameters have no values, of which the file alone does not say what to compile.
    """

    module: Module
    op: Op
    schedule: syntax.ScheduleDecl | None
    device: Device
    compiled: CompiledProgram | None = None
    error: UserError | None = None


def check_schedules(module: Module, known: Container[str] = ()) -> Iterator[UserError]:
    """The mistakes of all schedules of a module. Those whose names are in `known` are passed over."""
    for found in compile_all_schedules(module, known):
        if isinstance(found, UserError):
            yield found
        else:
            yield from first_mistake(found)


def first_mistake(cases: Sequence[CompiledCase]) -> Iterator[UserError]:
    """Of the cases of one schedule: the first error, where none of them compiles."""
    errors = [c.error for c in cases]
    if errors and None not in errors:
        yield next(e for e in errors if e is not None)


def compile_all_schedules(module: Module, known: Container[str] = ()) -> Iterator[list[CompiledCase] | UserError]:
    """The cases of each schedule of a module, imported ones too; an error for one that names what is not there."""
    for decl in module.schedules.values():
        if decl.name in known or _waits(module, decl):
            continue
        try:
            devices = devices_of(module, decl)
            if decl.op in module.ops:
                ops = [module.ops[decl.op]]
            elif decl.op == "contraction":
                ops = list(module.ops.values())
            else:
                message = f"schedule `{decl.name}` is for `{decl.op}`, which is no op here"
                raise UnknownOpInSchedule(message, word_span(decl.span, decl.op), help=did_you_mean(decl.op, module.ops))
        except UserError as error:
            yield error
            continue
        yield [compile_case(module, op, decl, device) for device in devices for op in ops]


def compile_unscheduled_ops(module: Module) -> Iterator[CompiledCase]:
    """The ops that the file declares and that none of its schedules is for, by the compiler's own for this machine."""
    device = native_device()
    for decl in module.file.declarations:
        if not isinstance(decl, syntax.OpDecl) or decl.name not in module.ops:
            continue
        if not any(is_default_for(s, device, module) for s in schedules_for(module, decl.name)):
            yield compile_case(module, module.ops[decl.name], None, device)


def compile_case(module: Module, op: Op, schedule: syntax.ScheduleDecl | None, device: Device) -> CompiledCase:
    """One op by one schedule, compiled."""
    try:
        bound = bind_params(op, {})
    except MissingParameter:
        return CompiledCase(module, op, schedule, device)
    try:
        return CompiledCase(module, bound, schedule, device, compile_program(module, bound, schedule, device))
    except UserError as error:
        return CompiledCase(module, bound, schedule, device, error=error)


def emitted(found: CompiledCase) -> str:
    """The text of a case that compiled. Raises what printing raises; an InternalError says which schedule it was."""
    assert found.compiled is not None
    family = FAMILIES.get(infer_target(found.device.name, found.module).partition(":")[0])
    dialect = family.dialect if family else "emulate" if has_blocks(found.device) else "cpp"
    try:
        return emit(found.compiled.program, dialect)
    except InternalError as error:
        which = f"schedule `{found.schedule.name}`" if found.schedule else "the compiler's own schedule"
        raise InternalError(f"{error.message} ({which} for {found.op.name} on {found.device.name})") from error


def devices_of(module: Module, decl: syntax.ScheduleDecl) -> list[Device]:
    """What a schedule is checked for. Raises UnknownDevice."""
    if decl.device:
        return [module.device(decl.device, word_span(_head(decl), decl.device) or decl.span)]
    native = native_device()
    usual = [module.device(f.usual) for f in FAMILIES.values() if f.usual]
    said = required_names(decl.lines, module.strategies) & {n for d in (native, *usual) for n in available_names(d)}
    if said <= available_names(native):
        return [native]
    return [d for d in usual if said <= available_names(d)] or [native]


def _head(decl: syntax.ScheduleDecl) -> Span:
    """The whole first line."""
    text = decl.span.source.text
    end = text.find("\n", decl.span.start)
    return replace(decl.span, end=len(text) if end < 0 else end)


def _waits(module: Module, decl: syntax.ScheduleDecl) -> bool:
    """Whether the schedule's op or device is declared but has mistakes of its own, which are reported first."""
    broken = ("op", decl.op) in module.declared and decl.op not in module.ops
    return broken or (("device", decl.device) in module.declared and decl.device not in module.devices)
