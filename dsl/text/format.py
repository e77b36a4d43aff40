"""The formatter: `format_source(text) -> str`, used by `andiron fmt`.

Works on tokens, so that every comment stays in its place. It changes only white space: four spaces a level, one space where the
rules below require one, two before a comment at a line's end, at most one blank line in a row, and one between declarations.
Line breaks inside brackets are the author's, and so is the choice between `2*m + n` and `2 * m + n`. Comments at the ends of
consecutive lines stay in one column if the author put them in one.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..errors.base import InternalError
from ..source import Source
from .parser import parse_text, read
from .print_node import format_node

if TYPE_CHECKING:
    from lark import Token

_OPERAND_ENDS = {"NAME", "INT", "FLOAT", "WORD_VALUE", "RPAR", "RSQB", "UNIT"}


def format_source(text: str, name: str = "<string>") -> str:
    """The text in the one layout. Raises what the parser raises; idempotent; `parse` gives the same tree before and after."""
    file, tokens = read(Source(name, text))
    out = _Writer(file.source.text, tokens).write()
    if parse_text(out, name) != file or comments(out) != comments(file.source.text):
        raise InternalError(f"formatting would change {name}")
    return out


def comments(text: str) -> list[str]:
    """The comments of a text that parses, in order."""
    tokens = read(Source("<string>", text))[1]
    text += "\n"
    out: list[str] = []
    at = 0
    for token in [*tokens, None]:
        stop = len(text) if token is None else token.start_pos or 0
        if token is not None and token.type == "_NL":
            continue
        gap = text[at:stop]
        out += [line[line.index("#") :].rstrip() for line in gap.split("\n") if "#" in line]
        at = stop if token is None else token.end_pos or 0
    return out


class _Writer:
    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.out: list[str] = []  # finished lines
        self.levels: list[int] = []  # columns of the blocks open here
        self.trailing: dict[int, tuple[int, int]] = {}  # line of `out` -> the column that its comment had, the length before it

    def write(self) -> str:
        for line, gap in self._logical_lines():
            if line:
                self._margin(line)
                text = self._logical(line, 4 * (len(self.levels) - 1))
                self.out += text.split("\n")
            self._between(gap, line)
        self._align()
        while self.out and not self.out[-1]:
            self.out.pop()
        while self.out and not self.out[0]:
            self.out.pop(0)
        return "".join(line + "\n" for line in self.out)

    def _logical_lines(self) -> Iterator[tuple[list[Token], str]]:
        """The tokens of each logical line and the newlines, blanks and comments after it."""
        line: list[Token] = []
        for token in self.tokens:
            if token.type == "_NL":
                yield line, str(token)
                line = []
            else:
                line.append(token)
        if line:
            yield line, "\n"

    def _column(self, token: Token) -> int:
        start = token.start_pos or 0
        return start - (self.text.rfind("\n", 0, start) + 1)

    def _margin(self, line: list[Token]) -> None:
        """Opens or closes blocks, and sees to the blank line between declarations."""
        column = self._column(line[0])
        while len(self.levels) > 1 and self.levels[-1] > column:
            self.levels.pop()
        if not self.levels or column > self.levels[-1]:
            self.levels.append(column)

    # ------------------------------------------------------------ between lines

    def _between(self, gap: str, line: list[Token]) -> None:
        """Comments and blank lines between one logical line and the next."""
        first, *rest = gap.split("\n")
        after_line = bool(line)
        if first.strip():
            if after_line:
                end = line[-1].end_pos or 0
                column = self.text.index("#", end) - self.text.rfind("\n", 0, end)
                self.trailing[len(self.out) - 1] = (column, len(self.out[-1]))
                self.out[-1] += "  " + first.strip()
            else:
                self.out.append(first.strip())
        opens = after_line and self.out[-1].split("  #")[0].endswith(":")
        following = len(rest[-1]) if rest else 0
        blank = False
        levels = [*self.levels, following] if opens and self.levels and following > self.levels[-1] else self.levels
        ends_block = len(levels) > 1 and following <= levels[0]
        pieces = rest[:-1]
        wrote = 0
        for piece in pieces:
            comment = piece.strip()
            if not comment:
                blank = True
                continue
            column = len(piece) - len(piece.lstrip())
            depth = max((i for i, c in enumerate(levels) if c <= max(column, min(following, levels[-1]))), default=0)
            if (blank or (ends_block and depth == 0 and not wrote)) and self.out and not opens:
                self._blank()
            wrote += depth == 0
            self.out.append("    " * depth + comment)
            blank = opens = False
        if self.out and not opens and (blank or (ends_block and not wrote)):
            self._blank()

    def _align(self) -> None:
        """Comments that shared a column share one again, the first that all of their lines leave free."""
        groups: dict[tuple[int, int], list[int]] = {}
        block = 0
        for i, line in enumerate(self.out):
            block += not line
            if i in self.trailing:
                groups.setdefault((block, self.trailing[i][0]), []).append(i)
        for lines in groups.values():
            width = max(self.trailing[i][1] for i in lines)
            for i in lines:
                code = self.trailing[i][1]
                self.out[i] = self.out[i][:code].ljust(width) + self.out[i][code:]

    def _blank(self) -> None:
        if self.out and self.out[-1]:
            self.out.append("")

    # ------------------------------------------------------------ inside a line

    def _logical(self, line: list[Token], margin: int) -> str:
        out = " " * margin
        unary = False
        before: Token | None = None
        for i, token in enumerate(line):
            text = self._string(token, margin) if token.type == "TEXT" and "\n" in token else str(token)
            if before is not None:
                gap = self.text[before.end_pos : token.start_pos]
                if "\n" in gap:
                    out += self._break(gap, token, margin)
                elif self._spaced(line, i, unary):
                    out += " "
            unary = token.type == "MINUS" and (before is None or before.type not in _OPERAND_ENDS)
            out += text
            before = token
        return out

    def _break(self, gap: str, token: Token, margin: int) -> str:
        """A line break inside a logical line, with its comments."""
        first, *rest = gap.split("\n")
        inside = " " * (margin + 8)
        out = ("  " + first.strip() if first.strip() else "") + "\n"
        for piece in rest[:-1]:
            if piece.strip():
                out += inside + piece.strip() + "\n"
        return out + (" " * margin if token.type in ("RPAR", "RSQB") else inside)

    def _string(self, token: Token, margin: int) -> str:
        """A long string, its lines one level deeper than the line that it stands on."""
        first, _, rest = str(token[3:-3]).partition("\n")
        lines = textwrap.dedent(rest).rstrip(" \n")
        body = textwrap.indent(lines, " " * (margin + 4), lambda line: bool(line.strip("\n")))
        return f'"""{first.strip()}\n' + (body + "\n" if body else "") + " " * margin + '"""'

    def _spaced(self, line: list[Token], i: int, unary: bool) -> bool:
        """Whether a space stands before token `i` of a line; `unary`: the token before it is a sign."""
        before, token = line[i - 1], line[i]
        a, b = before.type, token.type
        if b in ("_COMMA", "_COLON", "RPAR", "RSQB", "_DOT", "_LSQB") or a in ("LPAR", "_LSQB", "_DOT") or unary:
            return False
        if b == "LPAR":
            return a not in ("NAME", "RSQB", "SWIZZLE") and (a != "TIMES" or self._airy(line, i - 1))
        if a == "TIMES":
            return self._airy(line, i - 1)
        if b == "TIMES":
            return self._airy(line, i)
        return True

    def _airy(self, line: list[Token], i: int) -> bool:
        """Whether the author put white space on either side of the operator at `i`."""
        before, token, after = line[i - 1], line[i], line[i + 1]
        return before.end_pos != token.start_pos or token.end_pos != after.start_pos


__all__ = ["comments", "format_node", "format_source"]
