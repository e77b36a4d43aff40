"""The cells of registers and the addresses that a statement's text names, in the order of printing, while it is recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .c.c_tree import Statement, map_bodies, map_texts, texts
from .c.text_builder import SourceText

Hole = tuple[Callable[..., str], tuple]  # what answers, and what it is asked about
_MARK = "\0"


def fill_marks(text: str, told: Sequence[str]) -> str:
    """A text with the answers in place of their marks."""
    if _MARK not in text:
        return text
    pieces = text.split(_MARK)
    pieces[1::2] = [told[int(n)] for n in pieces[1::2]]
    return "".join(pieces)


class RecordedOperands:
    """`statements`: those that answers have printed, before the recorded one."""

    def __init__(self, text: SourceText) -> None:
        self.holes: list[Hole] = []
        self.statements = 0
        self._text = text
        self._told: list[str] = []

    def placeholder(self, ask: Callable[..., str], *about: object) -> str:
        """The mark for the answer until the statement is finished."""
        body = self._text.body
        before = len(body)
        self._told.append(ask(*about))
        self.statements += len(body) - before
        self.holes.append((ask, about))
        return f"{_MARK}{len(self.holes) - 1}{_MARK}"

    def fill(self, body: list[Statement], start: int) -> None:
        """Puts the answers into statements, from `start` on."""
        body[start:] = self._filled(body[start:])

    def _filled(self, stmts: Sequence[Statement]) -> list[Statement]:
        return [map_bodies(map_texts(s, lambda text: fill_marks(text, self._told)), self._filled) for s in stmts]

    def all_marked(self, s: Statement) -> bool:
        """Whether the statement has a mark for each answer."""
        marks = {int(n) for text in texts(s) for n in text.split(_MARK)[1::2]}
        return len(marks) == len(self.holes)
