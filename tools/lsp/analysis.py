"""Facts about a text in an editor: errors, names, and the compiled programs of its schedules."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...codegen.lint.find_cliffs import lint
from ...codegen.lower.schedule_trace import TracedLine, line_head
from ...dsl import syntax
from ...dsl.errors import AndironError, UserError, UserErrors
from ...dsl.module import Module, load_with_mistakes
from ...dsl.source import Source, Span
from ...dsl.support.cached import cached_property
from ...dsl.text.parser import parse, read
from ...runtime.compile import compile_without_text
from ...runtime.kernel import Kernel
from ..checks.compile_schedules import check_schedules
from ..infer_target import infer_target
from ..schedule_lines import flat_lines, traced_lines
from .names import Occurrence, occurrences

_MOST = 64  # schedules kept
_outlines: dict[Any, Kernel] = {}


@dataclass(frozen=True)
class FilledLines:
    """Lines that the compiler put in below the author's line that ends at `at` (characters)."""

    at: int
    lines: tuple[str, ...]


class Analysis:
    """text  as the editor has it; `\\n` is its only line break
    name  what diagnostics call it; a path, where it has one
    """

    def __init__(self, text: str, name: str, base: str | Path | None = None) -> None:
        self.text = text
        self.name = name
        self.base = str(base) if base is not None else None
        self._kernels: dict[str, Kernel | UserError] = {}

    # ------------------------------------------------------------ mistakes

    @cached_property
    def _read(self) -> tuple[syntax.File | None, list, list[UserError]]:
        try:
            file, tokens = read(Source(self.name, self.text))
        except UserError as error:
            return None, [], _each(error)
        return file, list(tokens), []

    @property
    def file(self) -> syntax.File | None:
        """The syntax tree; None while the text cannot be parsed."""
        return self._read[0]

    @cached_property
    def _survey(self) -> tuple[Module | None, list[UserError]]:
        if self.file is None:
            return None, []
        try:
            module, found = load_with_mistakes(text=self.text, name=self.name, base=self.base)
        except UserError as error:
            return None, _each(error)
        return module, found.errors

    @property
    def module(self) -> Module | None:
        """Its declarations, as far as they make sense."""
        return self._survey[0]

    @cached_property
    def mistakes(self) -> list[UserError]:
        """All of them: of syntax, else of meaning and of schedules."""
        found = [*self._read[2], *self._survey[1]]
        if self.module is not None:
            well = {s.name for s in self.schedules if self.kernel(s)}
            found += [e for error in check_schedules(self.module, well) for e in _each(error)]
        return list({(e.id, e.message, e.span): e for e in found}.values())

    @cached_property
    def warnings(self) -> list[UserError]:
        """What is right and slow in schedules that compile."""
        found: list[UserError] = []
        for schedule in self.schedules:
            kernel = self.kernel(schedule)
            compiled = kernel.request.named if kernel is not None and kernel.request is not None else None
            if kernel is None or compiled is None:
                continue
            # It may have been compiled when its text stood elsewhere: its lines are the same, one by one.
            here = dict(zip(_places(compiled), _places(schedule), strict=True))
            for caution in lint(kernel.program, compiled):
                caution.span = here.get(caution.span or compiled.span, schedule.span)
                found.append(caution)
        return found

    # ------------------------------------------------------------ names

    @cached_property
    def names(self) -> list[Occurrence]:
        """Every name, in the order of the text."""
        file, tokens, _ = self._read
        return occurrences(file, tokens, dict(self.module.ops) if self.module else {}) if file else []

    def name_at(self, offset: int) -> Occurrence | None:
        """The name that the cursor is on, or just behind."""
        return next((o for o in self.names if o.start <= offset <= o.end), None)

    def all_of(self, name: Occurrence) -> list[Occurrence]:
        """Every place where the same thing is named."""
        return [o for o in self.names if o.symbol == name.symbol]

    # ------------------------------------------------------------ schedules

    @property
    def schedules(self) -> list[syntax.ScheduleDecl]:
        return [d for d in self.file.declarations if isinstance(d, syntax.ScheduleDecl)] if self.file else []

    def kernel(self, schedule: syntax.ScheduleDecl) -> Kernel | None:
        """The schedule compiled for its device; None where that cannot be."""
        if schedule.name not in self._kernels and self.module is not None:
            try:
                self._kernels[schedule.name] = _outlined(schedule, self.module)
            except UserError as error:
                self._kernels[schedule.name] = error
        found = self._kernels.get(schedule.name)
        return found if isinstance(found, Kernel) else None

    def traced(self, schedule: syntax.ScheduleDecl) -> list[tuple[syntax.Line, TracedLine | None]]:
        """Its lines, each with the spec it leaves."""
        kernel = self.kernel(schedule)
        return (
            [(line, None) for line, _ in flat_lines(schedule.lines)]
            if kernel is None
            else traced_lines(kernel.trace, schedule.lines)
        )

    def line_at(self, offset: int) -> tuple[syntax.ScheduleDecl, syntax.Line, TracedLine | None] | None:
        """The line of a schedule that the cursor is on."""
        row = self.text.count("\n", 0, offset)
        for schedule in self.schedules:
            for line, traced in self.traced(schedule):
                if self.text.count("\n", 0, line.span.start) == row:
                    return schedule, line, traced
        return None

    def explicit(self, schedule: syntax.ScheduleDecl) -> str | None:
        """The schedule with everything that was filled in."""
        kernel = self.kernel(schedule)
        return None if kernel is None else kernel.schedule.rstrip("\n")

    def extent(self, schedule: syntax.ScheduleDecl) -> tuple[int, int]:
        """Where a schedule's text begins and ends."""
        last = [line for line, _ in flat_lines(schedule.lines)][-1]
        end = self.text.find("\n", last.span.start)
        return schedule.span.start, len(self.text) if end < 0 else end

    def filled(self, schedule: syntax.ScheduleDecl) -> list[FilledLines]:
        """What the compiler filled in, each piece below the author's line after which it stands."""
        explicit = self.explicit(schedule)
        if explicit is None:
            return []
        written = [(line, head) for line, head in _heads(schedule)]
        made = _heads(next(d for d in parse(Source("<explicit>", explicit)).declarations if isinstance(d, syntax.ScheduleDecl)))
        found: list[FilledLines] = []
        matcher = difflib.SequenceMatcher(None, [h for _, h in written], [h for _, h in made], autojunk=False)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes():
            if tag in ("insert", "replace") and j1 < j2:
                anchor = written[max(i2 - 1, 0)][0] if tag == "replace" else written[max(i1 - 1, 0)][0]
                end = self.text.find("\n", anchor.span.start)
                found.append(FilledLines(len(self.text) if end < 0 else end, tuple(h.strip() for _, h in made[j1:j2])))
        return found


def _outlined(schedule: syntax.ScheduleDecl, module: Module) -> Kernel:
    """The schedule compiled; from before, where neither it nor what it may depend on has changed since."""
    key = (schedule, frozenset(x for x in module.declared.items() if x[0][0] != "schedule"))
    if key not in _outlines:
        target = infer_target(schedule.device, module) if schedule.device else "cpu"
        made = compile_without_text(module, schedule.op if schedule.op in module.ops else None, schedule.name, target)
        while len(_outlines) >= _MOST:
            del _outlines[next(iter(_outlines))]
        _outlines[key] = made
    return _outlines[key]


def _places(schedule: syntax.ScheduleDecl) -> list[Span]:
    return [schedule.span, *(line.span for line, _ in flat_lines(schedule.lines))]


def _heads(schedule: syntax.ScheduleDecl) -> list[tuple[syntax.Line, str]]:
    return [(line, "    " * depth + line_head(line)) for line, depth in flat_lines(schedule.lines)]


def _each(error: UserError) -> list[UserError]:
    return list(error.errors) if isinstance(error, UserErrors) else [error]


__all__ = ["Analysis", "AndironError", "FilledLines"]
