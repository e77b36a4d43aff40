"""From old spellings to new ones: `upgrade_source(text) -> str`, used by `andiron fmt --upgrade`.

A version of the language that changes a spelling adds a rewrite to `REWRITES`. The parser still accepts the old spelling.

SAME_TREE      An old spelling and the new one parse to the same tree. So a rewrite changes no meaning.
NO_OTHER_TEXT  A rewrite touches neither comments nor strings.

Both are checked for each upgraded text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import syntax
from ..errors.base import InternalError, UserError
from ..source import Source
from . import versions
from .format import comments, format_source
from .parser import read

if TYPE_CHECKING:
    from lark import Token

Edit = tuple[int, int, str]  # characters [start, end) of a text, and what stands there instead


@dataclass(frozen=True)
class Rewrite:
    """A spelling that a version of the language replaced.

    since     the version that brought the new spelling
    old, new  a small text with the old spelling, and the same text upgraded
    edits     finds the old spellings in a text: its tree and its tokens, to edits that do not overlap
    """

    since: int
    old: str
    new: str
    edits: Callable[[syntax.File, Sequence[Token]], Iterable[Edit]]


REWRITES: tuple[Rewrite, ...] = ()  # version 1 is the first, and replaces nothing


def upgrade_source(text: str, name: str = "<string>", rewrites: Sequence[Rewrite] = REWRITES) -> str:
    """The text in the newest spellings, formatted; the version that it states, if it states one, becomes the newest.

    Raises what the parser raises; idempotent; `parse` gives the same declarations before and after.
    """
    source = read(Source(name, text))[0].source
    for rewrite in sorted(rewrites, key=lambda r: r.since):  # a later one may replace what an earlier one brought
        source = _edited(source, rewrite.edits)
    return format_source(_edited(source, _newest_version).text, name)


def _newest_version(file: syntax.File, _: Sequence[Token]) -> Iterable[Edit]:
    stated = file.language
    if stated is not None and stated.version != versions.NEWEST:
        yield stated.span.end - len(str(stated.version)), stated.span.end, str(versions.NEWEST)


def _edited(source: Source, find: Callable[[syntax.File, Sequence[Token]], Iterable[Edit]]) -> Source:
    file, tokens = read(source)
    edits = sorted(find(file, tokens))
    if not edits:
        return source
    pieces: list[str] = []
    at = 0
    for start, end, new in edits:
        pieces += [source.text[at:start], new]
        at = end
    after = Source(source.name, "".join([*pieces, source.text[at:]]))
    try:
        same = _kept(after) == _kept(source)
    except UserError:
        same = False
    if not same:
        raise InternalError(f"an upgrade would change {source.name}")
    return after


def _kept(source: Source) -> tuple[object, ...]:
    """All that an upgrade keeps: declarations, comments, strings as they are written."""
    file, tokens = read(source)
    return file.declarations, comments(source.text), [str(t) for t in tokens if t.type == "TEXT"]
