"""Schedules that are refused because an element of the compiled program could be wrong."""

from __future__ import annotations

from .base import UserError


class ElementNotCovered(UserError):
    """An element would be read before it is written, never be stored, or be stored by units that cannot synchronise.

    Every compiled program is checked for this. The lines of the schedule have a meaning, so this is a fault of Andiron's, which
    is refused rather than compiled to wrong results. Another tile or level on the line, or a schedule without it, may be right.
    The message names an element, and sizes at which it fails. Please report it, with the text.
    """

    id = "element-not-covered"
