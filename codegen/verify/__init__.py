"""Checks of tile programs: a program is well formed, and computes each point exactly once."""

from .exactly_once import check_once
from .field_elements import FieldDomain

__all__ = ["FieldDomain", "check_once"]
