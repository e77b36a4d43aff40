"""The pipeline: from an op, a schedule and a device to a tile program. It is a list of passes, which reads from top to bottom.

ONCE    the author's text is read and checked, before anything is chosen.
A_TRY   the program of one choice. If it cannot be compiled after all, these passes run again with the next choice
        (`schedule.schedule_fallback`).

One step is no pass: printers rewrite the text of a dialect (`emit`), which is no tile program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from ..dsl import syntax
from ..dsl.device import Device
from ..dsl.errors import UserError
from ..dsl.op import Op
from ..dsl.support.stack_room import with_stack_room
from . import passes
from .lower_launches import UnkeptIntermediate
from .passes import Compilation, CompiledProgram
from .schedule.schedule_fallback import ScheduleAttempts


@dataclass(frozen=True)
class Pass:
    """`takes`, `gives`: what of a `Compilation`."""

    run: Callable[[Compilation], None]
    takes: str
    gives: str

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def why(self) -> str:
        """Why it stands where it stands."""
        return self.run.__doc__ or ""


ONCE = (
    Pass(passes.bound_sizes, "op, schedule", "op"),
    Pass(passes.expand_schedule, "schedule", "lines"),
    Pass(passes.bind_parameters, "op", "op"),
    Pass(passes.name_factors, "op, lines", "op"),
    Pass(passes.check_names, "op, lines", "mistakes"),
)
A_TRY = (
    Pass(passes.plan_launches, "op, lines", "launches"),
    Pass(passes.complete_schedules, "launches", "schedule trees"),
    Pass(passes.lower_launches, "schedule trees", "program"),
    Pass(passes.check_coverage, "program", "mistakes"),
    Pass(passes.check_contributions, "program", "mistakes"),
    Pass(passes.pipeline_copies, "program", "program"),
    Pass(passes.check_capacity, "program", "mistakes"),
    Pass(passes.prove_guards, "program", "program"),
    Pass(passes.place_barriers, "program", "program"),
    Pass(passes.hoist_invariants, "program", "program"),
    Pass(passes.vectorize, "program", "program, and another"),
    Pass(passes.narrow_indices, "programs", "programs"),
    Pass(passes.narrow_comparisons, "programs", "programs"),
    Pass(passes.version_guards, "programs", "programs"),
    Pass(passes.print_schedule, "schedule trees", "text"),
)
PASSES = (*ONCE, *A_TRY)

Observer = Callable[[Pass, Compilation, float], None]


def run(todo: tuple[Pass, ...], c: Compilation, observer: Observer | None = None) -> None:
    """One pass after another. The observer is told what each left, and the seconds it took."""
    for x in todo:
        began = perf_counter()
        x.run(c)
        if observer is not None:
            observer(x, c, perf_counter() - began)


@with_stack_room
def compile_program(
    module: Any,
    op: Op,
    schedule: syntax.ScheduleDecl | None,
    device: Device,
    params: Mapping[str, int] | None = None,
    observer: Observer | None = None,
) -> CompiledProgram:
    """`params`: numbers for parameters of the schedule; those of the op are its defaults, where `bind_params` gave no others.

    Raises UserErrors for what cannot be compiled correctly, with the line that asks for it; MissingParameter.
    """
    c = Compilation(module, op, schedule, device, params)
    run(ONCE, c, observer)
    while True:
        try:
            return compile_schedule(copy(c), observer)
        except UnkeptIntermediate:
            c.joined, c.attempts = frozenset(), ScheduleAttempts()
        except UserError as error:
            c.attempts.reject_current(error)


def compile_schedule(c: Compilation, observer: Observer | None = None) -> CompiledProgram:
    """The program by these lines, and by what is chosen where they are open."""
    run(A_TRY, c, observer)
    return c.result()
