"""From newlines and leading spaces to tokens of lines and blocks.

It stands between lark's lexer and its parser. Newlines inside brackets vanish; others become an `_INDENT` or `_DEDENT` if the
next line is deeper or shallower. The first line's own indentation is level zero, so that a text embedded in an indented
Python string needs no preparation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..errors import text as errors
from ..source import Source, Span

if TYPE_CHECKING:
    from lark import Token

_OPEN = {"LPAR", "_LSQB"}
_CLOSE = {"RPAR", "RSQB"}
_FIRST = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*([ \t]*)")

# Later passes walk trees by recursion, and Python's stack holds about a thousand calls.
MOST_BRACKETS = 60
MOST_BLOCKS = 20
MANY_OPERATORS = 120  # in one line: then the parser measures how deep they nest


class LineLayout:
    """Lark's postlex object. `tokens` holds what the last parse saw, for the formatter and for errors."""

    always_accept = ("_NL", "NAME")  # NAME: so that a misspelt keyword is one unexpected word, not a keyword and a rest

    def __init__(self) -> None:
        self.begin(Source("", ""), "", 0)

    def begin(self, source: Source, text: str, base: int) -> None:
        """`text` is read as the part of `source` that starts at character `base`; tokens get positions in `source`."""
        self.source, self.text, self.base = source, text, base
        self.tokens: list[Token] = []
        self.open: list[Token] = []  # brackets not closed yet
        self.operators = self.most_operators = 0

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        from lark import Token
        from lark.exceptions import UnexpectedToken

        first = _FIRST.match(self.text)
        depths = [len(first.group(1)) if first else 0]
        seen, open_, base, end = self.tokens, self.open, self.base, self.base + len(self.text)
        token = None
        try:
            for token in stream:
                kind = token.type
                if base:
                    token.start_pos, token.end_pos = token.start_pos + base, token.end_pos + base  # type: ignore[operator]
                if kind != "_NL":
                    seen.append(token)
                    yield token
                    if kind in _OPEN:
                        open_.append(token)
                        self.operators += 1
                        if len(open_) > MOST_BRACKETS:
                            raise self._too_deep("brackets", token, MOST_BRACKETS)
                    elif kind in _CLOSE:
                        open_.pop()
                    elif kind in ("PLUS", "MINUS", "TIMES", "NOT", "AND", "OR"):
                        self.operators += 1
                    continue
                if open_:
                    continue
                self.most_operators = max(self.most_operators, self.operators)
                self.operators = 0
                seen.append(token)
                yield token
                if token.end_pos is not None and token.end_pos > end:
                    break  # the newline added at the end of the text
                yield from self._depth(token, depths)
        except UnexpectedToken as fault:
            if base and fault.token.start_pos is not None and fault.token is not token:  # not seen above, so not shifted
                fault.token.start_pos, fault.token.end_pos = fault.token.start_pos + base, (fault.token.end_pos or 0) + base
            raise
        for _ in depths[1:]:
            yield Token.new_borrow_pos("_DEDENT", "", token) if token else Token("_DEDENT", "", 0, 0, 0, 0, 0, 0)

    def _depth(self, token: Token, depths: list[int]) -> Iterator[Token]:
        from lark import Token

        spaces = token[token.rindex("\n") + 1 :]
        stop = token.end_pos or 0
        if "\t" in spaces:
            raise errors.TabIndent(
                "this line is indented with tabs",
                Span(self.source, stop - len(spaces), stop),
                help="use four spaces for each level",
            )
        depth = len(spaces)
        if depth > depths[-1]:
            depths.append(depth)
            if len(depths) > MOST_BLOCKS:
                raise self._too_deep("blocks", token, MOST_BLOCKS)
            yield Token.new_borrow_pos("_INDENT", spaces, token)
        while depth < depths[-1]:
            depths.pop()
            yield Token.new_borrow_pos("_DEDENT", spaces, token)
            if depth > depths[-1]:
                levels = ", ".join(str(d) for d in depths)
                raise errors.BadIndent(
                    f"this line is indented by {depth}, and no line above it is",
                    Span(self.source, stop - depth, stop),
                    help=f"the levels open here are at {levels}",
                )

    def _too_deep(self, what: str, token: Token, most: int) -> errors.NestedTooDeep:
        span = Span(self.source, token.start_pos or 0, (token.start_pos or 0) + 1)
        if what == "blocks":
            span = Span(self.source, (token.end_pos or 0) - 1, token.end_pos or 0)
        return errors.NestedTooDeep(
            f"more than {most} {what} inside each other", span, help="give a part of it a name of its own"
        )
