"""Where a piece of text came from: sources and spans.

Every node of the syntax tree carries a `Span`; every diagnostic points with one.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field

from .support.cached import cached_property


@dataclass(frozen=True)
class Source:
    """A text and the name it is shown under (a path, or `<string>`).

    `line_offset` shifts displayed line numbers, for text embedded in another file.
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
        """(line, column) of a character offset, both counted from 1, within this text."""
        row = bisect.bisect_right(self._starts, offset) - 1
        return row + 1, offset - self._starts[row] + 1

    def line(self, number: int) -> str:
        """The text of line `number` (from 1) without its line break."""
        start = self._starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start:] if end < 0 else self.text[start:end]


@dataclass(frozen=True)
class Span:
    """Characters [start, end) of a source.

    said   what a line of a schedule says once the compiler has filled in what it left open, where that is something else
    """

    source: Source
    start: int
    end: int
    said: str | None = field(default=None, compare=False)

    @property
    def line(self) -> int:
        return self.source.position(self.start)[0]

    @property
    def column(self) -> int:
        return self.source.position(self.start)[1]

    def to(self, other: Span) -> Span:
        """The span from the start of this one to the end of `other`."""
        return Span(self.source, self.start, max(self.end, other.end))

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]
