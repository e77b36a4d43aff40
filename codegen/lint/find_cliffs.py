"""Performance cliffs: statements of a tile program that are right and slow, found without running it.

    lint(program, decl) -> warnings       each at the line of the schedule that causes it, or at the schedule's head

    units.one_for_all   few of many units store or copy elements that all could share
    units.idle          blocks smaller than an instruction needs; units that never do anything
    access.strided      units in lockstep that read or write far apart
    registers           more registers than the device has

It knows only the program, not how it was made. It does not warn of the compiler's own choices, for which the author wrote
`auto`.
"""

from __future__ import annotations

from ...dsl import syntax
from ...dsl.errors.warning import Caution
from ...dsl.source import Span
from ..ir.program import Program
from .idle_units import idle_units, lone_units
from .register_use import excess_registers
from .strided_access import strided_accesses
from .typical_block import typical_block


def lint(program: Program, decl: syntax.ScheduleDecl) -> list[Caution]:
    """The warnings of a program compiled by a schedule, in the order of its lines; each is said once a line."""
    mine = tuple(x.span for x in syntax.all_lines(decl.lines))
    found: list[tuple[Span | None, Caution]] = list(excess_registers(program, mine))
    for launch in program.launches:
        block = typical_block(program, launch)
        if block is not None:
            found += [*lone_units(block, mine), *idle_units(block, decl), *strided_accesses(block, mine, decl)]
    out: dict[tuple, Caution] = {}
    chosen = any(isinstance(x, syntax.AutoLine) for x in decl.lines)
    for span, caution in found:
        if span is None and chosen:
            continue
        caution.span = span or decl.span
        out.setdefault((caution.id, caution.span), caution)
    return sorted(out.values(), key=lambda c: c.span.start if c.span else -1)
