"""Places for lines that the compiler filled in: a text with only the line, so that diagnostics and comments can show it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...dsl import syntax
from ...dsl.errors.base import UserError, UserErrors
from ...dsl.source import Source, Span
from ...dsl.support.fast_replace import replace
from ...dsl.text.print_node import format_node

_FILLED_IN = "<filled in"


def with_spans(lines: Iterable[syntax.Line], count: Iterator[int]) -> tuple[syntax.Line, ...]:
    """The same lines; those without a span have one, all know what they say. `count` tells equal lines apart."""
    return tuple(_placed(line, count) for line in lines)


def _placed(line: syntax.Line, count: Iterator[int]) -> syntax.Line:
    block = getattr(line, "block", None)
    if block:
        line = replace(line, block=with_spans(block, count))  # pyright: ignore[reportCallIssue]
    text = line_text(line)
    if line.span is not None:
        return replace(line, span=replace(line.span, said=text))
    return replace(line, span=Span(Source(f"{_FILLED_IN} {next(count)}>", text), 0, len(text)))


def line_text(line: syntax.Line) -> str:
    """What the line says, without its block."""
    if getattr(line, "block", None):
        line = replace(line, block=None)  # pyright: ignore[reportCallIssue]
    return format_node(line).strip()


def is_filled_in(span: Span | None) -> bool:
    """Whether the compiler filled the line in; a line without a place is none of the author's either."""
    return span is None or span.source.name.startswith(_FILLED_IN)


def concerns_filled_in(error: UserError) -> bool:
    """Whether a line that the compiler filled in has a part in a mistake: it is one of its places, or where it was noticed."""
    if isinstance(error, UserErrors):
        return all(map(concerns_filled_in, error.errors))
    places = [error.span, error.noticed_at, *(x.span for x in error.labels)]
    return any(is_filled_in(x) for x in places if x is not None)


def names_instr(line: syntax.Line | None) -> bool:
    """Whether the author named the instruction of `with`. What completion adds to a line of the author's has no place."""
    given = (m for m in getattr(line, "modifiers", ()) if m.name == "with")
    return line is not None and not is_filled_in(line.span) and any(m.span is not None for m in given)


def author_of(*spans: Span | None) -> Span | None:
    """The first of them that the author wrote, else the first there is."""
    there = [s for s in spans if s is not None]
    return next((s for s in there if not is_filled_in(s)), there[0] if there else None)
