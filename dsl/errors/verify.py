"""Faults that the checker of compiled programs finds. They are Andiron's, never the author's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from ..source import Span
from .base import InternalError, Label, render


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
