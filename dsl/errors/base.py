"""The rooted hierarchy of errors: `AndironError`, and the properties that all of them share.

One class for each error. A class has an `id` (kebab-case, shown to people, stable), and a docstring: a first line that
names the error, then the cause and the way out. The catalogue page of the docs is made from the classes.

    raise UnknownIndex("no index `q` in `Y[m, n]`", span, help="the indices here are m, n and k")

There are two separate kinds: `UserError` (the author's fault; has an id) and `InternalError` (a bug of Andiron to report).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from ..source import Span


class AndironError(Exception):
    """The root of everything that Andiron raises on purpose.

    id       the name of the mistake, which does not change, as `unknown-target`
    message  the mistake, in a sentence
    help     a way out, or None
    """

    id: ClassVar[str] = "error"
    help: str | None = None

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.message = message


class InternalError(AndironError):
    """A fault of Andiron itself, never of the author. Please report it."""

    id: ClassVar[str] = "internal"
    help: str | None = "this is a fault of Andiron's, not of yours. Please report it, with the text"

    def __str__(self) -> str:
        return f"error[{self.id}]: {self.message}\n  help: {self.help}"


@dataclass(frozen=True)
class Label:
    """A second place of a mistake, underlined with dashes.

    span  the place in a text
    note  the note beside it
    """

    span: Span
    note: str


class UserError(AndironError):
    """A mistake in a text, or in the arguments of a call. Subclasses name it. Printing it shows the place and the way out.

    word    the word before the id: `error` or `warning`
    span    the place in a text, or None
    note    the note beside the place
    labels  further places, each with a note
    noticed_at  the line below `span` that was filled in, where the mistake was noticed there; or None
    """

    id: ClassVar[str] = "user-error"
    word: ClassVar[str] = "error"

    def __init__(
        self,
        message: str,
        span: Span | None = None,
        *,
        note: str = "",
        labels: Sequence[Label] = (),
        help: str | None = None,
    ) -> None:
        super().__init__(message)
        self.span = span
        self.note = note  # shown beside the caret
        self.labels = tuple(labels)
        self.help = help
        self.noticed_at: Span | None = None

    def __str__(self) -> str:
        return render(self)


class UserErrors(UserError):
    """Several mistakes at once.

    errors  the mistakes, in the order of the text
    """

    id = "several"

    def __init__(self, errors: Sequence[UserError]) -> None:
        self.errors = tuple(errors)
        super().__init__(f"{len(self.errors)} errors")

    def __str__(self) -> str:
        return "\n\n".join(render(e) for e in self.errors)


class Diagnostics:
    """Collects mistakes so that all are reported at once."""

    def __init__(self) -> None:
        self.errors: list[UserError] = []

    def add(self, error: UserError) -> None:
        self.errors.extend(error.errors if isinstance(error, UserErrors) else [error])

    def raise_if_any(self) -> None:
        """Raises the one error, or `UserErrors` for several (duplicates dropped, in text order)."""
        unique = list({(e.id, e.message, e.span): e for e in self.errors}.values())
        unique.sort(key=lambda e: e.span.start if e.span else -1)
        if len(unique) == 1:
            raise unique[0]
        if unique:
            raise UserErrors(unique)


def did_you_mean(word: str, known: Iterable[str], most: int = 8) -> str | None:
    """A help line that proposes the nearest known word, or lists `most` of them; None when nothing is known."""
    names = sorted(set(known))
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if near:
        return f"did you mean `{near[0]}`?"
    if not names:
        return None
    shown = ", ".join(f"`{n}`" for n in names[:most])
    return f"known here: {shown}" + (", ..." if len(names) > most else "")


def _clip(text: str, column: int, width: int) -> tuple[str, int, int]:
    """A window of at most 120 characters of a line around column..column+width; `...` where it goes on."""
    if len(text) <= 120:
        return text, column, min(width, max(1, len(text) - column + 1))
    start = max(0, column - 41)
    piece = text[start : start + 120]
    piece = "..." + piece[3:] if start else piece
    piece = piece[:-3] + "..." if start + 120 < len(text) else piece
    return piece, column - start, min(width, max(1, len(piece) - (column - start) + 1))


def _underlined(span: Span, mark: str, note: str, gutter: int) -> list[str]:
    line, column = span.source.position(span.start)
    text = span.source.line(line).replace("\t", " ")
    width = max(1, min(span.end, span.start + len(text) - column + 1) - span.start)
    text, column, width = _clip(text, column, width)
    shown = str(line + span.source.line_offset).rjust(gutter)
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return [f"{shown} | {text}", f"{' ' * gutter} | {' ' * (column - 1)}{mark * width}{' ' + note if note else ''}".rstrip()]


class Diagnostic(Protocol):
    """What is shown of an error with a place in a text."""

    id: ClassVar[str]
    word: ClassVar[str]
    message: str
    span: Span | None
    note: str
    labels: tuple[Label, ...]
    help: str | None


def render(error: Diagnostic) -> str:
    """The error as people see it: id, message, place, carets, help."""
    if isinstance(error, UserErrors):
        return str(error)
    out = [f"{error.word}[{error.id}]: {error.message}"]
    if error.span is not None:
        spans = [error.span.line + error.span.source.line_offset]
        spans += [lab.span.line + lab.span.source.line_offset for lab in error.labels]
        gutter = max(len(str(n)) for n in spans)
        out.append(f"{' ' * gutter} --> {error.span.source.name}:{spans[0]}:{error.span.column}")
        out += _underlined(error.span, "^", error.note, gutter)
        for label in error.labels:
            if label.span.source is not error.span.source:
                out.append(f"{' ' * gutter} --> {label.span.source.name}:{label.span.line}:{label.span.column}")
            out += _underlined(label.span, "-", label.note, gutter)
    if error.help:
        out.append(f"  help: {error.help}")
    return "\n".join(out)
