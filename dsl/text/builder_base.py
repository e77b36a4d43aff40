"""Common parts of the builder's methods: spans, numbers, strings."""

from __future__ import annotations

import textwrap
from typing import Any

from ..errors import text as errors
from ..errors.base import Diagnostics
from ..source import Source, Span

Parts = list[Any]
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}


def start_of(part: Any) -> int:
    """Where a token or node begins."""
    return part.span.start if hasattr(part, "span") else part.start_pos


def end_of(part: Any) -> int:
    """Where a token, a node, or the last of several ends; -1 for nothing."""
    if part is None:
        return -1
    if isinstance(part, (list, tuple)):
        return max((end_of(p) for p in part), default=-1)
    return part.span.end if hasattr(part, "span") else part.end_pos


def unquote(token: str) -> tuple[str, list[int]]:
    """What a string says, and where it has unknown escapes.

    `"..."` has escapes; `\"\"\"...\"\"\"` is taken as it is, without its common indentation and the blanks at its ends.
    """
    if token.startswith('"""'):
        first, newline, rest = str(token[3:-3]).partition("\n")
        if not newline:
            return first, []
        rest = textwrap.dedent(rest).rstrip(" \n")
        return (f"{first.strip()}\n{rest}" if first.strip() else rest), []
    out: list[str] = []
    bad: list[int] = []
    i, end = 1, len(token) - 1
    while i < end:
        ch = token[i]
        if ch == "\\":
            if token[i + 1] not in _ESCAPES:
                bad.append(i)
            ch = _ESCAPES.get(token[i + 1], token[i + 1])
            i += 1
        out.append(ch)
        i += 1
    return "".join(out), bad


class TreeRules:
    source: Source
    diagnostics: Diagnostics

    def spot(self, start: int, end: int) -> Span:
        return Span(self.source, start, end)

    def span(self, first: Any, *rest: Any) -> Span:
        """From the start of a token or node to the end of the last of several."""
        return Span(self.source, start_of(first), max(end_of(first), end_of(rest)))

    def int_of(self, token: Any) -> int:
        digits = token.lstrip("0") or "0"
        if len(digits) > 19 or int(digits) >= 1 << 63:
            self.too_large(token)
            return 0
        return int(digits)

    def float_of(self, token: Any) -> float:
        value = float(token)
        if value == float("inf"):
            self.too_large(token)
        return value

    def too_large(self, token: Any) -> None:
        shown = str(token) if len(token) <= 24 else f"{token[:12]}... ({len(token)} digits)"
        self.diagnostics.add(
            errors.NumberTooLarge(
                f"{shown} is too large", self.span(token, token), help="integers end at 2^63 - 1, floats at about 1.8e308"
            )
        )

    def string(self, token: Any) -> str:
        text, bad = unquote(token)
        for i in bad:
            at = token.start_pos + i
            self.diagnostics.add(
                errors.BadEscape(
                    f"`{token[i : i + 2]}` is no escape",
                    self.spot(at, at + 2),
                    help='the escapes are \\n, \\t, \\" and \\\\; a text in """ is taken as it is',
                )
            )
        return text
