"""Text that others wrote, for a terminal: what would move its cursor, change its title or hide text is escaped."""

from __future__ import annotations

import unicodedata

# Control characters, those that have no sight of their own (as marks of direction), halves of pairs, and ends of lines.
_ESCAPED = ("Cc", "Cf", "Cs", "Zl", "Zp")


def printable(text: str, kept: str = "") -> str:
    """The text with escapes as Python writes them, `\\x1b` or `\\u202e`, in place of such characters but the `kept` ones."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in kept or unicodedata.category(c) not in _ESCAPED else _escape(c) for c in text)


def _escape(c: str) -> str:
    return c.encode("unicode_escape").decode("ascii")
