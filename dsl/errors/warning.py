"""What is allowed and right, and slow: warnings of `check`. They end nothing; the exit status stays 0."""

from __future__ import annotations

from .base import UserError


class Caution(UserError):
    """A schedule that compiles and is slow.

    Its subclasses say why, at the line that asks for it, and what to write instead.
    """

    id = "caution"
    word = "warning"
