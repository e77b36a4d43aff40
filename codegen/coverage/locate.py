"""The line that is underlined where a check refuses a program: the author's own, of what is around the statements at fault."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ...dsl.errors.base import Label, UserError
from ...dsl.op import Op
from ...dsl.source import Span
from ..schedule.synthetic_spans import is_filled_in
from .accesses import Access, Guard

_HELP = "another tile or level on this line, or a schedule without it, may be right. Please report it, with the text"

_NAMED = 4  # buffers: that a remark names [limit]


def listed(buffers: Sequence[str]) -> str:
    """The first of them by name, and the number of the others."""
    more = len(buffers) - _NAMED
    return ", ".join(f"`{b}`" for b in buffers[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def located(kind: type[UserError], text: str, spans: Iterable[Span], op: Op, schedule: Span | None) -> UserError:
    """The error. `spans`: of the statements, and of what is around them; `schedule`: the head of the author's schedule."""
    of_op = [s.span for s in op.statements if s.span is not None]
    found = list(spans)
    around = [s for s in found if s not in of_op]
    own = next((s for s in around if not is_filled_in(s)), None)
    statement = next((s for s in found if s in of_op), None)
    labels = [Label(statement, "this statement")] if statement is not None and own is not None else []
    if own is None and around and statement is not None:
        labels = [Label(around[0], "a line that the compiler added")]
    span = own or statement or schedule or next(iter(around), None) or next(iter(of_op), None)
    return kind(text, span, labels=labels, help=_HELP)


def spans(a: Access) -> Iterator[Span]:
    """Of the statement, of those around it, inner ones first, and of the buffer."""
    if a.stmt.span is not None:
        yield a.stmt.span
    for s in reversed(a.path):
        if not isinstance(s, Guard) and s.span is not None:
            yield s.span
    if a.buffer.span is not None:
        yield a.buffer.span
