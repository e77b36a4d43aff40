"""`check --verify`: registers that a compiler for the device spills."""

from __future__ import annotations

from collections.abc import Iterator

from ...codegen.lower.schedule_trace import bytes_text
from ...codegen.targets import has_blocks, target_of
from ...dsl.errors import UserError
from ...dsl.errors.target import CompilerFailed, NoCompiler
from ...dsl.errors.warning import Spills
from ...runtime.devices import Lineages
from ...runtime.gpu.resource_usage import resource_usage
from ...runtime.variant import Variant
from ..infer_target import infer_target
from .compile_schedules import CompiledCase, emitted


def spill_warnings(case: CompiledCase) -> Iterator[UserError]:
    """A warning for each kernel of a schedule that spills. Nothing where no compiler for the device is found."""
    if case.compiled is None or case.schedule is None or not has_blocks(case.device) or case.device.limit("units") is None:
        return
    target = target_of(infer_target(case.device.name, case.module), Lineages(case.module))
    if target.family.launcher != "driver":
        return
    made = case.compiled
    try:
        found = resource_usage(Variant(made.program, emitted(case), made.schedule, target, made.report, made.steps))
    except (NoCompiler, CompilerFailed):
        return
    for kernel in found:
        if kernel.spills:
            yield Spills(
                f"{kernel.kernel}: the compiler stores {bytes_text(kernel.spills)} a thread for lack of registers; it takes "
                f"{kernel.registers} of them",
                case.schedule.span,
                help="keep smaller tiles in registers, or fewer copies in flight",
            )
