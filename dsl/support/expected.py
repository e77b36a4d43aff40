"""Checks of arguments at the library's functions: an error names the wrong argument, not a later failure."""

from __future__ import annotations

from typing import Any

from ..errors.run import ArgumentKind

_SHOWN = 60  # characters of a wrong argument


def expect(name: str, value: Any, kinds: type | tuple[type, ...], what: str, help: str | None = None) -> None:
    """Raises ArgumentKind where the argument `name` is none of `kinds`, of which `what` tells a person."""
    if isinstance(value, kinds):
        return
    shown = repr(value)
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
    raise ArgumentKind(f"`{name}` is {shown} of type {type(value).__name__}; expected {what}", help=help)
