"""A session: it takes what is typed, cell by cell, and answers with text.

A cell is a declaration, a line of the schedule in the making (with the block nested below it), or a command. What is wrong
changes nothing. Neither a terminal nor a prompt is needed, so scripts and tests use a session as people do.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...dsl.errors import did_you_mean
from ...dsl.errors.shell import NothingToSchedule, NotUnderstood
from ...dsl.module import Module, loads
from ...grammar.words import words
from ..target_for import target_for
from .state import NAME, Draft, State, declarations, draft_of

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
        self.now = State(target=target)
        self.past: list[State] = []
        self.future: list[State] = []
        self.over = False

    # ------------------------------------------------------------ cells

    def feed(self, cell: str) -> None:
        """Takes one cell. Raises the diagnostics of what is wrong with it; then nothing has changed."""
        from .commands import COMMANDS, command

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

    def declare(self, text: str) -> None:
        """One or more declarations. A schedule becomes the one in the making."""
        first = text.split("\n", 1)[0].rstrip()
        if first.startswith(("schedule", "strategy")) and first.endswith(":") and "\n" not in text.strip():
            text += "\n    auto\n"  # its lines come one by one
        found = declarations(text + "\n")
        after = self.now
        for kind, name, own, _ in found:
            after = after.with_schedule(draft_of(own + "\n")) if kind == "schedule" else after.with_declared(kind, name, own)
        module = self.module(after)
        self.step(after)
        from .view import show_declared, show_draft

        for kind, name, _, _ in found:
            if kind == "schedule":
                self.say(show_draft(self))
            else:
                self.say(show_declared(module, kind, name))

    def line(self, text: str) -> None:
        """A line, or several, for the schedule in the making."""
        from .view import show_step

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

    def _first_draft(self) -> Draft:
        """For the only op there is."""
        ops = list(self.module().ops)
        if len(ops) != 1:
            said = "there is no op yet" if not ops else f"there are several ops: {', '.join(ops[:6])}"
            raise NothingToSchedule(f"{said}; which is this line for?", help="say `schedule NAME for OP:` first")
        return Draft("draft", ops[0], None, f"schedule draft for {ops[0]}")

    # ------------------------------------------------------------ states

    def step(self, after: State) -> None:
        """From one state to the next, which can be undone."""
        if after != self.now:
            self.past.append(self.now)
            self.future.clear()
            self.now = after

    def module(self, state: State | None = None) -> Module:
        """Raises the mistakes of the state's text."""
        return loads((state or self.now).text, NAME, base=self.base)

    def target(self, state: State | None = None) -> str:
        """What the schedule in the making is compiled for."""
        state = state or self.now
        if state.target is not None:
            return state.target
        device = state.draft.device if state.draft else None
        return "cpu" if device is None else target_for(device, self.module(state))

    def kernel(self, state: State | None = None) -> Kernel:
        """The schedule in the making, completed and compiled; without one, what the compiler would choose for the only op."""
        from ...runtime.compile import compile

        state = state or self.now
        module = self.module(state)
        if state.draft is None:
            op = self._first_draft().op
            return compile(module, op, None, self.target(state), **state.values)
        return compile(module, state.draft.op, state.draft.name, self.target(state), **state.values)


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
