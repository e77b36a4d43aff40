"""The versions of the language, and how a text states its own: `language 1`."""

from __future__ import annotations

import re
from functools import lru_cache

from ..errors.syntax import LanguageVersion, NewerLanguage
from ..source import Source, Span

NEWEST = 1  # the newest version that this compiler reads; it reads all older ones

_ABOVE = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*")  # comments and blank lines
_STATED = re.compile(r"language[ \t]+([1-9][0-9]*)[ \t]*(?=#|\n|$)")
_SHOWN = 24  # characters of a number or a word in a message


@lru_cache(maxsize=1)
def first_statement(text: str) -> int:
    """Where the first statement of a text begins."""
    above = _ABOVE.match(text)
    return above.end() if above else 0


def refuse_newer(source: Source) -> None:
    """Raises NewerLanguage. Looks at the statement alone: a newer text may have characters and words that mean nothing here."""
    stated = _STATED.match(source.text, first_statement(source.text))
    if stated is None:
        return
    digits = stated[1]
    if len(digits) > len(str(NEWEST)) or int(digits) > NEWEST:
        known = "version 1" if NEWEST == 1 else f"versions 1 to {NEWEST}"
        raise NewerLanguage(
            f"this text is written in version {_short(digits)} of the language, and this compiler knows {known}",
            Span(source, stated.start(), stated.end(1)),
            help=f"install a newer Andiron, or state `language {NEWEST}` if the text has nothing newer",
        )


def not_a_version(said: str, span: Span) -> LanguageVersion:
    """What `language` states at `span` instead of a version; "" for nothing."""
    message = f"`{_short(said)}` is not a version of the language" if said else "`language` states no version"
    return LanguageVersion(message, span, help=f"a version is a positive whole number: `language {NEWEST}`")


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
