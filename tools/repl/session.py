"""A session: it takes cells as they are typed, and answers with text.

A cell is a declaration, a line of the unfinished schedule (with the block nested below it), or a command. A cell with an error
changes nothing. No terminal is needed, so scripts and tests use a session as people do.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...codegen.schedule.parameters import parameters
from ...dsl.device import Device
from ...dsl.errors import UserError, did_you_mean
from ...dsl.errors.repl import NothingToSchedule, NotUnderstood
from ...dsl.module import Module, load_with_mistakes, loads
from ...grammar.words import words
from ..infer_target import infer_target
from .commands import COMMANDS, command
from .state import NAME, ScheduleDraft, SessionState, declarations, draft_of
from .view import show_declared, show_draft, show_step

if TYPE_CHECKING:
    from ...runtime.kernel import Kernel


class Session:
    """say   where answers go, a text at a time
    base  the folder that relative imports start from
    """

    def __init__(self, say: Callable[[str], None] = print, base: str | Path = ".", target: str | None = None) -> None:
        self.say = say
        self.say_code = say  # emitted text
        self.progress: Callable[[str], None] = _progress
        self.base = Path(base)
        self.now = SessionState(target=target)
        self.past: list[SessionState] = []
        self.future: list[SessionState] = []
        self.over = False

    # ------------------------------------------------------------ cells

    def feed(self, cell: str) -> None:
        """Takes one cell. Raises the diagnostics of what is wrong with it; then nothing has changed."""
        cell = textwrap.dedent(cell).strip("\n")
        code = "\n".join(line for line in cell.splitlines() if not line.lstrip().startswith("#")).strip()
        if not code:
            return
        word = code.split(None, 1)[0].rstrip(":")
        if word in words().declarations:
            self.declare(cell)
        elif word in (*words().lines, "auto"):
            self.line(cell)
        elif word in COMMANDS:
            command(self, code)
        else:
            known = [*COMMANDS, *words().lines, *words().declarations]
            raise NotUnderstood(f"`{word}` begins no line, no declaration and no command", help=_help(word, known))

    def declare(self, text: str, name: str | None = None) -> None:
        """One or more declarations. A schedule becomes the one in the making. All mistakes are raised at once.

        name  the file that the text is the whole of, where nothing else is declared: mistakes are told by its lines
        """
        first = text.split("\n", 1)[0].rstrip()
        if first.startswith(("schedule", "strategy")) and first.endswith(":") and "\n" not in text.strip():
            text += "\n    auto\n"  # its lines come one by one
        found = declarations(text + "\n")
        after = self.now
        for kind, named, own, _ in found:
            after = after.with_schedule(draft_of(own + "\n")) if kind == "schedule" else after.with_declared(kind, named, own)
        before = {n for kind, n in self.now.declared if kind == "schedule"} - {
            n for kind, n, _, _ in found if kind == "schedule"
        }
        from ..checks.compile_schedules import check_schedules

        module, mistakes = load_with_mistakes(text=text if name else after.text, name=name or NAME, base=str(self.base))
        for error in check_schedules(module, before):
            mistakes.add(error)
        mistakes.raise_if_any()

        drawn = after.draft.name if after.draft is not None else None
        shown = [
            show_draft(self, after) if kind == "schedule" and named == drawn else show_declared(module, kind, named)
            for kind, named, _, _ in found
        ]
        self.step(after)
        for said in shown:
            self.say(said)

    def line(self, text: str) -> None:
        """A line, or several, for the schedule in the making."""
        before = self.now
        after = before if before.draft is not None else before.with_schedule(self._first_draft())
        assert after.draft is not None
        draft = after.draft
        for item in draft_of(f"schedule {draft.name} for {draft.op}:\n{textwrap.indent(text, '    ')}\n").lines or ("auto",):
            draft = draft + item
        after = replace(after, draft=draft)
        shown = show_step(self, before, after)
        self.step(after)
        self.say(shown)

    def _first_draft(self) -> ScheduleDraft:
        """For the only op there is."""
        ops = list(self.module().ops)
        if len(ops) != 1:
            said = "there is no op yet" if not ops else f"there are several ops: {', '.join(ops[:6])}"
            raise NothingToSchedule(f"{said}; which is this line for?", help="say `schedule NAME for OP:` first")
        return ScheduleDraft("draft", ops[0], None, f"schedule draft for {ops[0]}")

    # ------------------------------------------------------------ states

    def step(self, after: SessionState) -> None:
        """From one state to the next, which can be undone."""
        if after != self.now:
            self.past.append(self.now)
            self.future.clear()
            self.now = after

    def module(self, state: SessionState | None = None) -> Module:
        """Raises the mistakes of the state's text."""
        return loads((state or self.now).text, NAME, base=self.base)

    def target(self, state: SessionState | None = None) -> str:
        """What the schedule in the making is compiled for."""
        state = state or self.now
        if state.target is not None:
            return state.target
        device = state.draft.device if state.draft else None
        return "cpu" if device is None else infer_target(device, self.module(state))

    def device(self) -> Device | None:
        """That of the schedule in the making; None where there is nothing to compile yet."""
        try:
            return self.kernel().program.device
        except UserError:
            return None

    def names_of_sizes(self) -> dict[str, bool]:
        """What `size` may fix: sizes of all ops (True), parameters of ops and of schedules (False)."""
        module = self.module()
        found = {name: False for s in module.schedules.values() for name in parameters(s)}
        for op in module.ops.values():
            found |= {name: False for name, _ in op.params} | {v.name: True for v in op.dims}
        return found

    def kernel(self, state: SessionState | None = None) -> Kernel:
        """The schedule in the making, completed and compiled; without one, what the compiler would choose for the only op."""
        from ...runtime.compile import compile

        state = state or self.now
        module = self.module(state)
        op, name = (self._first_draft().op, None) if state.draft is None else (state.draft.op, state.draft.name)
        return compile(module, op, name, self.target(state), sizes=_values(state, module, op, name))

    def own(self, target: str, op: str) -> Kernel:
        """What the compiler would choose for an op of the session."""
        from ...runtime.compile import compile

        module = self.module()
        return compile(module, op, "auto", target, sizes=_values(self.now, module, op, None))


def _values(state: SessionState, module: Module, op: str, schedule: str | None) -> dict[str, Any]:
    """Those values that the op and the schedule have a name for: other ops have sizes too."""
    if op not in module.ops:
        return dict(state.values)
    known = {name for name, _ in module.ops[op].params} | {v.name for v in module.ops[op].dims}
    known |= set(parameters(module.schedules.get(schedule or "")))
    return {name: value for name, value in state.values.items() if name in known}


def _progress(text: str) -> None:
    """One line that is overwritten, on terminals."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def cells(lines: Iterable[str]) -> Iterator[str]:
    """Cells of a text that is not typed: each begins at the margin; what is indented, or continues it, belongs to it."""
    held: list[str] = []
    for line in lines:
        line = line.rstrip("\r\n")
        starts = bool(line.strip()) and not line[0].isspace() and not line.startswith(("->", "where", ")", "]"))
        comment_above = bool(held) and all(not h.strip() or h.startswith("#") for h in held)
        if starts and held and not comment_above:
            yield "\n".join(held)
            held = []
        held.append(line)
    if any(h.strip() for h in held):
        yield "\n".join(held)


def _help(word: str, known: list[str]) -> str:
    near = did_you_mean(word, known)
    return near if near and near.startswith("did you mean") else "`help` lists what can be said"
