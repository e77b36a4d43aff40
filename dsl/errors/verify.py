"""Faults that the checks of compiled programs find. They are Andiron's, never the author's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from ..source import Span
from .base import InternalError, Label, UserError, render


class NotVerified(InternalError):
    """A compiled program does not compute its op, or is malformed.

    Andiron is at fault: please report it, with the text. The source line of the wrong statement is underlined. Without that
    line, or with another tile, the program may be right. `compile(verify=True)` raises it, `andiron check --verify` prints it.
    `kind` is `not-once`, `malformed`, `race`, `out-of-bounds`, `uninitialised` or another fault of the interpreter. `sizes` are
    the sizes of the failing check.
    """

    id: ClassVar[str] = "internal-not-verified"
    word: ClassVar[str] = "error"
    note: str = ""
    help: str | None = "this is a fault of Andiron's, not of yours. Please report it, with the text"

    def __init__(
        self, message: str, span: Span | None, kind: str, sizes: Mapping[str, int], *, labels: Sequence[Label] = ()
    ) -> None:
        super().__init__(message)
        self.span = span
        self.kind = kind
        self.sizes = dict(sizes)
        self.labels = tuple(labels)

    def __str__(self) -> str:
        return render(self)


class ElementNotCovered(UserError):
    """An element would be read before it is written, never be stored, or be stored by units that cannot synchronise.

    Every compiled program is checked for this. The lines of the schedule have a meaning, so this is a fault of Andiron's, which
    is refused rather than compiled to wrong results. Another tile or level on the line, or a schedule without it, may be right.
    The message names an element, and sizes at which it fails. Please report it, with the text.
    """

    id = "element-not-covered"


class PointNotOnce(UserError):
    """A point of a reduction would not contribute to a result, or contribute several times.

    Every compiled program is checked for this. The lines of the schedule have a meaning, so this is a fault of Andiron's, which
    is refused rather than compiled to wrong results. Another tile or level on the line, or a schedule without it, may be right.
    The message names an element, points of its reduction, and sizes at which it fails. Please report it, with the text.
    """

    id = "point-not-once"
