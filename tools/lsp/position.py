"""Conversion between characters of a text and the positions of editors: lines and UTF-16 code units, both from 0."""

from __future__ import annotations

from bisect import bisect_right

from lsprotocol.types import Position, Range


class Positions:
    """Of one text; its line breaks are `\\n`, `\\r\\n` or `\\r`, as the editor has them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0]
        for i, c in enumerate(text):
            if c == "\n" or (c == "\r" and text[i + 1 : i + 2] != "\n"):
                self.starts.append(i + 1)

    def offset(self, position: Position) -> int:
        """Beyond the end of a line: its end. Beyond the last line: the end of the text."""
        if position.line >= len(self.starts):
            return len(self.text)
        at = self.starts[position.line]
        end = self.starts[position.line + 1] - 1 if position.line + 1 < len(self.starts) else len(self.text)
        units = position.character
        while units > 0 and at < end:
            units -= 2 if ord(self.text[at]) > 0xFFFF else 1
            at += 1
        return at

    def position(self, offset: int) -> Position:
        line = bisect_right(self.starts, min(offset, len(self.text))) - 1
        before = self.text[self.starts[line] : offset]
        return Position(line, sum(2 if ord(c) > 0xFFFF else 1 for c in before))

    def range(self, start: int, end: int) -> Range:
        return Range(self.position(start), self.position(end))
