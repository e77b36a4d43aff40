"""The prompt of a terminal: colours, completion, history, cells of several lines."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, ThreadedCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import PygmentsTokens
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.shortcuts import print_formatted_text
from pygments.lexers import get_lexer_by_name

from ...dsl.errors import AndironError
from ...grammar.pygments_lexer import SchedLexer
from ...grammar.words import words
from .completion import completions
from .session import Session

INDENT = "    "


class WordCompleter(Completer):
    """What fits at the cursor."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        if not complete_event.completion_requested and not document.current_line_before_cursor.strip():
            return  # nothing is begun: a list of everything would only hide what is there, as while a text is pasted
        try:
            found = completions(self.session, before)
        except AndironError:
            return  # to propose nothing is better than to stop someone who types
        for word in found:
            prefix = _prefix(before, word)
            yield Completion(word, start_position=-prefix)


def _prefix(before: str, word: str) -> int:
    """How much of the word stands there already."""
    return next((n for n in range(min(len(word), len(before)), 0, -1) if before.endswith(word[:n])), 0)


def waits(text: str) -> bool:
    """Whether a cell goes on after this line: a block is open until an empty line, a bracket until it is closed."""
    lines = text.split("\n")
    if lines[0].startswith("schedule") and len(lines) == 1 and lines[0].split("#")[0].rstrip().endswith(":"):
        return False  # its lines come one by one
    if text.count("(") + text.count("[") > text.count(")") + text.count("]"):
        return True
    first = lines[0].split()[:1]
    opens = (
        lines[0].split("#")[0].rstrip().endswith(":") and bool(first) and first[0] in (*words().declarations, "move", "keep")
    )
    if first and first[0] == "op" and len(lines) == 1 and not opens:
        return True  # its results or its conditions come on the next line
    if not opens and len(lines) == 1:
        return False
    return bool(lines[-1].strip())


def history() -> History:
    """Kept between sessions where that is possible."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "andiron"
    try:
        state.mkdir(parents=True, exist_ok=True)
        with open(state / "history", "ab"):
            pass
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(state / "history"))


def prompt(session: Session) -> PromptSession[str]:
    """Enter ends a cell that is whole, else it begins a line at the margin of the one above, deeper after a colon."""
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.is_cursor_at_the_end and not waits(buffer.text):
            buffer.validate_and_handle()
            return
        line = buffer.document.current_line_before_cursor
        margin = line[: len(line) - len(line.lstrip())]
        buffer.insert_text("\n" + margin + (INDENT if line.rstrip().endswith(":") else ""))

    return PromptSession(
        lexer=PygmentsLexer(SchedLexer),
        completer=ThreadedCompleter(WordCompleter(session)),
        history=history(),
        auto_suggest=AutoSuggestFromHistory(),
        multiline=True,
        key_bindings=keys,
        prompt_continuation=lambda width, number, is_soft_wrap: "." * (width - 1) + " ",
    )


def print_code(text: str, dialect_is_c: bool = True) -> None:
    """Emitted text, in colour."""
    lexer = get_lexer_by_name("cpp" if dialect_is_c else "sched")
    print_formatted_text(PygmentsTokens(list(lexer.get_tokens(text))))
