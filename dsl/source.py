"""Sources and spans: the places of pieces of text.

Every node of the syntax tree has a `Span`; every diagnostic points with one.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field

from .support.cached import cached_property


@dataclass(frozen=True)
class Source:
    """A text, and the name that it is shown under.

    name         a path, or `<string>`
    text         the text
    line_offset  the number of lines above the text, if another file embeds it
    """

    name: str
    text: str
    line_offset: int = 0

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        for i, ch in enumerate(self.text):
            if ch == "\n":
                starts.append(i + 1)
        return starts

    def position(self, offset: int) -> tuple[int, int]:
        """Finds the line and the column of a character.

        offset  the number of characters before it

        Returns the line and the column, both counted from 1, within this text.

        Raises nothing.
        """
        row = bisect.bisect_right(self._starts, offset) - 1
        return row + 1, offset - self._starts[row] + 1

    def line(self, number: int) -> str:
        """Gives a line of the text without its line break.

        number  the number of the line, from 1

        Returns the line.

        Raises IndexError if the text has fewer lines.
        """
        start = self._starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start:] if end < 0 else self.text[start:end]


@dataclass(frozen=True)
class Span:
    """A part of a source: the characters from `start` up to `end`, without the last.

    source  the text
    start   the offset of the first character
    end     the offset behind the last character
    said    the text of a line of a schedule once the compiler has filled it in; None where it is the same
    """

    source: Source
    start: int
    end: int
    said: str | None = field(default=None, compare=False)

    @property
    def line(self) -> int:
        """The line of the first character, counted from 1."""
        return self.source.position(self.start)[0]

    @property
    def column(self) -> int:
        """The column of the first character, counted from 1."""
        return self.source.position(self.start)[1]

    def to(self, other: Span) -> Span:
        """Joins two parts.

        other  a part of the same source

        Returns the part from the start of this one to the end of `other`.

        Raises nothing.
        """
        return Span(self.source, self.start, max(self.end, other.end))

    @property
    def text(self) -> str:
        """The characters."""
        return self.source.text[self.start : self.end]
