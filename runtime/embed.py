"""Ops and schedules embedded in Python text: `andiron.op("...")` and `@andiron.kernel("...")`."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Callable
from typing import Any

from .kernel import Kernel


def op(text: str, schedule: str | None = None, target: str | None = None, threads: int | None = None, **sizes: int) -> Kernel:
    """The kernel of a text with one op, and schedules for it if any."""
    from .compile import compile

    return compile(_dedented(text), None, schedule, target, threads, **sizes)


def kernel(text: str, schedule: str | None = None, target: str | None = None, threads: int | None = None, **sizes: int) -> Any:
    """A decorator: the function's body is replaced by the op of the text, its name and docstring stay.

        @andiron.kernel(\"\"\"
        op scale[N](X: f32[N]) -> (Y: f32[N]):
            Y[i] = 2.0 * X[i]
        \"\"\")
        def scale(X): ...

    Arguments are passed as the function's signature says, by position or by name, so defaults work; beyond them `out` and
    `threads` are taken as `Kernel` takes them. The text is compiled at once, and so refused at once; it is built at the
    first call. The kernel is the function's attribute `kernel`.
    """
    made = op(text, schedule, target, threads, **sizes)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        import inspect

        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Any, out: Any = None, threads: int | None = None, **named: Any) -> Any:
            bound = signature.bind(*args, **named)
            bound.apply_defaults()
            return made(*bound.args, out=out, threads=threads, **bound.kwargs)

        call.kernel = made  # type: ignore[attr-defined]
        return call

    return decorate


def _dedented(text: str) -> str:
    return textwrap.dedent(text).strip("\n") + "\n"
