"""Candidates for a kernel: values of its schedule's parameters and completions of its open lines, the best first."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice, product
from typing import TYPE_CHECKING

from ...codegen.enumerate_schedules import CandidateSchedule, candidate_schedules, is_open
from ...codegen.schedule.parameters import parameters
from ...dsl import syntax
from ...dsl.errors import UserError
from ...dsl.errors.run import CannotTune
from ...dsl.ops.index_syntax import index_term

if TYPE_CHECKING:
    from ..compile import CompileRequest

AS_IT_WAS = "as it was"  # of the schedule without tuning
_MOST = 256  # values of parameters that are looked at together
Values = Mapping[str, int]


def leaves_all_open(schedule: syntax.ScheduleDecl | None) -> bool:
    """Whether the whole schedule is the compiler's choice. Then a search may change any line of it."""
    return schedule is None or all(isinstance(x, syntax.AutoLine) for x in schedule.lines)


def leaves_open(request: CompileRequest, place: int) -> bool:
    """Whether one of the request's schedules leaves something open: a line, a size, or the value of a parameter."""
    base = request.schedules[place]
    return _leaves_open(request, base, list(_assignments(request, base)))


def tuning_candidates(request: CompileRequest, place: int) -> Iterator[tuple[CandidateSchedule, Values]]:
    """Schedules for the place of one of the request's, each with values for its parameters. The first is that one itself.

    Raises CannotTune where that one leaves nothing open.
    """
    base = request.schedules[place]
    choices = list(_assignments(request, base))
    if base is not None and not _leaves_open(request, base, choices):
        raise CannotTune(
            f"schedule `{base.name}` leaves nothing open",
            base.span,
            help="write `auto` for a line or a size, or a `param`; `auto` as the schedule's name is the compiler's own",
        )
    return _all(request, base, choices)


def _all(
    request: CompileRequest, base: syntax.ScheduleDecl | None, choices: list[Values]
) -> Iterator[tuple[CandidateSchedule, Values]]:
    own = base or syntax.ScheduleDecl(f"{request.op.name}_auto", request.op.name, None, (), None, (), (syntax.AutoLine(),))
    yield CandidateSchedule(own, None, "", AS_IT_WAS), choices[0]
    # The best of each assignment, then the second best of each, ...
    ways = [(values, _of(request, base, values)) for values in choices]
    while ways:
        left = []
        for values, found in ways:
            one = next(found, None)
            if one is None:
                continue
            left.append((values, found))
            said = ", ".join(f"{n}={v}" for n, v in values.items())
            about = "; ".join(x for x in (said, one.about) if x)
            yield replace(one, about=about), values if one.schedule is base else {}
        ways = left


def _leaves_open(request: CompileRequest, base: syntax.ScheduleDecl | None, choices: list[Values]) -> bool:
    return base is None or len(choices) > 1 or _open(request, base)


def _open(request: CompileRequest, base: syntax.ScheduleDecl) -> bool:
    return is_open(base, request.device, request.module)


def _of(request: CompileRequest, base: syntax.ScheduleDecl | None, values: Values) -> Iterator[CandidateSchedule]:
    if base is not None and values:
        yield CandidateSchedule(base, None, "", "")
    if base is None or _open(request, base):
        try:
            yield from candidate_schedules(request.special, request.device, base, request.module, values)
        except UserError:
            return  # these values of the parameters make no schedule


def _assignments(request: CompileRequest, base: syntax.ScheduleDecl | None) -> Iterator[Values]:
    """Values of the schedule's parameters: as they are, each other value of one, then of several at once."""
    ranges = {
        name: found
        for name, line in parameters(base).items()
        if len(found := [n for v in (line.default, *line.values) if v is not None and (n := _number(v)) is not None]) > 1
    }
    ranges = {name: list(dict.fromkeys(found)) for name, found in ranges.items() if name not in request.values}
    first = {**request.values, **{name: found[0] for name, found in ranges.items()}}
    yield first
    single = [{**first, name: n} for name, found in ranges.items() for n in found[1:]]
    yield from single
    seen = [first, *single]
    several = list(
        islice(({**request.values, **dict(zip(ranges, x, strict=True))} for x in product(*ranges.values())), 1 << 16)
    )
    random.Random(0).shuffle(several)  # those that differ a little stand together
    yield from islice((x for x in several if x not in seen), _MOST)


def _number(value: syntax.Expr) -> int | None:
    try:
        return index_term(value, {}).constant
    except UserError:
        return None  # compiling says what is wrong with it
