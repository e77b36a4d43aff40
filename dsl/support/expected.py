"""Checks of arguments at the library's functions: an error names the wrong argument, not a later failure."""

from __future__ import annotations

from numbers import Integral, Real
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


def expect_count(name: str, value: Any, least: int, what: str) -> None:
    """Raises ArgumentKind where the argument `name` is no integer, or is less than `least`."""
    expected = f"{what}: a whole number from {least} on"
    expect(name, value, Integral, expected)
    if value < least:
        raise ArgumentKind(f"`{name}` is {value}; expected {expected}")


def expect_flag(name: str, value: Any) -> None:
    """Raises ArgumentKind where the argument `name` is none of True, False, 1 and 0."""
    expected = "True or False"
    expect(name, value, Integral, expected)
    if value not in (0, 1):
        raise ArgumentKind(f"`{name}` is {value}; expected {expected}")


def expect_time(name: str, value: Any) -> None:
    """Raises ArgumentKind where the argument `name` is no number of seconds from 0 on."""
    expected = "a time in seconds, from 0 on"
    expect(name, value, Real, expected)
    if not value >= 0:  # not a number, either
        raise ArgumentKind(f"`{name}` is {value}; expected {expected}")
