"""Newlines and leading spaces to tokens of lines and blocks.

Sits between lark's lexer and its parser. Newlines inside brackets vanish; others come with an `_INDENT` or `_DEDENT` when the
next line stands deeper or shallower. The first line's own indentation is level zero, so that a text embedded in an indented
Python string needs no preparation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .source import Source

if TYPE_CHECKING:
    from lark import Token

_OPEN = {"LPAR", "_LSQB"}
_CLOSE = {"RPAR", "RSQB"}
_FIRST = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*([ \t]*)")


class LineLayout:
    """Lark's postlex object. `tokens` holds what the last parse saw, for the formatter and for errors."""

    always_accept = ("_NL", "NAME")  # NAME: so that a misspelt keyword is one unexpected word, not a keyword and a rest

    def __init__(self) -> None:
        self.begin(Source("", ""))

    def begin(self, source: Source) -> None:
        self.source = source
        self.tokens: list[Token] = []
        self.open: list[Token] = []  # brackets not closed yet

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        from lark import Token

        first = _FIRST.match(self.source.text)
        depths = [len(first.group(1)) if first else 0]
        seen, open_ = self.tokens, self.open
        end = len(self.source.text)
        token = None
        for token in stream:
            kind = token.type
            if kind != "_NL":
                seen.append(token)
                yield token
                if kind in _OPEN:
                    open_.append(token)
                elif kind in _CLOSE:
                    open_.pop()
                continue
            if open_:
                continue
            seen.append(token)
            yield token
            if token.end_pos is not None and token.end_pos > end:
                break  # the newline added at the end of the text
            spaces = token[token.rindex("\n") + 1 :]
            depth = len(spaces)
            if depth > depths[-1]:
                depths.append(depth)
                yield Token.new_borrow_pos("_INDENT", spaces, token)
            while depth < depths[-1]:
                depths.pop()
                yield Token.new_borrow_pos("_DEDENT", spaces, token)
            if depth != depths[-1]:
                raise ValueError("indent")
        for _ in depths[1:]:
            yield Token.new_borrow_pos("_DEDENT", "", token) if token else Token("_DEDENT", "", 0, 0, 0, 0, 0, 0)
