"""The cells of registers and the addresses that a statement's text names, in the order of printing, while it is recorded."""

from __future__ import annotations

from collections.abc import Callable

from .c.text_builder import Line, SourceText

Hole = tuple[Callable[..., str], tuple]  # what answers, and what it is asked about
_MARK = "\0"


class RecordedOperands:
    """`lines`: those that answers have printed, before the statement's own."""

    def __init__(self, text: SourceText) -> None:
        self.holes: list[Hole] = []
        self.lines = 0
        self._text = text
        self._told: list[str] = []

    def placeholder(self, ask: Callable[..., str], *about: object) -> str:
        """The mark for the answer until the line is finished."""
        lines = self._text.scopes[-1].lines
        before = len(lines)
        self._told.append(ask(*about))
        self.lines += len(lines) - before
        self.holes.append((ask, about))
        return f"{_MARK}{len(self.holes) - 1}{_MARK}"

    def substitute(self, lines: list[str], start: int) -> None:
        """Puts the answers into lines, from `start` on."""
        for i in range(start, len(lines)):
            if _MARK in lines[i]:
                pieces = lines[i].split(_MARK)
                pieces[1::2] = [self._told[int(n)] for n in pieces[1::2]]
                lines[i] = Line.of("".join(pieces), getattr(lines[i], "span", None))

    def format(self, line: str) -> tuple[str, list[int]] | None:
        """The line as a format, and the answers that it takes; None where it does not say all of them."""
        pieces = line.replace("%", "%%").split(_MARK)
        taken = [int(n) for n in pieces[1::2]]
        return ("%s".join(pieces[::2]), taken) if {*taken} == {*range(len(self.holes))} else None
