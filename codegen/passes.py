"""The passes of the compiler: each reads a part of a compilation, and replaces a part of it. Its docstring says why it stands
where it stands in the list (`codegen/pipeline.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..dsl import syntax
from ..dsl.device import Device
from ..dsl.errors import Diagnostics, UserError
from ..dsl.op import Op
from ..dsl.ops.specialise import bind_params
from ..dsl.support.cached import cached_property
from ..dsl.support.fast_replace import replace
from .autoschedule.launches.launches_of_op import apart_tensors, joined_intermediates, launches_of
from .autoschedule.launches.named_factors import with_named_factors
from .autoschedule.op_context import context_of
from .autoschedule.row_parts.choice import with_rows_in_parts
from .coverage.check_contributions import check_contributions as check_contributions_of
from .coverage.check_coverage import check_coverage as check_coverage_of
from .ir.program import Program
from .lower.capacity import check_capacity as check_capacity_of
from .lower.lowering_context import LoweringContext
from .lower.schedule_trace import ScheduleTrace, TracedLine
from .lower_launches import CompletePart, Part, lower_unaligned
from .lower_launches import complete_schedules as complete_all
from .lower_launches import lower_launches as lower_all
from .schedule.check_names import check_names as check_names_of
from .schedule.elaborate import RoleNames
from .schedule.explicit_lines import check_device, explicit_lines
from .schedule.print_schedule import lines_with_blocks, schedule_text
from .schedule.roles import roles_of
from .schedule.schedule_fallback import ScheduleAttempts
from .schedule.size_bounds import with_size_bounds
from .transforms.barriers.place_barriers import place_barriers as with_barriers
from .transforms.licm import hoist_invariants as hoisted
from .transforms.multiversion import in_each_version, vectorize_accesses, with_narrow_sizes
from .transforms.narrow_comparisons import narrow_comparisons as compared_narrowly
from .transforms.pipelining.software_pipeline import pipeline_copies as staged
from .transforms.prove_guards import prove_guards as proven
from .transforms.version_guards import version_guards as versions


@dataclass(frozen=True)
class CompiledProgram:
    """A tile program, the explicit schedule it follows (as text), and what is known of it without running."""

    program: Program
    schedule: str
    report: Mapping[str, Any] = field(default_factory=dict)
    steps: ScheduleTrace = field(default_factory=ScheduleTrace)

    @cached_property
    def trace(self) -> tuple[TracedLine, ...]:
        """Each line of the schedule, with the spec that it left."""
        return self.steps.result()


@dataclass
class Compilation:
    """What one compilation knows so far. A pass reads some of it, and puts back what it made.

    lines      of the schedule          parts      the computations and lines of each launch; `trees`: without open parts
    joined     intermediates that completion keeps in the launch of their readers; None: what it likes best
    program    the tile program         unaligned  the one for sizes that runs of copies are not aligned for; None: the same
    coverage   what `check_coverage` did not prove for all sizes; `contributions`: what `check_contributions` did not
    """

    module: Any
    op: Op
    schedule: syntax.ScheduleDecl | None
    device: Device
    params: Mapping[str, int] | None = None
    attempts: ScheduleAttempts = field(default_factory=ScheduleAttempts)
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    lines: tuple = ()
    joined: frozenset[str] | None = None
    context: LoweringContext = field(init=False)
    parts: list[Part] = field(default_factory=list)
    trees: list[CompletePart] = field(default_factory=list)
    program: Program = field(init=False)
    unaligned: Program | None = None
    notes: tuple[str, ...] = ()
    coverage: str = ""
    contributions: str = ""
    text: str = ""

    def transform(self, transform: Callable[[Program], Program]) -> None:
        """Replaces the program, and the one for unaligned sizes: launches that both have are transformed once."""
        before, self.program = self.program, transform(self.program)
        if self.unaligned is None:
            return
        both = list(zip(before.launches, self.program.launches, strict=True))
        done = [next((after for x, after in both if x == mine), None) for mine in self.unaligned.launches]
        own = tuple(x for x, after in zip(self.unaligned.launches, done, strict=True) if after is None)
        rest = iter(transform(replace(self.unaligned, launches=own)).launches)
        self.unaligned = replace(self.unaligned, launches=tuple(after or next(rest) for after in done))

    def result(self) -> CompiledProgram:
        """What all passes made."""
        notes = tuple(dict.fromkeys((*self.attempts.notes, *self.context.notes, *self.notes)))
        report = {
            "notes": notes,
            "choices": tuple(self.context.choices),
            "coverage": self.coverage,
            "contributions": self.contributions,
            "alternatives": tuple(self.context.alternatives),
        }
        return CompiledProgram(self.program, self.text, report, self.context.trace)


# ---------------------------------------------------------------- once


def bound_sizes(c: Compilation) -> None:
    """A size's bound is a fact about the op. It must be known before any expression is simplified."""
    if c.schedule is not None:
        check_device(c.module, c.schedule, c.device)
    c.op = with_size_bounds(c.op, c.schedule)


def expand_schedule(c: Compilation) -> None:
    """All later passes read lines without strategies, parameters and roles."""
    roles = roles_of(c.module, c.op, c.schedule) if c.schedule is not None else RoleNames()
    c.lines = explicit_lines(c.module, c.op, c.schedule, c.device, roles, c.params, c.diagnostics)


def bind_parameters(c: Compilation) -> None:
    """Programs have no parameters. A parameter without a number takes its default, or is reported as missing."""
    c.op = bind_params(c.op)


def name_factors(c: Compilation) -> None:
    """A computed factor gets a name if a line, or a choice, materialises it. Other factors stay in their expressions."""
    c.op = with_named_factors(c.op, c.device, c.lines)


def check_names(c: Compilation) -> None:
    """Mistakes in names are reported together. Lowering would stop at the first one."""
    check_names_of(c.op, c.device, c.lines, c.diagnostics)


# ---------------------------------------------------------------- a try


def plan_launches(c: Compilation) -> None:
    """Lines belong to a launch. The computations of each launch must be known first."""
    c.context = replace(context_of(c.op, c.device), attempts=c.attempts)
    if c.joined is None:
        c.lines = with_rows_in_parts(c.op, c.device, c.lines, c.context)
        c.joined = joined_intermediates(c.op, c.device, c.lines, c.context)
    c.parts = launches_of(c.op, c.device, c.lines, c.joined)


def complete_schedules(c: Compilation) -> None:
    """A node of a schedule tree is lowered with those below it. What is open must be chosen first."""
    c.trees = complete_all(c.context, c.parts, c.joined or frozenset())


def lower_launches(c: Compilation) -> None:
    """Schedule trees become statements. The launches of split reductions follow from those that split them."""
    c.program = lower_all(c.context, c.op, c.trees)
    c.unaligned = lower_unaligned(c.context, c.op)


def check_coverage(c: Compilation) -> None:
    """What lowering built is checked as it built it: copies are made in the iteration that reads them, and have one buffer."""
    c.coverage = check_coverage_of(c.program, c.op, c.schedule and c.schedule.span)


def check_contributions(c: Compilation) -> None:
    """What statements add is known while each stands as lowering built it. Elements that nothing writes were refused before."""
    c.contributions = check_contributions_of(c.program, c.op, c.schedule and c.schedule.span)


def pipeline_copies(c: Compilation) -> None:
    """Rotating buffers are in memory at the same time. Capacities count all of them, and barriers order accesses to them."""
    c.program = staged(c.program, c.context.note)
    c.unaligned = c.unaligned and staged(c.unaligned, lambda text: None)


def check_capacity(c: Compilation) -> None:
    """Only the whole program shows which buffers are alive together. Nothing costly was done for it yet."""

    def tried(lines: tuple) -> Program | None:
        """The program of other lines, when they can be lowered. Other programs of it have the same buffers."""
        try:
            parts = launches_of(c.op, c.device, lines, c.joined)
            numbers = c.context.synthetic_line_numbers
            context = replace(context_of(c.op, c.device), synthetic_line_numbers=numbers, unaligned=False)
            trees = complete_all(context, parts, known=tuple(zip(c.parts, c.trees, strict=True)))
            return staged(lower_all(context, c.op, trees), lambda text: None)
        except UserError:
            return None

    again = (lambda lines: None) if c.attempts.notes else tried
    check_capacity_of(c.program, c.lines, c.schedule and c.schedule.span, c.context.notes, again, c.context.nameable)


def prove_guards(c: Compilation) -> None:
    """A barrier may stand only in uniform control flow. Fewer guards leave more of it uniform."""
    c.transform(proven)


def place_barriers(c: Compilation) -> None:
    """Barriers follow from the remaining accesses. Each access still stands in the program once."""
    # Units that an instruction drives together may be apart for the compiler of the text: they meet explicitly.
    lockstep = any(level.width for level in c.device.levels)
    c.transform(lambda program: with_barriers(program, lockstep))


def hoist_invariants(c: Compilation) -> None:
    """Invariants leave a loop while the loop has one version."""
    c.transform(hoisted)


def vectorize(c: Compilation) -> None:
    """Barriers depend on elements, not on the width of an access. Conditions that calls decide make a second program."""
    c.program, c.notes = vectorize_accesses(c.program, c.unaligned)
    c.unaligned = None


def narrow_indices(c: Compilation) -> None:
    """A bound on a size is a condition on calls. By now there is another program for calls that do not meet it."""
    c.program = with_narrow_sizes(c.program)


def narrow_comparisons(c: Compilation) -> None:
    """Whether an index fits in 32 bits is known once sizes have bounds."""
    c.program = in_each_version(compared_narrowly, c.program)


def version_guards(c: Compilation) -> None:
    """Versions copy code, so they come last. They keep away from statements that contain a barrier."""
    c.program = in_each_version(versions, c.program)


def print_schedule(c: Compilation) -> None:
    """The explicit schedule heads the program. No pass changes the program after this one."""
    filled, without = c.context.filled_lines, c.context.without_instr
    written = [(computations, lines_with_blocks(tree, filled, without)) for computations, tree in c.trees]
    apart = apart_tensors(c.op, c.device, c.lines, c.joined)
    c.text = schedule_text(c.op, c.schedule, c.device, written, apart, c.lines)
    c.program = replace(c.program, head=c.text)
